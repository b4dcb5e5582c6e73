"""Mistakes about two copies that run side by side, found by simulated worlds with two copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.peers import duplicate_identity, lives, trust
from onceq.core.peers.lives import gave
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.setups import LifeBegun
from onceq.core.state.state import State
from onceq.core.step.step import Step
from onceq.core.transfer import abandoned_streams, arrival, in_doubt, outgoing_queue, sessions
from onceq.packet.acks import OrderAck
from proof.sim.faults import beside as worlds
from tests.planted.planted import SIM, Planted, edited

SENT_FIRST = (
    "tests/conformance/test_lives.py::test_what_the_copy_has_sent_first_goes_from_the_original_too"
)
NEVER_CAME = (
    "tests/conformance/test_clones.py::test_that_it_never_came_from_one_copy_is_no_proof_for_both"
)
AWAY = (
    "tests/unit/core/peers/test_lives.py::"
    "test_a_copy_that_was_away_when_two_were_found_is_told_when_it_is_back"
)
Plant = Callable[[pytest.MonkeyPatch], None]


def _beside(plant: Plant, *, clones: float = 0.5) -> Plant:
    """Plant it, and let two copies run side by side in every world."""

    def both(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worlds, "SHARE", 1.0)
        monkeypatch.setattr(worlds, "CLONES", clones)
        plant(monkeypatch)

    return both


def _same_life(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(step: Step, entropy: bytes, made_ns: int = 0, **more: object) -> None:
        state = step.state
        step.setup(
            LifeBegun(
                id=entropy[:16],
                stamp=state.stamp,
                ordinal=state.next_ordinal,
                message=state.next_message,
                made_ns=made_ns,
            )
        )

    monkeypatch.setattr(lives, "begin", begin)


def _same_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(state: State, random: int) -> int:
        return max(state.next_message, state.number_ceiling)

    monkeypatch.setattr(lives, "_message", message)


def _deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("met", "acknowledged_more"):
        monkeypatch.setattr(sessions, name, lambda *what: None)


def _not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a manager's own identity is not kept."""
    note = duplicate_identity.note

    def of_others(step: Step, guid: bytes, what: str, **values: Any) -> None:
        if guid != step.identity.guid:
            note(step, guid, what, **values)

    for module in (duplicate_identity, abandoned_streams):
        monkeypatch.setattr(module, "note", of_others)


def _away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that was away when two were found is not told when it is back."""
    met = duplicate_identity.met

    def found(step: Step) -> int:
        return sum(clash.count for clash in step.sessions.watch.clashes.values())

    def at_once(step: Step, peer: Peer) -> None:
        before = found(step)
        met(step, peer)
        if found(step) == before:
            peer.warning = b""

    monkeypatch.setattr(sessions, "met", at_once)


def _behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody begins a stream that is newer than the other copy's."""
    monkeypatch.setattr(abandoned_streams, "_fence", lambda step, outgoing_queue, here: None)


def _proof_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never came in a stream of this copy was not delivered, whatever the other one sends."""
    edited(in_doubt, "if not copies and isinstance(queue, OutgoingQueue):", "if False:")(
        monkeypatch
    )


def _impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only another copy has sent is never acknowledged to this one."""
    believes = trust.believes_order_ack

    def narrow(step: Step, peer: Peer, ack: OrderAck) -> bool:
        out = step.state.streams.get(ack.stream)
        if out is not None and out.head.stream == ack.stream:
            beyond = out.reach(ack.number, step.state.stamp) > out.ever_sent
            if beyond and not out.of_earlier_life(step.state.stamp):
                return False
        return believes(step, peer, ack)

    monkeypatch.setattr(arrival, "believes_order_ack", narrow)


def _hearsay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is acknowledged of another life's stream lets the messages of this one go."""

    def strange(step: Step, peer: Peer, source: bytes, ack: OrderAck) -> bool:
        for number in sorted(peer.outgoing):
            served = step.state.all_queues.get(number)
            if isinstance(served, OutgoingQueue) and not gave(step, ack.stream):
                own = OrderAck(ack.acker, served.head.stream, ack.number)
                outgoing_queue.order_acked(step, own)
        return False

    monkeypatch.setattr(abandoned_streams, "strange", strange)


PLANTED = (
    Planted("two-copies-give-the-same-numbers", _beside(_same_life), SIM),
    Planted("two-copies-give-the-same-message-identifiers", _beside(_same_messages), SIM),
    Planted("two-copies-are-noticed-by-nobody", _beside(_deaf), SIM),
    Planted("a-copy-keeps-to-itself-that-it-is-one-of-two", _beside(_not_told), SIM),
    Planted("a-copy-that-was-away-is-not-told", _away, AWAY),
    Planted("a-copy-stays-behind-the-streams-of-the-other", _beside(_behind), SIM),
    Planted("what-the-copy-has-sent-blocks-the-original", _impossible, SENT_FIRST),
    Planted("never-came-from-one-copy-is-proof-for-both", _proof_for_both, NEVER_CAME),
    Planted("an-acknowledgment-for-the-copy-counts-here", _beside(_hearsay), SIM),
)
