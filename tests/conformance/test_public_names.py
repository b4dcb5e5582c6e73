"""What is asked about a queue names it as the packets of its streams do, a public one too (CNF-22).

Finding D1: a question that could not name a public queue was answered for another one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.core.peers.duplicate_identity import MORE
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import Journal
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import Inquiry, parse_settling
from onceq.packet.arrived import SETTLING
from onceq.testing.links import faithful
from onceq.wire.mqqb import internal, session
from onceq.wire.mqqb.internal import Life
from tests.conformance.copies import clone, dead, image, put_back
from tests.conformance.policies import no_order_acks, only
from tests.conformance.world import Node, World

IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
NOT_DELIVERED = MessageClass.NACK_REACH_QUEUE_TIMEOUT


@pytest.fixture
def world() -> World:
    world = World("A", "B", directory=True)
    for name in ("q", "r"):
        world["B"].create(name, private=False)
    world.run(5)
    return world


def public(node: Node, name: str = "q") -> str:
    return str(node.look("queue", name).format_name)


def given_up(world: World, *through: int) -> None:
    """A gives up three messages; the numbers named reach B, and A hears nothing of it."""
    link, a = world.link("A", "B"), world["A"]
    link.policy = only(*through)
    a.once(public(world["B"]), b"1", b"2", b"3", journal=1, time_to_reach_queue=10)
    world.run(5)
    world.cut("A", "B")
    world.run(20)
    assert dead(a) == dict.fromkeys((b"1", b"2", b"3"), IN_DOUBT)
    link.policy = faithful
    world.mend("A", "B")


def asked(world: World) -> list[Inquiry]:
    """Which inquiries A has sent."""
    said = [parse_settling(p.packet) for p in world.link("A", "B").seen if p.kind == SETTLING]
    return [one for one in said if isinstance(one, Inquiry)]


def test_a_doubt_about_a_public_queue_becomes_certain(world: World) -> None:
    given_up(world, 1)
    world.run(60)
    a, b = world["A"], world["B"]
    assert dead(a) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}
    assert a.look("outgoing-queue", public(b)).in_doubt == 0
    assert b.bodies("q") == [b"1"]
    assert {stream.queue for stream in b.look("streams")} == {f"#5:{asked_guid(world)}"}
    b.receive("q")
    world.run(5)
    assert dead(a) == dict.fromkeys((b"2", b"3"), NOT_DELIVERED)


def asked_guid(world: World) -> str:
    (guid,) = {one.destination.guid.hex() for one in asked(world)}
    return guid


def test_a_sender_that_was_put_back_goes_on_with_a_public_queue(world: World) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(public(b), b"1", b"2")
    backup = image(a)
    world.mend("A", "B")
    world.run(10)
    a.once(public(b), b"3")
    world.run(10)
    put_back(a, backup)
    a.once(public(b), b"4")
    world.run(120)
    assert b.bodies("q") == [b"1", b"2", b"3", b"4"]


def test_of_two_public_queues_each_is_asked_about_by_itself(world: World) -> None:
    """A doubt about one queue, in the younger stream, says nothing of what was sent to another."""
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    a.once(public(b), b"1", b"2")
    world.run(5)
    link.policy = lambda p: [] if p.kind == SETTLING else no_order_acks(p)
    a.once(public(b), b"3", b"4")
    a.once(public(b, "r"), b"lost", journal=1, time_to_reach_queue=10)
    world.run(5)
    world.cut("A", "B")
    world.run(20)
    assert dead(a) == {b"lost": IN_DOUBT}
    link.policy = no_order_acks
    world.mend("A", "B")
    world.run(60)
    a.kill()
    a.start()
    link.policy = faithful
    world.run(120)
    assert b.bodies("q") == [b"1", b"2", b"3", b"4"]


@pytest.mark.unturned("public", "private", "letters", reason="it reads the direct name in a packet")
def test_an_older_manager_is_not_asked_about_a_public_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would answer for another queue. Who asked to be told the end is told that nobody knows."""

    def older(life: Life, called: str = "") -> bytes:
        return internal.mark(life).removesuffix(internal.PUBLICS_MARK)

    monkeypatch.setattr(session, "mark", older)
    a, b = world["A"], world["B"]
    given_up(world, 1)
    b.create("private")
    private = r"DIRECT=OS:B\private$\private"
    world.link("A", "B").policy = only()
    a.once(private, b"direct", journal=1, time_to_reach_queue=10)
    world.run(5)
    world.cut("A", "B")
    world.run(20)
    world.link("A", "B").policy = faithful
    world.mend("A", "B")
    world.run(120)
    assert {one.destination.direct for one in asked(world)} == {private.removeprefix("DIRECT=")}
    assert dead(a) == {b"1": IN_DOUBT, b"2": IN_DOUBT, b"3": IN_DOUBT, b"direct": NOT_DELIVERED}


def test_an_older_manager_that_cannot_name_the_queue_is_told_nothing(world: World) -> None:
    """It asks about the queue with the number 0, which is none: nothing is noted, or answered."""
    given_up(world, 1)
    link, b = world.link("A", "B"), world["B"]
    link.policy = lambda p: faithful(p) if p.kind != SETTLING else []
    world.run(60)
    (question, *_) = [
        p for p in link.seen if p.kind == SETTLING and isinstance(parse_settling(p.packet), Inquiry)
    ]
    unnamed = bytearray(question.packet)
    head = unnamed.index(b"OQX1")
    unnamed[head + 5] = 3
    link.seen.clear()
    link.inject(replace(question, packet=bytes(unnamed)))
    world.run(1)
    assert not [p for p in link.seen if p.kind == SETTLING], "no answer"
    assert [stream.queue for stream in b.look("streams")] == [f"#5:{b'q'.ljust(16, b'Q').hex()}"]


def test_a_public_queue_shows_the_streams_that_lead_to_it(world: World) -> None:
    """An operator sets one back by the queue's name, after a restart, too: it has the GUID only."""
    a, b = world["A"], world["B"]
    a.once(public(b), b"1")
    world.run(5)
    b.kill()
    b.start()
    source = guid_text(a.identity.guid)
    found = b.ask(requests.ResetStream("q", source, "as a test", dry_run=True))
    assert (found.queue, found.from_number) == (f"#5:{b'q'.ljust(16, b'Q').hex()}", 1)


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_an_end_that_is_told_to_a_copy_counts_before_it_has_sent_there(world: World) -> None:
    """Nobody has answered it for that queue yet: the directory says who has it."""
    a, b = world["A"], world["B"]
    queue = public(b)
    world.cut("A", "B")
    a.once(queue, b"1", b"2", journal=Journal.DEADLETTER)
    a.steer(queue, "pause")
    copied = image(a)
    world.mend("A", "B")
    a.steer(queue, "resume")
    world.run(10)
    twin = clone(world, a, copied)
    a.kill()
    twin.once(public(b, "r"), b"hello")
    world.run(5)
    b.receive("q")
    world.run(5)
    assert [clash.found for clash in twin.look("status").clashes] == [MORE]
    assert twin.look("outgoing-queue", queue).messages == 1
