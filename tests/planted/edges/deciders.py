"""Planted mistakes about whose a decision is, and who may end what others have promised."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.management import work_views
from onceq.core.state import branch_table, state
from onceq.core.transaction import second_phase, unit_of_work, xa_branch
from onceq.model import requests
from onceq.model.requests.request import Needs
from onceq.partners import recovery
from tests.planted.planted import Planted, demanded, edited

OWNED = "tests/unit/core/test_rights_deciders.py::test_"
RIGHTS = "tests/unit/core/test_rights_recovering.py::test_"
RECOVERY = "tests/unit/partners/test_procedures_deciding.py::test_"
ROWS = "tests/unit/partners/test_recovery_last.py::test_"
CHECKPOINT = "tests/property/test_checkpoint.py::test_"
RESTART = f"{OWNED}a_decision_is_of_the_same_one_after_a_restart"
DECIDES = f"{OWNED}a_branch_that_decides_for_others_is_decided_by_who_has_promised_it"
ANCHOR = f"{OWNED}what_stands_for_branches_elsewhere_is_decided_by_who_has_prepared_it"

PLANTED = (
    Planted(
        "anybody-ends-a-decision",
        edited(required_rights, "    if known - {step.known_by(item.owner)}:", "    if False:"),
        f"{OWNED}who_has_decided_says_when_it_is_told",
    ),
    Planted(
        "anybody-ends-the-telling-of-a-promise",
        edited(required_rights, "        known.add(step.known_by(teller))\n", "        pass\n"),
        f"{OWNED}who_is_at_work_is_not_made_to_leave_it_to_others",
    ),
    Planted(
        "a-commit-does-not-say-who-has-decided",
        edited(unit_of_work, 'by = step.known_by(item.owner) if tx.gtrid else ""', 'by = ""'),
        f"{OWNED}who_has_decided_says_when_it_is_told",
    ),
    Planted(
        "whose-a-decision-is-stands-in-no-record",
        edited(branch_table, '        if self.by:\n            more +=',
               '        if False:\n            more +='),
        RESTART,
    ),
    Planted(
        "who-has-promised-stands-in-no-record",
        edited(branch_table, '        if self.by:\n            values["by"]',
               '        if False:\n            values["by"]'),
        DECIDES,
    ),
    Planted(
        "whose-a-decision-is-stands-in-no-checkpoint",
        edited(branch_table, "[gtrid, d.partners, d.at_s, d.by]",
               '[gtrid, d.partners, d.at_s, ""]'),
        f"{CHECKPOINT}decisions_and_promises_are_of_the_same_one_after_a_checkpoint",
    ),
    Planted(
        "what-a-row-decides-is-of-who-tells-it",
        edited(second_phase,
               'step.state.branches.numbered(tx.branch).by if tx.gtrid and tx.branch else ""',
               "step.known_by(tx.owner)"),
        DECIDES,
    ),
    Planted(
        "a-promise-does-not-say-whose-it-is",
        edited(xa_branch, "put_on_record(step, tx, step.known_by(item.owner))",
               'put_on_record(step, tx, "")'),
        DECIDES,
    ),
    Planted(
        "a-prepare-does-not-say-whose-it-is",
        edited(xa_branch, "    put_on_record(step, tx, by)\n", '    put_on_record(step, tx, "")\n'),
        ANCHOR,
    ),
    Planted(
        "a-branch-without-work-is-decided-by-anybody",
        edited(required_rights, "    if not judged and whose", "    if False and whose"),
        ANCHOR,
    ),
    Planted(
        "a-branch-that-decides-for-others-is-judged-by-its-own-work",
        edited(required_rights, "(tx.sends or tx.receives) and not tx.gtrid",
                                  "tx.sends or tx.receives"),
        f"{OWNED}what_partners_have_at_stake_is_more_than_the_work_here",
    ),
    Planted(
        "what-a-group-decides-elsewhere-is-nobodys",
        edited(state, "decide(prepared, setup.at, setup.by)",
               'decide(prepared, setup.at, "")'),
        ANCHOR,
    ),
    Planted(
        "a-batch-is-given-up-ahead-of-time-for-all",
        edited(second_phase, "GroupOver(item.prefix, step.known_by(item.owner))",
               'GroupOver(item.prefix, "")'),
        f"{OWNED}a_batch_is_given_up_ahead_of_time_for_oneself",
    ),
    Planted(
        "who-may-not-prepare-dooms-all-the-same",
        edited(required_rights,
               "own = branch is not None and whose(step, branch) == step.known_by(item.owner)",
               "own = True"),
        f"{OWNED}who_may_not_prepare_a_branch_does_not_doom_it",
    ),
    Planted(
        "a-suspended-branch-is-ended-by-anybody",
        demanded(requests.EndBranch, Needs.NOTHING),
        f"{OWNED}a_branch_that_is_suspended_is_not_ended_by_others",
    ),
    Planted(
        "branches-are-shown-whole",
        edited(work_views, "messages=0, bytes=0, received=0, queues=(), destinations=()\n", "\n"),
        f"{OWNED}a_branch_of_another_is_seen_without_what_it_does",
    ),
    Planted(
        "branches-of-others-are-hidden-from-recovery",
        edited(work_views, "        for tx in step.units.open_branches.values()\n    ]  # fmt",
               "        for tx in step.units.open_branches.values()\n"
               "        if may(step, owner, to_decide(step, owner, tx))\n    ]  # fmt"),
        f"{RIGHTS}a_right_at_the_promise_of_another_that_is_gone_keeps_the_decision_until_it_is_back",
    ),
    Planted(
        "decisions-are-shown-to-everybody",
        edited(work_views, "        if whole or made.by == own\n", ""),
        RESTART,
    ),
    Planted(
        "versions-are-shown-to-everybody",
        edited(work_views, "return lambda one: whole or",
               "return lambda one: isinstance(one, tuple) or whole or"),
        f"{OWNED}versions_are_shown_to_whose_application_it_is",
    ),
    Planted(
        "the-branch-of-another-keeps-recovery-waiting",
        edited(recovery, "            except (errors.PartnerLost, errors.AccessDenied) as error:",
               "            except errors.PartnerLost as error:"),
        f"{RECOVERY}what_is_not_for_this_application_to_decide_does_not_keep_others_waiting",
    ),
    Planted(
        "the-decision-of-another-ends-recovery",
        edited(recovery, "                except errors.AccessDenied:\n",
               "                except ZeroDivisionError:\n"),
        f"{RECOVERY}the_decision_of_another_is_left_to_him",
    ),
    Planted(
        "the-row-of-another-keeps-recovery-waiting",
        edited(recovery, "        except errors.AccessDenied as error:\n",
               "        except ZeroDivisionError as error:\n"),
        f"{ROWS}what_is_not_for_this_application_to_decide_does_not_keep_others_waiting",
    ),
)  # fmt: skip
