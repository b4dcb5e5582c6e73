"""Copies, backups, clones: no life of a manager gives what another has given (I7, I25)."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from onceq.testing.disk import SimFiles
from onceq.testing.power import Plan
from onceq.testing.relay import Passing, faithful
from tests.conformance.world import Node, World

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"
PLAIN = "DIRECT=OS:B\\private$\\p"
MESSAGE, SENT_TIME = 56, 52


def image(node: Node) -> SimFiles:
    """A copy of its disk as it is now."""
    files = node.files
    return files.image(Plan(files.pending_writes, files.pending_names))


def put_back(node: Node, files: SimFiles) -> None:
    """Kill it, and start it from another disk."""
    if not node.dead:
        node.kill()
    node.files = files.image(Plan((), ()))
    node.start()


def no_order_acks(passing: Passing) -> list[tuple[int, Passing]]:
    return [] if passing.kind == 1 else faithful(passing)


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    world["B"].create("p", transactional=False)
    return world


def test_what_is_sent_after_a_backup_was_put_back_arrives(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"before")
    world.run(5)
    backup = image(a)
    a.kill()
    a.start()
    a.once(Q, b"lost 1", b"lost 2", b"lost 3")
    world.run(5)
    put_back(a, backup)
    a.once(Q, b"1", b"2", b"3", b"4")
    world.run(60)
    assert b.bodies(LOCAL) == [b"before", b"lost 1", b"lost 2", b"lost 3", b"1", b"2", b"3", b"4"]
    assert a.look("outgoing-queue", Q).messages == 0


def test_a_backup_of_a_running_manager_whose_messages_were_acknowledged_meanwhile(
    world: World,
) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(Q, b"1", b"2")
    backup = image(a)
    a.once(Q, b"3")
    world.mend("A", "B")
    world.run(10)
    put_back(a, backup)
    a.once(Q, b"4")
    world.run(60)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
    assert a.look("outgoing-queue", Q).messages == 0


def test_what_waits_from_earlier_lives_goes_first_each_in_its_stream(world: World) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    for life in range(3):
        a.once(Q, b"%d" % (2 * life), b"%d" % (2 * life + 1))
        assert a.look("outgoing-queue", Q).behind_stream == 2 * life
        if life == 1:
            assert a.engine is not None
            a.engine.checkpoint()
        a.kill()
        a.start()
    view = a.look("outgoing-queue", Q)
    assert (view.messages, view.first_unacked, view.last_unacked) == (6, 1, 2)
    assert view.next_number == 1
    link = world.link("A", "B")
    link.policy = no_order_acks
    world.mend("A", "B")
    world.run(20)
    assert {p.stream for p in link.data()} == {view.stream}, "the next waits for this to drain"
    link.policy = faithful
    world.run(120)
    assert b.bodies(LOCAL) == [b"%d" % n for n in range(6)]
    places = [(m.stream, m.number) for m in b.messages(LOCAL)]
    assert [number for _, number in places] == [1, 2] * 3
    assert [s for s, _ in places] == sorted(s for s, _ in places)
    assert len({s for s, _ in places}) == 3
    assert a.look("outgoing-queue", Q).messages == 0


def test_message_identifiers_do_not_come_again(world: World) -> None:
    a, b = world["A"], world["B"]
    a.send(0, PLAIN, b"0", delivery=1)
    world.run(5)
    backup = image(a)
    for at in range(4):
        put_back(a, backup)
        a.send(0, PLAIN, b"%d" % (at + 1), delivery=1)
        world.run(5)
    found = b.messages("private$\\p")
    assert [m.body for m in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert len({m.id for m in found}) == 5


def test_a_plain_message_with_an_identifier_used_before_is_another_message(world: World) -> None:
    a, b = world["A"], world["B"]
    a.send(0, PLAIN, b"first", delivery=1)
    world.run(5)
    link = world.link("A", "B")
    (kept,) = [p for p in link.seen if p.kind == 0]
    packet = bytearray(kept.packet)
    (sent,) = struct.unpack_from("<I", packet, SENT_TIME)
    link.inject(kept)
    world.run(1)
    assert b.bodies("private$\\p") == [b"first"], "a repetition"
    struct.pack_into("<I", packet, SENT_TIME, sent + 1)
    link.inject(replace(kept, packet=bytes(packet)))
    world.run(1)
    assert b.bodies("private$\\p") == [b"first"] * 2, "another life of A has given the number"


def test_a_number_that_comes_with_another_message_is_not_acknowledged(world: World) -> None:
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = no_order_acks
    a.once(Q, b"1", b"2", b"3")
    world.run(1)
    acks = len(link.order_acks())
    first, second, _ = link.data()
    link.policy = faithful
    for kept in (first, second):
        packet = bytearray(kept.packet)
        (number,) = struct.unpack_from("<I", packet, MESSAGE)
        struct.pack_into("<I", packet, MESSAGE, number + 1_000)
        link.inject(replace(kept, packet=bytes(packet)))
        world.run(1)
    (view,) = b.look("streams")
    assert (view.conflicts, view.duplicates, view.number) == (2, 0, 3)
    assert "another message" in view.clash
    assert b.bodies(LOCAL) == [b"1", b"2", b"3"]
    assert len(link.order_acks()) == acks
    (clash,) = b.look("status").clashes
    assert clash.count == 2
    # After a restart only the last one is remembered.
    b.kill()
    b.start()
    a.once(Q, b"4")
    world.run(60)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
