"""A name leads to another computer: who may tell what became of messages (finding D2).

The name B is A's way to a queue manager. Another one answers under it from some moment on: a
reinstalled computer, or a name that was given to another one. Nothing that it says is about what
the one before was given.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge, Journal
from onceq.packet.arrived import FINAL_ACK, USER
from onceq.testing.disk import Plan
from onceq.testing.links import Passing, faithful
from tests.conformance.copies import dead, image
from tests.conformance.policies import no_order_acks, only, up_to
from tests.conformance.world import Node, World, Worlds

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
ADMIN = r"DIRECT=OS:A\private$\acks"
IN_DOUBT, NOT_DELIVERED, PURGED = 0xC003, 0x8002, 0xC001

pytestmark = pytest.mark.unturned(
    "identity", reason="another queue manager comes under a name, which a certificate forbids (S4)"
)


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", "C")
    made["B"].create("q")
    made["C"].create("q")
    made["A"].create("acks", transactional=False)
    return made


def silent(passing: Passing) -> list[tuple[int, Passing]]:
    """Nothing is heard of messages: neither that they came nor how they ended."""
    return [] if passing.kind == FINAL_ACK else no_order_acks(passing)


def given_to_b(world: World, *bodies: bytes, through: bool = True) -> None:
    """A transmits to B messages of which it hears nothing; then their time is over."""
    world.link("A", "B").policy = silent if through else only()
    wishes: dict[str, Any] = {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "admin_queue": ADMIN}
    world["A"].once(Q, *bodies, journal=Journal.DEADLETTER, time_to_reach_queue=10, **wishes)
    world.run(5)
    world.cut("A", "B")
    world.run(30)
    assert dead(world["A"]) == dict.fromkeys(bodies, IN_DOUBT)


def moved(world: World) -> None:
    """C answers under the name B from now on, and has heard of A."""
    world.lead("B", "C")
    world["A"].once(Q, b"next")
    world.run(60)
    assert world["C"].bodies(LOCAL) == [b"next"]


def told(node: Node) -> list[int]:
    try:
        return [m.message_class for m in node.messages(r"private$\acks")]
    except TimeoutError:
        return []


@pytest.mark.unturned("public", "private", reason="such a name leads to one manager for good")
@pytest.mark.parametrize("restart", ["none", "kill", "crash"])
def test_the_next_one_under_a_name_settles_nothing(world: World, restart: str) -> None:
    """It has never seen the message, and B has delivered it."""
    a = world["A"]
    given_to_b(world, b"m")
    assert [m.body for m in world["B"].receive(LOCAL)] == [b"m"]
    if restart != "none":
        getattr(a, restart)()
        a.start()
    moved(world)
    world.run(4_000)
    assert dead(a) == {b"m": IN_DOUBT}
    assert told(a) == []
    assert a.look("outgoing-queue", Q).in_doubt == 1


@pytest.mark.parametrize("arrived", [True, False])
def test_the_one_that_was_given_a_message_settles_it_when_its_name_is_back(
    world: World, arrived: bool
) -> None:
    a, b = world["A"], world["B"]
    given_to_b(world, b"m", through=arrived)
    moved(world)
    world.link("A", "B").policy = faithful
    world.cut("A", "C")
    world.lead("B", "B")
    world.mend("A", "B")
    a.once(Q, b"back")
    world.run(8_000)
    assert b.bodies(LOCAL) == ([b"m", b"back"] if arrived else [b"back"])
    assert dead(a) == {b"m": IN_DOUBT if arrived else NOT_DELIVERED}
    b.ask(requests.PurgeQueue(LOCAL))
    world.run(10)
    assert dead(a) == {b"m": PURGED if arrived else NOT_DELIVERED}
    assert told(a) == ([] if arrived else [NOT_DELIVERED])


def test_what_two_managers_were_given_is_settled_by_its_end_alone(world: World) -> None:
    """Not acknowledged, it was for both of them: that it never came to one says nothing."""
    a = world["A"]
    world.link("A", "B").policy = silent
    a.once(Q, b"m", journal=Journal.DEADLETTER, time_to_reach_queue=40)
    world.run(5)
    world.cut("A", "B")
    world.lead("B", "C")
    world.link("A", "C").policy = only()  # of its messages nothing comes to C
    world.run(60)
    assert dead(a) == {b"m": IN_DOUBT}
    world.link("A", "C").policy = faithful
    world.run(4_000)
    assert dead(a) == {b"m": IN_DOUBT}
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert world["C"].bodies(LOCAL) == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_that_was_set_back_is_not_told_of(world: World, whole: bool) -> None:
    """What its operator has made the receiver forget it does not say never came."""
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(5)
    a.kill()
    a.start()  # its messages are of another stream from now on
    b.receive(LOCAL)
    given_to_b(world, b"m")
    guid = guid_text(a.identity.guid)
    b.ask(requests.ResetStream(LOCAL, guid, "a test", whole=whole))
    world.link("A", "B").policy = faithful
    world.mend("A", "B")
    world.run(4_000)
    assert dead(a) == {b"m": IN_DOUBT}
    a.once(Q, b"next")
    world.run(60)
    assert b.bodies(LOCAL) == [b"m", b"next"]
    assert dead(a) == {b"m": IN_DOUBT}
    assert told(a) == []


@pytest.mark.inside("a store is put back under its manager")
@pytest.mark.unturned("public", "private", reason="such a name leads to one manager for good")
def test_what_the_next_one_never_got_of_a_stream_that_was_left(world: World) -> None:
    """A is put back to when it had heard nothing of what it gave to B. C, under that name since,
    has accepted a later message of the stream, and has left it; the first two never came to C."""
    a, b, c = (world[name] for name in "ABC")
    link = world.link("A", "B")
    link.policy = lambda p: up_to(2)(p) if p.kind == USER else silent(p)
    a.once(Q, b"1", b"2", b"3")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    snapshot = image(a)
    link.policy = up_to(2)
    world.run(120)
    assert a.look("outgoing-queue", Q).messages == 1, "B has acknowledged the two"
    world.cut("A", "B")
    world.lead("B", "C")
    world.run(120)
    a.once(Q, b"4")
    world.run(5)
    assert c.bodies(LOCAL) == [b"3", b"4"]
    a.kill()
    a.files = snapshot.image(Plan((), ()))  # and nothing tells that it is not the same directory
    a.start()
    world.run(200)
    assert (b.bodies(LOCAL), c.bodies(LOCAL)) == ([b"1", b"2"], [b"3", b"4"])
    assert dead(a) == {b"1": IN_DOUBT, b"2": IN_DOUBT}
