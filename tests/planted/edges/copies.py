"""Mistakes about what a copy does by itself, and about what goes with a queue: the owner changes
while something goes on."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.management import copies, jobs, rights
from onceq.core.state import state
from onceq.core.transaction import xa_branch
from onceq.model import policy
from onceq.model import rights as model
from tests.planted.planted import Planted, edited

OWNERS = "tests/unit/core/test_rights_owners.py::test_"
ALONE = "tests/conformance/test_by_itself.py::test_"
PROMISES = "tests/unit/core/test_rights_promises.py::test_"

PLANTED = (
    Planted(
        "a-copy-tells-how-messages-ended",
        edited(state, "for index, wanted in list(queue.wanting.items()):",
               "for index, wanted in ():"),
        f"{ALONE}by_itself_acknowledgments_copy",
    ),
    Planted(
        "a-copy-keeps-no-dead-letters-of-its-own",
        edited(state, "if one.flags & (PUT_DEADLETTER | PUT_JOURNAL)", "if False"),
        f"{ALONE}by_itself_acknowledgments_copy",
    ),
    Planted(
        "a-copy-goes-on-with-jobs",
        edited(copies, "        step.setup(each)\n",
               "        if not isinstance(each, setups.JobEnded):\n            step.setup(each)\n"),
        f"{ALONE}by_itself_jobs_copy",
    ),
    Planted(
        "a-copy-holds-what-the-original-has-promised",
        edited(copies,
               "    open_ = [tx for tx in step.units.open_branches.values() if tx.branch]\n",
               "    return 0\n"),
        f"{ALONE}by_itself_promises_copy",
    ),
    Planted(
        "a-copy-knows-tokens",
        edited(copies, "        step.setup(each)\n",
               "        isinstance(each, setups.TokenRevoked) or step.setup(each)\n"),
        f"{ALONE}by_itself_tokens_copy",
    ),
    Planted(
        "a-job-goes-on-into-the-next-queue-of-that-name",
        edited(jobs, "if any(number not in step.state.all_queues for number in job.into):",
               "if False:"),
        "tests/unit/core/management/test_jobs.py::"
        "test_a_job_does_not_go_on_into_the_next_queue_of_that_name",
    ),
    Planted(
        "what-an-owner-gives-stays",
        edited(rights, "    queue = step.state.queues[name].number\n", "    queue = 0\n"),
        f"{OWNERS}what_an_owner_has_given_goes_with_the_queue",
    ),
    Planted(
        "an-owners-grant-does-for-an-administrators",
        edited(rights, "one.queue in (0, queue)]", "True]"),
        f"{OWNERS}what_an_administrator_grants_is_about_the_name_and_stays",
    ),
    Planted(
        "what-a-grant-goes-with-stands-in-no-checkpoint",
        edited(policy, "list(row_of_grant(one))", "list(row_of_grant(one)[:4])"),
        f"{OWNERS}what_an_owner_has_given_goes_with_the_queue",
    ),
    Planted(
        "what-is-about-one-queue-is-a-pattern",
        edited(model, "    if owner or queue:\n", "    if False:\n"),
        f"{OWNERS}who_owns_a_queue_called_like_a_pattern_owns_that_one_alone",
    ),
    Planted(
        "a-send-is-judged-by-the-name-that-came-first",
        edited(required_rights, "return _elsewhere(said) if", "return _elsewhere(queue.name) if"),
        f"{PROMISES}one_shot_and_in_a_transaction_the_same_name_is_judged",
    ),
    Planted(
        "a-promise-is-judged-again",
        edited(required_rights, "    if tx is None or (tx.branch and whose(step, tx) == "
               "step.known_by(owner)):\n", "    if tx is None:\n"),
        f"{PROMISES}a_right_that_is_taken_away_after_the_promise_changes_nothing",
    ),
    Planted(
        "a-promise-forgets-the-name-that-was-used",
        edited(xa_branch, '            note["said"] =', '            note["unsaid"] ='),
        f"{PROMISES}another_one_decides_it_with_the_rights_at_the_names_that_were_used",
    ),
)  # fmt: skip
