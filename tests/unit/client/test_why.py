"""Why nothing moves: each state of an outgoing queue has its sentence."""

from __future__ import annotations

from typing import Any

from onceq.client.why import duration, stream_why, why

QUIET: dict[str, Any] = {
    "destination": r"DIRECT=OS:BETA\private$\stock", "state": "inactive", "messages": 0,
    "unacknowledged": 0, "awaiting_final": 0, "paused_since": 0, "trouble": "",
    "trouble_since": 0, "attempts": 0, "retry_in_s": -1.0, "no_ack_count": 0,
    "resend_at": 0, "resend_in_s": -1.0, "resend_count": 0,
}  # fmt: skip
THEN = 1_600_000_000


def test_nothing_waits() -> None:
    assert "nothing waits" in why(QUIET)


def test_paused_says_since_when_and_how_to_go_on() -> None:
    said = why({**QUIET, "paused_since": THEN, "messages": 1, "state": "onhold"})
    assert "paused by an operator since 2020-09-1" in said
    assert "1 message waits" in said
    assert "outgoing resume" in said


def test_unreachable_says_since_when_why_and_when_again() -> None:
    view = {
        **QUIET, "messages": 10, "state": "disconnected", "trouble": "connection refused",
        "trouble_since": THEN, "attempts": 1, "retry_in_s": 3.2,
    }  # fmt: skip
    said = why(view)
    assert "10 messages cannot leave" in said
    assert "connection refused, 1 attempt)" in said
    assert "next try in 3 s" in said
    assert "trying now" in why({**view, "retry_in_s": -1.0, "attempts": 2})
    assert "2 attempts" in why({**view, "attempts": 2})


def test_waiting_for_an_order_acknowledgment() -> None:
    said = why(
        {**QUIET, "state": "connected", "messages": 5, "no_ack_count": 3, "resend_at": THEN,
         "resend_in_s": 12.0, "resend_count": 2}
    )  # fmt: skip
    assert "3 of 5 messages" in said
    assert "order acknowledgment until" in said
    assert "after 2 time-outs" in said


def test_waiting_for_the_receivers() -> None:
    said = why({**QUIET, "state": "connected", "messages": 2, "awaiting_final": 2})
    assert "2 messages have arrived" in said


def test_being_transmitted_and_being_connected() -> None:
    assert "being transmitted" in why({**QUIET, "state": "connected", "messages": 2})
    assert "for the connection" in why({**QUIET, "state": "waiting", "messages": 2})


def test_lengths_of_time() -> None:
    assert [duration(s) for s in (-1, 0.4, 119, 180, 7200)] == [
        "0 s", "0 s", "119 s", "3 min", "2 h",
    ]  # fmt: skip


def test_streams() -> None:
    view: dict[str, Any] = {
        "queue": r"private$\stock", "source": "abc", "number": 7, "last_access": THEN,
        "connected": True, "duplicates": 0, "gaps": 0, "rejects": 0,
    }  # fmt: skip
    assert "connected; accepted up to number 7" in stream_why(view)
    said = stream_why({**view, "connected": False, "duplicates": 2, "gaps": 1, "rejects": 3})
    assert "not connected" in said
    for part in ("2 duplicates dropped", "1 that came before", "3 refused"):
        assert part in said
    assert "nothing of it was accepted" in stream_why({**view, "number": 0})
