"""Why nothing moves: each state of an outgoing queue has its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.client.why import branch_advice, stream_why, why
from onceq.core.transfer.outgoing_queue import STATES
from onceq.model.branches import ONCEQ_FORMAT, Xid, make_gtrid
from onceq.model.identity import guid_text
from onceq.model.resultcodes import MessageClass
from onceq.model.views.looks import BranchView
from onceq.model.views.queues import EndingView, OutgoingView, PutBackView, QueueView, StreamView
from onceq.model.wording import duration

QUIET = OutgoingView(destination=r"DIRECT=OS:BETA\private$\stock", state="INACTIVE")
LOCAL = QueueView(
    state="LOCAL CONNECTION", path=r"private$\orders", messages=3, available=1, locked=2
)
THEN = 1_600_000_000


def test_nothing_waits() -> None:
    assert "nothing waits" in why(QUIET)


def test_what_ended_without_an_acknowledgment_is_not_called_acknowledged() -> None:
    assert "everything sent since the start was acknowledged" in why(QUIET)
    too_late = EndingView(MessageClass.NACK_REACH_QUEUE_TIMEOUT, 0, 2, 0, THEN)
    expired = replace(QUIET, endings=(too_late,))
    said = why(expired)
    assert "2 messages ended here without an acknowledgment, the last at 2020-09-1" in said
    assert "acknowledged" not in said
    assert "in doubt" not in said
    said = why(replace(QUIET, endings=(replace(too_late, messages=1),), in_doubt=1))
    assert "1 message ended here without" in said
    assert "1 message in doubt" in said


@pytest.mark.parametrize("waiting", [0, 1])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_was_refused_is_said_with_its_reason(waiting: int, kept: int) -> None:
    refused = EndingView(MessageClass.NACK_ACCESS_DENIED, 0, 2, kept, THEN)
    said = why(replace(QUIET, endings=(refused,), messages=waiting))
    assert "2 messages were refused (access denied there), the last at 2020-09-1" in said
    assert "acknowledged" not in said
    assert said.count("refused") == 1
    assert ("they asked for no dead letter", "1 became dead letters, the others asked for none",
            "they became dead letters")[kept] in said  # fmt: skip


def test_what_a_copy_has_set_aside_no_destination_has_refused() -> None:
    aside = EndingView(MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED, 0, 1, 1, THEN)
    said = why(replace(QUIET, endings=(aside,)))
    assert "set aside" in said
    assert "refused" not in said


def test_what_ended_in_its_queue_there_had_arrived() -> None:
    purged = EndingView(MessageClass.NACK_QUEUE_PURGED, 0, 3, 0, THEN)
    said = why(replace(QUIET, endings=(purged,)))
    assert "3 messages had arrived and ended there unreceived" in said
    assert "its queue was purged" in said


def test_paused_says_since_when_and_how_to_go_on() -> None:
    said = why(replace(QUIET, paused_since=THEN, messages=1, state="ONHOLD"))
    assert "paused by an operator since 2020-09-1" in said
    assert "1 message waits" in said
    assert "outgoing resume" in said


def test_unreachable_says_since_when_why_and_when_again() -> None:
    view = replace(QUIET, messages=10, state="DISCONNECTED", trouble="connection refused",
        trouble_since=THEN, attempts=1, retry_in_s=3.2)  # fmt: skip
    said = why(view)
    assert "10 messages cannot leave" in said
    assert "connection refused, 1 attempt)" in said
    assert "next try in 3 s" in said
    assert "trying now" in why(replace(view, retry_in_s=-1.0, attempts=2))
    assert "2 attempts" in why(replace(view, attempts=2))


def test_waiting_for_an_order_acknowledgment() -> None:
    said = why(
        replace(QUIET, state="CONNECTED", messages=5, no_ack_count=3, resend_at=THEN,
         resend_in_s=12.0, resend_count=2)
    )  # fmt: skip
    assert "3 of 5 messages" in said
    assert "order acknowledgment until" in said
    assert "after 2 time-outs" in said


def test_waiting_for_the_receivers() -> None:
    said = why(replace(QUIET, state="CONNECTED", messages=2, awaiting_final=2))
    assert "2 messages have arrived" in said


def test_being_transmitted_and_being_connected() -> None:
    assert "being transmitted" in why(replace(QUIET, state="CONNECTED", messages=2))
    assert "for the connection" in why(replace(QUIET, state="WAITING", messages=2))


def test_locked_disconnected_and_disconnecting() -> None:
    assert "hardened" in why(replace(QUIET, state="LOCKED", messages=2))
    said = why(replace(QUIET, state="DISCONNECTED", messages=2, offline_since=THEN))
    assert "disconnected by an operator" in said
    assert "qm connect" in said
    assert "being closed" in why(replace(QUIET, state="DISCONNECTING", messages=2))
    said = why(replace(QUIET, state="DISCONNECTED", messages=2, retry_in_s=30.0))
    assert "in 30 s" in said
    assert "directory" in why(replace(QUIET, state="NEED VALIDATION", messages=2))


def test_a_queue_of_this_manager() -> None:
    said = why(LOCAL)
    assert "1 message can be received" in said
    assert "2 are held by transactions until those end" in said
    assert "1 is held by transactions" in why(replace(LOCAL, locked=1))
    assert "readers" not in said
    assert "3 readers wait for more" in why(replace(LOCAL, readers_waiting=3))
    assert "1 reader waits for more" in why(replace(LOCAL, readers_waiting=1))


def test_every_state_has_its_own_sentence() -> None:
    said = {
        state: why(
            replace(
                QUIET,
                state=state,
                messages=2,
                paused_since=THEN if state == "ONHOLD" else 0,
                trouble="cable pulled" if state == "DISCONNECTED" else "",
            )
        )
        for state in STATES
        if state != LOCAL.state
    }
    said[LOCAL.state] = why(LOCAL)
    assert said["WAITING"] == said["INACTIVE"], "both wait for a connection to be made"
    assert len(set(said.values())) == len(STATES) - 1
    assert all(text.count("\n") == 0 for text in said.values())


def test_lengths_of_time() -> None:
    assert [duration(s) for s in (-1, 0.4, 119, 180, 7200)] == [
        "0 s", "0 s", "119 s", "3 min", "2 h",
    ]  # fmt: skip


def test_a_restore_is_said_with_cause_and_cure() -> None:
    put_back = PutBackView(at=THEN + 86_400, to=THEN, messages=3, known=("it has more",))
    said = why(replace(QUIET, state="CONNECTED", messages=3, put_back=put_back))
    assert "3 messages being transmitted. This queue manager was put back at 2020-09-1" in said
    assert "of 3 messages here: what waited then already and may have left in between" in said
    assert "another manager has shown: it has more" in said
    for cure in ("'onceq dead list'", "'onceq qm status'"):
        assert cure in said
    said = why(replace(QUIET, in_doubt=1, put_back=replace(put_back, messages=0, known=())))
    assert "1 message in doubt" in said
    assert "was put back" in said
    assert "waited then" not in said
    local = replace(LOCAL, put_back=replace(put_back, messages=1, known=()))
    said = why(local)
    assert "messages that were received in between are received again" in said
    assert "put back" not in why(LOCAL)
    assert "put back" not in why(QUIET)


def test_streams() -> None:
    view = StreamView(
        queue=r"private$\stock", source="abc", number=7, last_access=THEN, connected=True
    )
    assert "connected; accepted up to number 7" in stream_why(view)
    assert "from abc" in stream_why(view)
    assert "from ALPHA" in stream_why(replace(view, sender="ALPHA"))
    said = stream_why(replace(view, connected=False, duplicates=2, gaps=1, rejects=3))
    assert "not connected" in said
    for part in ("2 duplicates dropped", "1 that came before", "3 turned away since"):
        assert part in said
    assert "nothing of it was accepted" in stream_why(replace(view, number=0))


def test_a_queue_tells_what_is_delayed() -> None:
    view = QueueView(path=r"private$\q", available=2, delayed=3, delayed_until=THEN)
    assert "2 messages can be received, 3 are delayed, the first until" in why(view)


def test_what_ended_because_its_receiver_knows_of_no_delays_is_said() -> None:
    said = why(replace(QUIET, endings=(EndingView(0x80D0, 0, 1, 0, THEN),)))
    assert "it was delayed, and its receiver does not know of delays" in said


def test_each_state_of_a_branch_has_its_advice() -> None:
    here, there = bytes(16), b"T" * 16
    theirs = Xid(7, b"booking", b"queue")

    def said(phase: str, xid: Xid = theirs, agent: str = "") -> str:
        return branch_advice(BranchView(xid=str(xid), phase=phase, agent=agent), here)

    assert "its coordinator decides" in said("prepared")
    assert "a row of bank decides" in said("prepared", agent="bank")
    assert "then forget it" in said("committed by hand")
    assert "is at work" in said("active")
    ours = Xid(ONCEQ_FORMAT, make_gtrid(there, 1), b"queue")
    assert f"queue manager {guid_text(there)} decides" in said("prepared", ours)
