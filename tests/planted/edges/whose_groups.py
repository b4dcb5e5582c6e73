"""Planted mistakes about whose a group is, and what others prepare under its prefix."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.state import branch_table
from onceq.core.transaction import second_phase, xa_branch
from onceq.model import branches
from tests.planted.planted import Planted, edited

TESTS = "tests/unit/core/test_rights_groups.py::test_"

PLANTED = (
    Planted(
        "a-batch-waits-for-what-others-have-prepared-in-it",
        edited(required_rights, "    yield from _of_application(step, item)\n",
               "    yield from _of_application(step, item)\n"
               "    for one in step.state.branches.of_group(item.prefix):\n"
               "        held = step.units.open_branches\n"
               "        yield from to_decide(step, item.owner, held[one.xid])\n"),
        f"{TESTS}what_another_prepares_in_a_batch_does_not_keep_it_from_being_committed",
    ),
    Planted(
        "a-batch-is-undone-by-whoever-guesses-its-prefix",
        edited(second_phase, "if not own or one.by == own]", "]"),
        f"{TESTS}who_has_the_same_rights_does_not_undo_a_batch",
    ),
    Planted(
        "a-branch-of-a-batch-is-decided-by-whoever-could-have-done-it",
        edited(required_rights, "is_group_prefix(group_of(tx.xid), step.identity.guid)", "False"),
        f"{TESTS}who_has_the_same_rights_does_not_undo_a_batch",
    ),
    Planted(
        "a-branch-of-a-batch-elsewhere-has-an-owner-too",
        edited(required_rights, "is_group_prefix(group_of(tx.xid), step.identity.guid)",
               'group_of(tx.xid) != b""'),
        f"{TESTS}a_branch_of_a_batch_elsewhere_is_decided_by_whoever_may_do_its_work",
    ),
    Planted(
        "who-runs-the-manager-gives-up-his-own-alone",
        edited(second_phase, "if not own or one.by == own]", "if one.by == own]"),
        f"{TESTS}a_batch_is_given_up_by_whose_it_is_and_by_who_runs_the_manager",
    ),
    Planted(
        "attempts-have-no-owner",
        edited(xa_branch, "if attempt and not is_attempt_for(", "if False and not is_attempt_for("),
        f"{TESTS}nobody_decides_what_another_has_rolled_back",
    ),
    Planted(
        "attempts-are-for-whoever-knows-them",
        edited(branches, 'token.hex().encode(), by.encode()))', 'token.hex().encode()))'),
        f"{TESTS}nobody_prepares_in_the_attempt_of_another",
    ),
    Planted(
        "attempts-are-marked-without-a-key",
        edited(branches, "blake2b(whole, key=key, ", "blake2b(whole, "),
        f"{TESTS}nobody_makes_the_identifier_of_an_attempt_up",
    ),
    Planted(
        "an-attempt-stays-open-when-it-is-over",
        edited(branch_table, ", (self._attempts, branch.xid.gtrid))", ",)"),
        f"{TESTS}nobody_prepares_in_the_attempt_of_another",
    ),
    Planted(
        "all-transactions-that-decide-have-one-identifier",
        edited(xa_branch, 'int.from_bytes(item.drawn, "big")', "0"),
        f"{TESTS}nobody_names_the_transaction_that_a_commit_decides",
    ),
    Planted(
        "anybody-has-groups-forgotten",
        edited(required_rights,
               "    if known is not None and known.by != step.known_by(item.owner):",
               "    if False:"),
        f"{TESTS}who_owns_an_application_has_it_forgotten",
    ),
)  # fmt: skip
