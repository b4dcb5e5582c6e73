"""Queue managers whose clocks differ: each counts by its own, and streams rise all the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.clocks import START_S
from tests.conformance.world import Node, World, Worlds

Q = r"DIRECT=OS:B\private$\q"
LOCAL, ADMIN, DEAD = r"private$\q", r"private$\adm", "SYSTEM$;DEADXACT"
EVERYTHING: dict[str, Any] = {
    "acknowledge": Acknowledge(15),
    "admin_queue": ADMIN,
    "journal": Journal.DEADLETTER,
}
HOUR_S, DAY_S = 3_600, 86_400


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    world["A"].create("adm", transactional=False)
    return world


def classes(node: Node, queue: str) -> list[int]:
    """Classes of what is in a queue."""
    return [message.message_class for message in everything(node, queue)]


def everything(node: Node, queue: str) -> list[Any]:
    """What is in a queue."""
    try:
        return list(node.messages(queue))
    except ReceiveTimeout:
        return []


# ---- lifetimes -------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [-40, 40])
def test_a_time_to_be_received_is_counted_by_the_clock_of_whoever_has_it(
    world: World, ahead_s: int
) -> None:
    """CNF-2: it began by the sender's clock, and goes on by the receiver's."""
    a, b = world["A"], world["B"]
    b.clock.jump(ahead_s)
    a.once(Q, b"m", time_to_be_received=100, **EVERYTHING)
    world.run(95 - ahead_s)
    assert b.bodies(LOCAL) == [b"m"]
    world.run(10)
    assert b.bodies(LOCAL) == []
    world.run(10)
    assert classes(a, DEAD) == [C.NACK_RECEIVE_TIMEOUT]
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE, C.NACK_RECEIVE_TIMEOUT]


def test_a_time_to_reach_the_queue_is_counted_by_the_sender_until_it_leaves(world: World) -> None:
    """The receiver's clock, an hour behind, gives nothing more; nobody asks it."""
    a = world["A"]
    world["B"].clock.jump(-HOUR_S)
    world.cut("A", "B")
    a.once(Q, b"m", time_to_reach_queue=100, **EVERYTHING)
    world.run(95)
    assert classes(a, DEAD) == []
    world.run(10)
    assert classes(a, DEAD) == classes(a, ADMIN) == [C.NACK_REACH_QUEUE_TIMEOUT]


def test_a_time_to_reach_the_queue_is_over_at_a_receiver_whose_clock_is_ahead(
    world: World,
) -> None:
    """PIT-14: what is refused for it is told as such, and what follows it arrives."""
    a, b = world["A"], world["B"]
    b.clock.jump(HOUR_S)
    a.once(Q, b"m", time_to_reach_queue=100, **EVERYTHING)
    a.once(Q, b"next")
    world.run(10)
    assert b.bodies(LOCAL) == [b"next"]
    assert classes(a, DEAD) == classes(a, ADMIN) == [C.NACK_REACH_QUEUE_TIMEOUT]
    assert a.look("outgoing-queue", Q).unacknowledged == 0


def test_a_sender_whose_clock_is_ahead_is_not_punished(world: World) -> None:
    """Its messages come from the future, and are of no age."""
    a, b = world["A"], world["B"]
    a.clock.jump(HOUR_S)
    a.once(Q, b"m", time_to_reach_queue=5, **EVERYTHING)
    world.run(10)
    assert b.bodies(LOCAL) == [b"m"]
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE]


def test_a_clock_that_is_set_ends_what_waits_when_it_shows_the_time(world: World) -> None:
    """Set ahead while a message waits: it is over; set back: it waits longer, and is not lost."""
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(Q, b"soon over", time_to_reach_queue=100, journal=Journal.DEADLETTER)
    a.clock.jump(-50)
    world.run(120)
    assert classes(a, DEAD) == []
    a.clock.jump(50)
    a.once(Q, b"next")
    world.run(1)
    assert classes(a, DEAD) == [C.NACK_REACH_QUEUE_TIMEOUT]
    world.mend("A", "B")
    world.run(40)
    assert b.bodies(LOCAL) == [b"next"]


# ---- streams ---------------------------------------------------------------------------------


def test_streams_rise_after_a_clock_was_set_back(world: World) -> None:
    """EOD-14: also over a start, and over what waited then."""
    a, b = world["A"], world["B"]
    for n in range(4):
        a.once(Q, b"%d" % n)
        if n % 2:
            world.run(40)
        a.kill()
        a.clock.jump(-DAY_S)
        a.start()
    a.once(Q, b"last")
    world.run(40)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"last"]
    streams = list(dict.fromkeys(p.stream for p in world.link("A", "B").data()))
    assert len(streams) > 2
    assert all(one < other for one, other in pairwise(streams))
    (stream,) = b.look("streams")
    assert stream.stale == 0
    assert a.look("outgoing-queue", Q).unacknowledged == 0


def test_streams_of_senders_whose_clocks_differ_do_not_meddle(worlds: Worlds) -> None:
    world = worlds("A", "B", "C")
    a, b, c = (world[name] for name in "ABC")
    b.create("q")
    a.clock.jump(HOUR_S)
    c.clock.jump(-HOUR_S)
    for n in range(3):
        a.once(Q, b"a%d" % n)
        c.once(Q, b"c%d" % n)
        world.run(40)
    assert [body for body in b.bodies(LOCAL) if body[:1] == b"a"] == [b"a0", b"a1", b"a2"]
    assert [body for body in b.bodies(LOCAL) if body[:1] == b"c"] == [b"c0", b"c1", b"c2"]
    for node in (a, c):
        assert node.look("outgoing-queue", Q).unacknowledged == 0


# ---- acknowledgments ---------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [-DAY_S, DAY_S])
def test_acknowledgments_have_the_time_of_whoever_made_them(world: World, ahead_s: int) -> None:
    """Order, final and administration acknowledgments of a clock that is off by a day count."""
    a, b = world["A"], world["B"]
    b.clock.jump(ahead_s)
    a.once(Q, b"m", **EVERYTHING)
    world.run(5)
    b.receive(LOCAL)
    world.run(40)
    assert a.look("outgoing-queue", Q).unacknowledged == 0
    assert 0 <= a.look("eod-send", Q).eod_last_ack_time - START_S < 60
    found = everything(a, ADMIN)
    assert [m.message_class for m in found] == [C.ACK_REACH_QUEUE, C.ACK_RECEIVE]
    for message in found:
        assert 0 <= message.sent_time - START_S - ahead_s < 60
        assert 0 <= message.arrived_time - START_S < 60
    assert classes(a, DEAD) == []
