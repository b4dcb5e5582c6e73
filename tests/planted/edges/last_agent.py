"""Planted mistakes about transactions that a row in a database decides, and about their links."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.branches import Phase
from tests.planted.planted import Planted

ENGINE = "tests/unit/service/test_engine.py::"
RECOVERY = "tests/unit/partners/test_recovery_last.py::"
MARIADB = "tests/unit/partners/test_mariadb_last.py::"
CORE = "tests/unit/core/transaction/test_xa_branch_last_agent.py::"


def _what_is_held_is_shown_at_once(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.clock import NEVER
    from onceq.service.committer import Committer

    nothing = property(lambda self: NEVER, lambda self, value: None)
    patch.setattr(Committer, "_held_us", nothing, raising=False)


def _what_is_held_waits_for_others(patch: pytest.MonkeyPatch) -> None:
    from onceq.service import committer

    patch.setattr(committer, "HELD_US", 1 << 60)


def _what_leaves_is_held(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transaction import second_phase

    patch.setattr(second_phase, "_numbered", lambda tx: True)
    patch.setattr(second_phase, "_stays_here", lambda step, change: True)


def _a_mark_stays_where_it_was(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.branch_table import SeenRows

    original = SeenRows.marked

    def marked(self: SeenRows, name: str) -> None:
        if not self.get(name).mark:
            original(self, name)

    patch.setattr(SeenRows, "marked", marked)


def _nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    from onceq.embedded.host import EmbeddedLink

    patch.setattr(EmbeddedLink, "_awaited", property(lambda self: False))


def _an_unbegun_promise_is_found(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transaction import xa_branch

    original = xa_branch._unit_of

    def unit_of(step: Any, item: Any) -> Any:
        tx = original(step, item)
        if not item.transaction:
            tx.phase = Phase.ACTIVE
        return tx

    patch.setattr(xa_branch, "_unit_of", unit_of)


def _a_request_keeps_its_ticket(patch: pytest.MonkeyPatch) -> None:
    from onceq.client.link import LinkRequest

    slot: Any = LinkRequest.__dict__["ticket"]
    kept = property(
        slot.__get__, lambda self, value: slot.__set__(self, value) if value is not None
        or not hasattr(self, "ticket") else None,
    )  # fmt: skip
    patch.setattr(LinkRequest, "ticket", kept)


def _a_round_looks_for_rows_once(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners import recovery

    looked: list[Any] = []

    def look_for_rows(*given: Any) -> Any:
        if not looked:
            looked.append((yield from original(*given)))
        return looked[0]

    original = recovery.look_for_rows
    patch.setattr(recovery, "look_for_rows", look_for_rows)


def _what_ends_late_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.branch_table import SeenRows

    original = SeenRows.committed

    def committed(self: SeenRows, name: str, number: int, by: str) -> None:
        original(self, name, number, by)
        self.get(name).late.clear()

    patch.setattr(SeenRows, "committed", committed)


def _no_note_is_asked_for(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.branch_table import SeenRows

    original = SeenRows.found

    def found(self: SeenRows, name: str, *, noted: bool) -> None:
        original(self, name, noted=noted)
        self.get(name).noted = False

    patch.setattr(SeenRows, "found", found)


def _what_is_accepted_counts_for_what_comes(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.branch_table import SeenRows

    def forget(self: SeenRows, name: str) -> None:
        self._by_name.pop(name, None)

    patch.setattr(SeenRows, "forget", forget)


def _a_replaced_file_goes_on(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners.sqlite import SqliteAgent

    patch.setattr(SqliteAgent, "_check_same_file", lambda self: None)


def _a_savepoint_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners import mariadb

    original = mariadb._compound

    def compound(*statements: str) -> str:
        return original(*(one for one in statements if not one.startswith("RELEASE")))

    patch.setattr(mariadb, "_compound", compound)


def _every_error_of_a_commit_is_believed(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners.mariadb import MariadbDialect

    original = MariadbDialect._undo

    def undo(self: MariadbDialect, connection: Any) -> Any:
        yield from original(self, connection)
        return True

    patch.setattr(MariadbDialect, "_undo", undo)


def _a_binary_log_counts_for_nothing(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners import mariadb

    original = mariadb.check_durability

    def check_durability(settings: Any, schema: str) -> None:
        original({**settings, "log_bin": "OFF"}, schema)

    patch.setattr(mariadb, "check_durability", check_durability)


def _a_session_may_commit_what_decides(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners.sqlalchemy import SQLAlchemyLast

    patch.setattr(SQLAlchemyLast, "_on_commit", lambda self, connection: None)


def _what_went_back_to_the_pool_is_asked(patch: pytest.MonkeyPatch) -> None:
    from onceq.partners.sqlalchemy import SQLAlchemyLast

    patch.setattr(SQLAlchemyLast, "_on_rollback", lambda self, connection: None)


PLANTED = (
    Planted("what-is-held-is-shown-at-once", _what_is_held_is_shown_at_once,
            ENGINE + "test_a_held_record_is_durable_before_the_next_thing_that_is_said"),
    Planted("what-is-held-waits-for-others", _what_is_held_waits_for_others,
            ENGINE + "test_a_held_record_does_not_wait_for_ever"),
    Planted("what-leaves-is-held", _what_leaves_is_held,
            CORE + "test_what_a_row_says_is_not_synced_for_its_own_sake_unless_it_leaves"),
    Planted("nobody-is-waited-for", _nobody_is_waited_for,
            "tests/unit/embedded/test_host_link.py::"
            "test_what_may_show_somebody_a_message_does_not_wait_for_others_if_a_receive_waits"),
    Planted("an-unbegun-promise-is-found", _an_unbegun_promise_is_found,
            CORE + "test_what_needs_no_begin_leaves_nothing_if_it_is_refused"),
    Planted("a-mark-stays-where-it-was", _a_mark_stays_where_it_was,
            RECOVERY + "test_what_was_committed_after_a_look_was_broken_off_is_looked_for"),
    Planted("a-round-looks-for-rows-once", _a_round_looks_for_rows_once,
            RECOVERY + "test_a_database_that_is_set_back_in_a_round_decides_nothing_in_it"),
    Planted("what-ends-late-is-not-looked-for", _what_ends_late_is_not_looked_for,
            RECOVERY + "test_a_branch_that_ends_after_later_ones_were_found_is_looked_for"),
    Planted("no-note-is-asked-for", _no_note_is_asked_for,
            RECOVERY
            + "test_a_state_that_lacks_a_row_and_has_a_later_one_is_recognised"),
    Planted("what-is-accepted-counts-for-what-comes", _what_is_accepted_counts_for_what_comes,
            RECOVERY + "test_rows_from_before_an_operator_accepts_count_for_no_others"),
    Planted("a-replaced-file-goes-on", _a_replaced_file_goes_on,
            "tests/unit/partners/test_sqlite_last.py::"
            "test_a_file_that_was_replaced_is_a_lost_connection"),
    Planted("a-savepoint-is-not-looked-for", _a_savepoint_is_not_looked_for,
            MARIADB + "test_one_statement_looks_whether_it_is_the_same_transaction_and_commits"),
    Planted("every-error-of-a-commit-is-believed", _every_error_of_a_commit_is_believed,
            MARIADB
            + "test_an_error_after_which_nothing_is_open_may_come_from_a_commit_that_was_done"),
    Planted("a-binary-log-counts-for-nothing", _a_binary_log_counts_for_nothing,
            MARIADB + "test_a_binary_log_that_is_not_synced_cannot_decide"),
    Planted("a-session-may-commit-what-decides", _a_session_may_commit_what_decides,
            "tests/unit/partners/test_sqlalchemy_last.py::"
            "test_the_application_does_not_commit_it"),
    Planted("what-went-back-to-the-pool-is-asked", _what_went_back_to_the_pool_is_asked,
            "tests/unit/partners/test_sqlalchemy_last.py::"
            "test_what_went_back_to_the_pool_is_not_touched"),
    Planted("a-request-keeps-its-ticket", _a_request_keeps_its_ticket,
            "tests/unit/client/test_async_link.py::"
            "test_a_request_that_is_asked_again_is_sent_again"),
)  # fmt: skip
