"""Planted mistakes about what one application may have of the tables that all share."""

from __future__ import annotations

from onceq.core.receive import cursors, handles, receive
from onceq.core.step import shares
from onceq.core.transaction import groups, unit_of_work, xa_branch
from tests.planted.planted import Planted, edited

TESTS = "tests/unit/core/step/test_shares.py::test_"
FILLS = f"{TESTS}nobody_fills_a_table_alone"

PLANTED = (
    Planted(
        "one-application-fills-a-table",
        edited(shares, "and sum(one == by for one in owners) < share", ""),
        FILLS,
    ),
    Planted(
        "one-application-has-all-open-transactions",
        edited(unit_of_work, "OPEN_TRANSACTIONS_MAX // APPLICATION_SHARE and not room_for_owner(\n"
               "        step, owner, there, by_key, OPEN_TRANSACTIONS_MAX\n    ):",
               "OPEN_TRANSACTIONS_MAX:"),
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
        "one-application-holds-all-queues",
        edited(handles, "if not room_for_owner(step, item.owner, there, by_entry, HANDLES_MAX):",
               "if len(there) >= HANDLES_MAX:"),
        FILLS,
    ),
    Planted(
        "nobody-counts-queues-that-are-held-open",
        edited(handles, "if not room_for_owner(step, item.owner, there, by_entry, HANDLES_MAX):",
               "if False:"),
        FILLS,
    ),
    Planted(
        "one-application-has-all-cursors",
        edited(cursors, "if not room_for_owner(step, item.owner, there, by_entry, CURSORS_MAX):",
               "if len(there) >= CURSORS_MAX:"),
        FILLS,
    ),
    Planted(
        "one-application-waits-everywhere",
        edited(receive, "if not room_for_owner(step, owner, there, by_key, "
               "WAITING_READERS_MAX):", "if len(there) >= WAITING_READERS_MAX:"),
        FILLS,
    ),
    Planted(
        "who-runs-the-manager-has-a-share",
        edited(shares, "if not by or count < share:", "if count < share:"),
        f"{TESTS}who_runs_the_manager_has_all_of_it",
    ),
)  # fmt: skip
