"""Planted mistakes about databases that decide by their rows, and who looks after these."""

from __future__ import annotations

from onceq.core.management import trail
from onceq.core.rights import demands
from onceq.core.state import branch_table, seen_rows
from onceq.model import requests
from onceq.partners import recovery
from tests.planted.planted import Planted, demanded, edited

TESTS = "tests/unit/core/rights/test_demands_whose_rows.py::test_"
ADDS = f"{TESTS}nobody_adds_to_the_rows_of_another"

PLANTED = (
    Planted(
        "anybody-looks-for-the-rows-of-another",
        demanded(requests.AskRows, demands._known),
        f"{TESTS}who_has_no_part_in_a_database_changes_nothing_of_its_rows",
    ),
    Planted(
        "whoever-looks-for-rows-takes-the-database-as-it-is",
        edited(demands, "    if item.found >= 0:\n", "    if True:\n"),
        f"{TESTS}a_database_is_shared_by_a_right",
    ),
    Planted(
        "anybody-adds-to-the-rows-of-another",
        edited(demands, "    yield from _to_use_rows(step, item.owner, agent_of(item.xid))\n", ""),
        ADDS,
    ),
    Planted(
        "a-database-is-nobodys-before-a-row-has-decided",
        edited(demands,
               "next((one.by for one in step.state.branches if agent_of(one.xid) == agent), None)",
               "None"),
        ADDS,
    ),
    Planted(
        "what-is-known-of-rows-is-of-who-runs-the-manager",
        edited(branch_table, "committed(agent, marks.branch, branch.by)",
               'committed(agent, marks.branch, "")'),
        f"{TESTS}who_has_committed_by_a_row_looks_after_the_rows",
    ),
    Planted(
        "a-database-that-is-taken-as-it-is-is-nobodys",
        edited(seen_rows, "Rows(kept=rows.last, last=rows.last, by=rows.by)",
               "Rows(kept=rows.last, last=rows.last)"),
        f"{TESTS}an_operator_takes_any_database_as_it_is",
    ),
    Planted(
        "that-a-database-is-taken-as-it-is-stands-in-no-trail",
        edited(trail, 'Deed("accept database", item.agent) if item.found < 0 else NOTHING',
               "NOTHING"),
        f"{TESTS}an_operator_takes_any_database_as_it_is",
    ),
    Planted(
        "rows-of-others-are-trouble",
        edited(recovery, "if isinstance(error, AccessDenied) and name not in",
               "if False and name not in"),
        "tests/unit/partners/test_last_recovery.py::"
        "test_rows_that_are_for_others_to_look_after_are_no_trouble",
    ),
)  # fmt: skip
