"""Planted mistakes about transactions that a row in a database decides, and about their links."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.branch import Phase
from tests.planted.planted import Planted

ENGINE = "tests/unit/service/test_engine.py::"
RECOVERY = "tests/unit/partners/test_last_recovery.py::"
CORE = "tests/unit/core/transaction/test_last_agent.py::"


def _what_is_held_is_shown_at_once(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.committer import Committer
    from onceq.service.due import NEVER

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
    from onceq.core.state.seen_rows import SeenRows

    original = SeenRows.marked

    def marked(self: SeenRows, name: str) -> None:
        if not self.get(name).mark:
            original(self, name)

    patch.setattr(SeenRows, "marked", marked)


def _nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    from onceq.embedded.link import EmbeddedLink

    patch.setattr(EmbeddedLink, "_awaited", property(lambda self: False))


def _an_unbegun_promise_is_found(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transaction import last_agent

    original = last_agent._unit_of

    def unit_of(step: Any, item: Any) -> Any:
        tx = original(step, item)
        if not item.transaction:
            tx.phase = Phase.ACTIVE
        return tx

    patch.setattr(last_agent, "_unit_of", unit_of)


def _a_request_keeps_its_ticket(patch: pytest.MonkeyPatch) -> None:
    from onceq.client.link import Request

    slot: Any = Request.__dict__["ticket"]
    kept = property(
        slot.__get__, lambda self, value: slot.__set__(self, value) if value is not None
        or not hasattr(self, "ticket") else None,
    )  # fmt: skip
    patch.setattr(Request, "ticket", kept)


PLANTED = (
    Planted("what-is-held-is-shown-at-once", _what_is_held_is_shown_at_once,
            ENGINE + "test_a_held_record_is_durable_before_the_next_thing_that_is_said"),
    Planted("what-is-held-waits-for-others", _what_is_held_waits_for_others,
            ENGINE + "test_a_held_record_does_not_wait_for_ever"),
    Planted("what-leaves-is-held", _what_leaves_is_held,
            CORE + "test_what_a_row_says_is_not_synced_for_its_own_sake_unless_it_leaves"),
    Planted("nobody-is-waited-for", _nobody_is_waited_for,
            "tests/unit/embedded/test_link.py::"
            "test_what_may_show_somebody_a_message_does_not_wait_for_others_if_a_receive_waits"),
    Planted("an-unbegun-promise-is-found", _an_unbegun_promise_is_found,
            CORE + "test_what_needs_no_begin_leaves_nothing_if_it_is_refused"),
    Planted("a-mark-stays-where-it-was", _a_mark_stays_where_it_was,
            RECOVERY + "test_what_was_committed_after_a_look_was_broken_off_is_looked_for"),
    Planted("a-request-keeps-its-ticket", _a_request_keeps_its_ticket,
            "tests/unit/client/test_async_link.py::"
            "test_a_request_that_is_asked_again_is_sent_again"),
)  # fmt: skip
