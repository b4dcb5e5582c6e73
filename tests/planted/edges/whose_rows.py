"""Planted mistakes about databases that decide by their rows, and who looks after these."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.management import trail
from onceq.core.state import branch_table
from onceq.core.transaction import xa_branch
from onceq.model import requests
from onceq.model.requests.request import Needs
from onceq.partners import recovery, sqlite
from tests.planted.planted import Planted, demanded, edited

RECOVERY = "tests/unit/partners/test_recovery_last.py::test_"
TESTS = "tests/unit/core/test_rights_whose_rows.py::test_"
ADDS = f"{TESTS}nobody_adds_to_the_rows_of_another"

PLANTED = (
    Planted(
        "anybody-looks-for-the-rows-of-another",
        demanded(requests.AskRows, Needs.NAME),
        f"{TESTS}who_has_no_part_in_a_database_changes_nothing_of_its_rows",
    ),
    Planted(
        "whoever-looks-for-rows-takes-the-database-as-it-is",
        edited(required_rights, "    if item.found != ROWS_ACCEPTED:\n", "    if True:\n"),
        f"{TESTS}a_database_is_shared_by_a_right",
    ),
    Planted(
        "anybody-adds-to-the-rows-of-another",
        edited(required_rights,
               "    yield from _to_use_rows(step, item.owner, agent_of(item.xid))\n", ""),
        ADDS,
    ),
    Planted(
        "a-database-is-nobodys-before-a-row-has-decided",
        edited(required_rights,
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
        edited(branch_table, "Rows(kept=rows.last, last=rows.last, by=rows.by)",
               "Rows(kept=rows.last, last=rows.last)"),
        f"{TESTS}an_operator_takes_any_database_as_it_is",
    ),
    Planted(
        "that-a-database-is-taken-as-it-is-stands-in-no-trail",
        edited(trail,
               'AuditEntry("accept database", item.agent) if item.found', "NO_ENTRY if item.found"),
        f"{TESTS}an_operator_takes_any_database_as_it_is",
    ),
    Planted(
        "a-failover-is-known-to-the-process-that-has-found-it",
        edited(recovery, "            yield partial(asked.rows, name, ROWS_MISSING)\n", ""),
        f"{RECOVERY}what_one_process_has_found_others_are_told",
    ),
    Planted(
        "a-promise-is-made-for-a-database-that-was-set-back",
        edited(xa_branch, "    if set_back and agent_of(item.xid) in set_back:\n",
               "    if False:\n"),
        f"{RECOVERY}what_one_process_has_found_others_are_told",
    ),
    Planted(
        "recovery-asks-at-the-first-address-only",
        edited(recovery, "self.ways = {address: way, **self.ways}",
               "self.ways = {**self.ways, address: way}"),
        f"{RECOVERY}a_database_is_asked_where_it_answers",
    ),
    Planted(
        "sqlite-goes-on-in-another-transaction",
        edited(sqlite, '            yield from self.query(connection, f"RELEASE {SAVEPOINT}")\n',
               "            yield from ()\n"),
        "tests/unit/partners/test_sqlite_last.py::"
        "test_a_statement_that_begins_another_transaction_is_noticed",
    ),
    Planted(
        "rows-of-others-are-trouble",
        edited(recovery, "if isinstance(error, errors.AccessDenied) and name not in",
               "if False and name not in"),
        "tests/unit/partners/test_recovery_last.py::"
        "test_rows_that_are_for_others_to_look_after_are_no_trouble",
    ),
)  # fmt: skip
