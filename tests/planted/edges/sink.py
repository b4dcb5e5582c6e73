"""Mistakes about the sink of Spark: what is a repetition, and where rows go."""

from __future__ import annotations

import pytest

from onceq.core.state.branch_table import Branches
from onceq.core.transaction import second_phase, xa_branch
from onceq.spark import connections
from onceq.spark.sink import branches, task, writer
from onceq.spark.sink import options as sink_options
from onceq.spark.sink import rows as sink_rows
from tests.planted.planted import Planted, edited, replaced

GROUPS = "tests/conformance/test_groups.py::test_"
PARTS = "tests/conformance/test_group_parts.py::test_"
UNIT = "tests/unit/spark/"
AWAY = "tests/spark/test_spark_sink_away.py::test_"
POOL = "tests/spark/test_spark_pool.py::test_"


def _others_are_not_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Branches, "decide", lambda self, numbers, at_s: None)


PLANTED = (
    Planted(
        "another-write-is-a-repetition", replaced(second_phase, "_same", lambda known, item: None),
        GROUPS + "what_was_committed_as_another_is_no_repetition",
    ),
    Planted(
        "group-without-its-other-parts", _others_are_not_decided,
        PARTS + "all_parts_take_effect_by_one_record",
    ),
    Planted(
        "anchors-are-left-out",
        edited(xa_branch, "if not (tx.sends or tx.receives or anchor):",
               "if not (tx.sends or tx.receives):"),
        PARTS + "what_was_given_up_is_rolled_back_everywhere",
    ),
    Planted(
        "undecided-parts-are-aborted",
        replaced(Branches, "attempt", lambda self, gtrid: None),
        PARTS + "all_parts_take_effect_by_one_record",
    ),
    Planted(
        "repeated-attempts-hide-the-decision",
        edited(
            xa_branch,
            "    if at_work:\n        answer = DecisionState.OPEN\n    elif item",
            "    if at_work or step.state.branches.in_group(item.gtrid):\n"
            "        answer = DecisionState.OPEN\n    elif item",
        ),
        PARTS + "a_straggler_does_not_hide_what_was_decided",
    ),
    Planted(
        "columns-in-any-order-are-other-rows",
        edited(sink_rows, "sorted((name, index) for", "list((name, index) for"),
        UNIT + "sink/test_rows_sum.py::test_columns_are_known_by_name",
    ),
    Planted(
        "addresses-are-computers",
        edited(sink_options, "if not _ADDRESS.match(name) and _possible(name):", "if True:"),
        UNIT + "sink/test_options_targets.py::"
        "test_0_8_an_address_for_a_computer_is_refused_before_it_waits_for_days",
    ),
    Planted(
        "what-was-staged-is-forgotten-with-its-connection",
        edited(
            branches,
            "self._doubtful, self._branch, self._given = self._branch.xid, None, 0",
            "self._doubtful, self._branch = self._branch.xid, None",
        ),
        AWAY + "an_answer_is_lost_at_any_request_of_a_task",
    ),
    Planted(
        "a-branch-in-doubt-is-left",
        replaced(branches, "fence", lambda manager, xid: None),
        AWAY + "an_answer_is_lost_at_any_request_of_a_task",
    ),
    Planted(
        "a-branch-at-work-elsewhere-is-over",
        edited(branches, "except errors.UnknownBranch:",
               "except (errors.UnknownBranch, errors.BranchState):"),
        AWAY + "an_answer_is_lost_at_any_request_of_a_task",
    ),
    Planted(
        "rows-that-were-given-away-are-kept",
        edited(
            branches,
            "given = Run(rows.bodies.data, rows.bodies.lengths[:])", "given = rows.bodies",
        ),
        AWAY + "an_answer_is_lost_at_any_request_of_a_task",
    ),
    Planted(
        "an-anchor-is-prepared-only-once",
        edited(task, "            if tried:\n                fence(home, xid)\n", ""),
        AWAY + "an_answer_is_lost_at_either_of_two_queue_managers",
    ),
    Planted(
        "an-anchor-that-begins-late-ends-the-task",
        edited(task, "except errors.DuplicateBranch as error", "except ZeroDivisionError as error"),
        AWAY + "an_answer_is_lost_at_either_of_two_queue_managers",
    ),
    Planted(
        "the-driver-asks-once",
        edited(writer, "if once:", "if True:"),
        AWAY + "a_queue_manager_is_killed_while_the_driver_commits",
    ),
    Planted(
        "connections-that-failed-are-kept",
        edited(
            connections,
            "made.close()\n            raise", "self._give(key, made)\n            raise",
        ),
        POOL + "one_for_writing_is_used_again_by_the_next_task",
    ),
    Planted(
        "two-tasks-share-a-connection",
        edited(connections, "kept.pop()[1] if kept", "kept[-1][1] if kept"),
        POOL + "one_for_writing_is_used_again_by_the_next_task",
    ),
    Planted(
        "a-wrong-address-is-waited-for",
        edited(branches, "isinstance(error, errors.WrongAddress) and not met()", "False"),
        UNIT + "sink/test_branches_line.py::test_what_was_never_there_is_not_waited_for",
    ),
    Planted(
        "a-host-that-is-started-again-is-a-wrong-address",
        edited(branches, "isinstance(error, errors.WrongAddress) and not met()",
               "isinstance(error, errors.WrongAddress)"),
        UNIT + "sink/test_branches_line.py::"
        "test_a_name_that_is_not_known_for_a_while_is_one_that_is_away",
    ),
)  # fmt: skip
