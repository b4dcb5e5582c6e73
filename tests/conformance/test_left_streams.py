"""When a receiver is asked about streams that it has left, what it says, and what is moved.

Each of these holds one condition of ``core/transfer/abandoned_streams.py`` or
``core/transfer/pending_outcomes.py`` that nothing else would miss.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from onceq.core.inputs import PutBack
from onceq.model.limits import ENDS_ASKED_S
from onceq.model.message import Journal
from onceq.packet.acks import STALE, EndsAsked, EndsOpen, Inquiry, TurnedAway, parse_settling
from onceq.packet.arrived import ORDER_ACK, SETTLING, USER
from onceq.testing.links import Passing, faithful
from proof.sim.base.packets import names_end
from proof.sim.faults import lies
from tests.conformance.clocks import START_S
from tests.conformance.copies import dead, image, put_back
from tests.conformance.foreign import STRANGER, Foreign
from tests.conformance.stranding import LOCAL, Q, newer, stranded
from tests.conformance.world import Node, World, fast

Policy = Callable[[Passing], list[tuple[int, Passing]]]
DOUBT = 0xC003


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


def said(world: World, what: type) -> list[object]:
    """What A and B have said to each other about streams and ends, of one kind."""
    found = [parse_settling(p.packet) for p in world.link("A", "B").seen if p.kind == SETTLING]
    return [one for one in found if isinstance(one, what)]


def lost(*kinds: int, what: type | None = None) -> Policy:
    """Packets of these kinds are lost, and of those about streams one kind."""

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        gone = p.kind in kinds
        gone = gone or (
            what is not None and p.kind == SETTLING and isinstance(parse_settling(p.packet), what)
        )
        return [] if gone else faithful(p)

    return policy


def overtake(world: World, stream: int) -> None:
    """A message of a stream that is newer than this one comes from another life of A."""
    link = world.link("A", "B")
    kept = [p for p in link.data() if p.number == 1][-1]
    packet = bytearray(kept.packet)
    at, _ = names_end(packet, 0)
    struct.pack_into("<QII", packet, at + 4, stream + (1 << 32), 1, 0)
    link.inject(replace(kept, packet=bytes(packet)))
    world.run(0.5)


# ---- what is moved ------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", range(5))
def test_what_stands_behind_what_was_moved_keeps_its_stream(kept: int) -> None:
    """One message leaves at a time, so that the last that was moved and the first of the next
    stream are never one run."""
    world = World("A", "B", settings=fast(unacknowledged_messages_max=1))
    a, b = world["A"], world["B"]
    b.create("q")
    stranded(world, b"1", b"2", b"3")
    passed = 0

    def some(p: Passing) -> list[tuple[int, Passing]]:
        nonlocal passed
        passed += p.kind == SETTLING
        return faithful(p) if p.kind != SETTLING or passed <= kept else []

    world.link("A", "B").policy = some
    world.run(100)
    a.crash()
    a.start()
    for body in (b"4", b"5", b"6"):
        a.once(Q, body)
    world.run(2)
    world.link("A", "B").policy = faithful
    world.run(300)
    assert b.bodies(LOCAL) == [b"1", b"N", b"2", b"3", b"4", b"5", b"6"]
    assert a.look("outgoing-queue", Q).messages == 0
    assert dead(a) == {}


def test_what_is_stranded_behind_a_stream_that_was_announced_in_vain(world: World) -> None:
    """What was to go on in the announced stream has ended before anything was answered; then what
    came later is left in its turn."""
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = lost(ORDER_ACK, SETTLING)
    a.once(Q, b"1", time_to_reach_queue=60)
    world.run(0.5)
    newer(world, a)
    passed = 0

    def some(p: Passing) -> list[tuple[int, Passing]]:
        nonlocal passed
        passed += p.kind == SETTLING and b"OQX1" in p.packet
        answers = p.kind == SETTLING and isinstance(parse_settling(p.packet), list)
        return faithful(p) if not answers or passed <= 3 else []

    link.policy = some
    world.run(100)
    link.policy = lambda p: [] if p.kind in (USER, ORDER_ACK, SETTLING) else faithful(p)
    a.once(Q, b"2")
    world.run(0.5)
    view = a.look("outgoing-queue", Q)
    overtake(world, view.stream)
    link.policy = faithful
    world.run(200)
    assert a.look("outgoing-queue", Q).messages == 0
    assert b.bodies(LOCAL)[-1] == b"2"


def test_what_a_receiver_has_forgotten_is_not_said_to_have_never_come(world: World) -> None:
    """B has accepted both, and was put back to when it knew that no more; the first is in doubt
    at A, the second still waits. B has never begun their stream, as far as it remembers."""
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = lost(ORDER_ACK, SETTLING)
    a.once(Q, b"1", journal=Journal.DEADLETTER, time_to_reach_queue=30)
    a.once(Q, b"2", journal=Journal.DEADLETTER)
    world.run(0.5)
    newer(world, a)
    assert b.bodies(LOCAL) == [b"1", b"2", b"N"]
    world.run(60)
    assert dead(a) == {b"1": DOUBT}
    put_back(b, image(b))
    assert b.engine is not None
    b.engine.submit(PutBack(0, 0, 1, 100))
    world.run(0)
    link.policy = faithful
    world.run(200)
    assert dead(a) == {b"1": DOUBT, b"2": DOUBT}, "neither is certain"
    assert b.bodies(LOCAL) == [b"1", b"2", b"N"], "and nothing came again"


# ---- when it is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize("what", [TurnedAway, None])
def test_a_stream_that_was_left_is_noticed_when_no_acknowledgment_comes(
    world: World, what: type | None
) -> None:
    """That they are turned away, and acknowledgments of the other stream, are lost for ever."""
    stranded(world, b"1", b"2", b"3")
    world.link("A", "B").policy = lost(ORDER_ACK, what=what)
    world.run(100)
    world.link("A", "B").policy = faithful
    world.run(20)
    assert world["B"].bodies(LOCAL) == [b"1", b"N", b"2", b"3"]
    assert dead(world["A"]) == {}


def test_a_sender_whose_messages_are_turned_away_asks_at_once() -> None:
    """It does not wait for the time of its acknowledgments."""
    world = slow()
    world.link("A", "B").policy = lost(ORDER_ACK)
    world["A"].once(Q, b"4")
    world.run(2)
    assert world["B"].bodies(LOCAL) == [b"1", b"N", b"2", b"3", b"4"]


def test_a_sender_that_is_acknowledged_another_stream_asks_at_once() -> None:
    world = slow()
    world.link("A", "B").policy = lost(what=TurnedAway)
    world["A"].once(Q, b"4")
    world.run(2)
    assert world["B"].bodies(LOCAL) == [b"1", b"N", b"2", b"3", b"4"]


def slow() -> World:
    """As ``stranded``; and acknowledgments are waited for for hours."""
    world = World("A", "B", settings=fast(resend_first_s=10_000))
    world["B"].create("q")
    stranded(world, b"1", b"2", b"3")
    return world


def test_nobody_is_asked_while_acknowledgments_come(world: World) -> None:
    """They are late, so that something is always under way when an old timer rings."""
    a, b = world["A"], world["B"]

    def late(p: Passing) -> list[tuple[int, Passing]]:
        return [(3_000_000, p)] if p.kind == ORDER_ACK else faithful(p)

    world.link("A", "B").policy = late
    for at in range(60):
        a.once(Q, b"%d" % at)
        world.run(1)
    assert len(b.bodies(LOCAL)) == 60
    assert said(world, Inquiry) == []


def test_what_is_refused_for_being_from_the_future_is_not_asked_about(world: World) -> None:
    """It was not left; nothing is known of it."""
    a = world["A"]
    a.clock.jump(30 * 86_400)
    a.kill()
    a.start()
    a.once(Q, b"1")
    world.run(1)
    refused = said(world, TurnedAway)
    assert refused
    assert all(one.reason != STALE for one in refused)  # type: ignore[attr-defined]
    assert said(world, Inquiry) == []


def test_managers_without_the_extension_are_not_asked_for_ends() -> None:
    world = World("A", "B", settings=fast(settle_doubts=False))
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(2 * ENDS_ASKED_S)
    assert [p for p in world.link("A", "B").seen if p.kind == SETTLING] == []
    assert a.look("outgoing-queue", Q).awaiting_final == 1


def test_who_does_not_answer_is_asked_less_and_less_often(world: World) -> None:
    """And from the beginning again when he has answered."""
    a = world["A"]
    link = world.link("A", "B")
    link.policy = lost(what=EndsOpen)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(2 * ENDS_ASKED_S)
    asked = len(said(world, EndsAsked))
    assert 3 <= asked <= 12
    link.policy = faithful
    world.run(2 * ENDS_ASKED_S)
    assert said(world, EndsOpen)
    link.policy = lost(what=EndsOpen)
    before = len(said(world, EndsAsked))
    reconnect(world, a)
    world.run(600)
    assert len(said(world, EndsAsked)) - before >= 3


def reconnect(world: World, node: Node) -> None:
    """The line goes, and comes again."""
    world.cut("A", "B")
    world.run(1)
    world.mend("A", "B")
    node.once(Q, b"hello")
    world.run(20)


@pytest.mark.unturned("lines", reason="its moments are shorter than the line")
def test_what_somebody_else_says_of_a_stream_makes_nobody_ask(world: World) -> None:
    """Only the manager that messages go to may say that it has left their stream."""
    a, b = world["A"], world["B"]
    world.link("A", "B").policy = lost(USER)
    a.once(Q, b"1")
    world.run(0.5)
    (view,) = a.look("outgoing")
    stranger = Foreign(world).call(a)
    now_s = START_S + world.now_us // 1_000_000
    there = view.stream + (1 << 32)
    stranger.say(lies.refused(STRANGER, a.identity.guid, view.stream, there, STALE, sent_s=now_s))
    world.run(0.5)
    assert said(world, Inquiry) == []
    world.link("A", "B").policy = faithful
    world.run(60)
    assert b.bodies(LOCAL) == [b"1"]
