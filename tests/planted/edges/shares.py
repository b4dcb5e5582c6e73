"""Planted mistakes about what one application may have of the tables that all share."""

from __future__ import annotations

from onceq.core.transaction import groups, shares, unit_of_work, xa_branch
from tests.planted.planted import Planted, edited

TESTS = "tests/unit/core/transaction/test_shares.py::test_"
FILLS = f"{TESTS}nobody_fills_a_table_alone"

PLANTED = (
    Planted(
        "one-application-fills-a-table",
        edited(shares, "and sum(one == by for one in owners) < share", ""),
        FILLS,
    ),
    Planted(
        "one-application-has-all-open-transactions",
        edited(unit_of_work, "if not room_to_begin(step, owner, OPEN_TRANSACTIONS_MAX):",
               "if len(step.units.transactions) >= OPEN_TRANSACTIONS_MAX:"),
        FILLS,
    ),
    Planted(
        "one-application-has-all-promises",
        edited(xa_branch, "if not room_for(by, (one.by for one in table), len(table), "
               "PREPARED_MAX):", "if len(table) >= PREPARED_MAX:"),
        FILLS,
    ),
    Planted(
        "one-application-has-all-decisions",
        edited(xa_branch, "if not room_for(by, owners, count, DECISIONS_MAX):",
               "if count >= DECISIONS_MAX:"),
        FILLS,
    ),
    Planted(
        "one-application-has-all-names",
        edited(groups, "if room_for(by, (one.by for _, one in groups), len(groups), GROUPS_MAX):",
               "if len(groups) < GROUPS_MAX:"),
        FILLS,
    ),
    Planted(
        "who-runs-the-manager-has-a-share",
        edited(shares, "if not by or count < share:", "if count < share:"),
        f"{TESTS}who_runs_the_manager_has_all_of_it",
    ),
)  # fmt: skip
