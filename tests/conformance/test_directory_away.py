"""The directory is away, or has changed: what was promised waits, and nothing of it is dropped.

Findings J3 (acknowledgments), J4 (messages for a queue that has left) and D5 (one queue by
two names).
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model import requests
from onceq.model.limits import ACKS_DEFERRED_S, ENDS_ASKED_S
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.copies import dead, image, put_back
from tests.conformance.world import Node, World, Worlds

pytestmark = pytest.mark.unturned(
    "public", "restore", reason="it has public queues of its own, and counts what is told"
)

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
ACKS = r".\acks"


@pytest.fixture
def world(worlds: Worlds) -> World:
    """A has a public queue for acknowledgments, and B one for messages; B is at q, too."""
    made = worlds("A", "B", directory=True)
    made["A"].create("acks", private=False, transactional=False)
    made["B"].create("q")
    made["B"].create("orders", private=False)
    made.run(2)
    return made


def public(node: Node, queue: str) -> str:
    name = str(node.look("queue", queue).format_name)
    assert name.startswith("PUBLIC=")
    return name


def asking(world: World) -> dict[str, Any]:
    return {"acknowledge": Acknowledge(15), "admin_queue": public(world["A"], ACKS)}


def classes(node: Node) -> list[int]:
    try:
        return [m.message_class for m in node.messages(ACKS)]
    except TimeoutError:
        return []


def again(node: Node, how: str) -> None:
    if how != "none":
        getattr(node, how)()
        node.start()


# ---- acknowledgments (J3) --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_acknowledgments_wait_for_the_directory(world: World, how: str) -> None:
    a, b = world["A"], world["B"]
    wishes = asking(world)
    world.directory_online(False)
    again(b, how)  # what the directory said last is forgotten
    a.once(Q, b"1", b"2", **wishes)
    world.run(20)
    b.receive(LOCAL)
    world.run(5)
    again(b, how)
    b.ask(requests.PurgeQueue(LOCAL))
    world.run(20)
    known = how == "none"
    assert known or classes(a) == []
    again(b, how)
    world.directory_online(True)
    world.run(30)
    assert sorted(classes(a)) == [2, 2, C.ACK_RECEIVE, C.NACK_QUEUE_PURGED]
    again(b, how)
    world.run(30)
    assert len(classes(a)) == 4, "each once"


@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_a_public_queue_of_this_computer_needs_no_directory(world: World, how: str) -> None:
    a = world["A"]
    wishes = asking(world)
    world.directory_online(False)
    again(a, how)
    a.once(Q, b"m", time_to_reach_queue=5, **wishes)
    world.cut("A", "B")
    world.run(2)
    a.send(0, wishes["admin_queue"], b"direct")
    a.once(Q, b"never left", time_to_reach_queue=5, **wishes)
    world.run(30)
    assert C.NACK_REACH_QUEUE_TIMEOUT in classes(a)
    assert b"direct" in a.bodies(ACKS)


@pytest.mark.inside("days of looking at a file that is not there")
def test_acknowledgments_do_not_wait_for_ever(world: World) -> None:
    a, b = world["A"], world["B"]
    wishes = asking(world)
    world.directory_online(False)
    again(b, "kill")
    a.once(Q, b"purged", **wishes)
    world.run(20)
    b.ask(requests.PurgeQueue(LOCAL))
    a.once(Q, b"1", **wishes)
    world.run(ACKS_DEFERRED_S + 100)
    world.directory_online(True)
    world.run(60)
    assert classes(a) == []
    b.receive(LOCAL)
    world.run(10)
    assert classes(a) == [C.ACK_RECEIVE]


def test_what_names_two_administration_queues_is_acknowledged_at_each_once(world: World) -> None:
    a, b = world["A"], world["B"]
    a.create("near", transactional=False)
    wishes = asking(world)
    wishes["admin_queue"] += r",DIRECT=OS:A\private$\near"
    world.directory_online(False)
    again(b, "kill")
    a.once(Q, b"1", **wishes)
    world.run(20)
    world.directory_online(True)
    world.run(30)
    assert classes(a) == [2]
    assert [m.message_class for m in a.messages(r"private$\near")] == [2]


# ---- committed when the queue has left (J4) --------------------------------------------------


@pytest.mark.parametrize("connected", [True, False])
def test_what_is_committed_after_its_queue_has_left_ends_at_once(
    world: World, connected: bool
) -> None:
    """Sent before, in a transaction: it is as undeliverable as what was committed before."""
    a, b = world["A"], world["B"]
    name = public(b, r".\orders")
    if connected:
        a.once(name, b"before")
        world.run(5)
    tx = a.begin()
    a.send(tx, name, b"late", journal=Journal.DEADLETTER)
    b.delete(r".\orders")
    world.run(5)
    a.look("status")
    world.run(1)
    a.commit(tx)
    world.run(5)
    assert dead(a) == {b"late": C.NACK_BAD_DESTINATION_QUEUE}
    assert a.look("outgoing-queue", name).messages == 0


# ---- one queue by two names (finding D5) -------------------------------------------------------


def forget_entry(world: World, queue: str) -> None:
    """Somebody takes a queue of B out of the directory."""
    assert world.directory is not None
    there = world.directory.look().snapshot
    assert there is not None
    (computer,) = (one for one in there.computers if one.name == "B")
    kept = [one for one in there.queues.values() if one.computer == "B" and one.name != queue]
    world.directory.register(computer, kept)


def two_names(world: World, *, met: bool = True) -> tuple[str, str]:
    """A has used the public name of B's queue, and then the direct one: both share one outgoing
    queue, which has the public name. Then the line goes.

    Args:
        met: Whether A has been connected to B.
    """
    a, b = world["A"], world["B"]
    names = public(b, r".\orders"), r"DIRECT=OS:B\orders"
    if not met:
        world.cut("A", "B")
    for name in names:
        a.once(name, b"first")
    world.run(5)
    if met:
        assert b.receive(r".\orders", count=2).bodies() == [b"first", b"first"]
        world.cut("A", "B")
    assert a.look("outgoing-queue", names[1]) == a.look("outgoing-queue", names[0])
    return names


@pytest.mark.parametrize("met", [True, False])
@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_a_direct_name_needs_no_directory_whatever_else_its_queue_was_called(
    world: World, how: str, *, met: bool
) -> None:
    a, b = world["A"], world["B"]
    _, direct = two_names(world, met=met)
    a.once(direct, b"1")
    world.directory_online(False)
    again(a, how)
    a.once(direct, b"2")
    assert a.look("outgoing-queue", direct).state != "NEED VALIDATION"
    world.mend("A", "B")
    world.run(30)
    assert b.bodies(r".\orders") == ([] if met else [b"first", b"first"]) + [b"1", b"2"]


@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_what_was_sent_to_a_direct_name_does_not_end_with_the_public_one(
    world: World, how: str
) -> None:
    """The directory loses the entry, and the queue is there."""
    a, b = world["A"], world["B"]
    _, direct = two_names(world)
    a.once(direct, b"1", journal=Journal.DEADLETTER)
    b.kill()  # it would write its entry again
    forget_entry(world, "orders")
    world.run(5)
    a.look("lists")
    world.run(1)
    again(a, how)
    assert dead(a) == {}
    a.once(direct, b"2", journal=Journal.DEADLETTER)
    b.start()
    world.mend("A", "B")
    world.run(60)
    assert sorted(b.bodies(r".\orders")) == [b"1", b"2"]
    assert dead(a) == {}


@pytest.mark.inside("a disk is put back")
@pytest.mark.parametrize("how", ["none", "kill"])
def test_a_computer_is_asked_for_what_it_has_although_its_queue_has_left(
    world: World, how: str
) -> None:
    """B was put back, and has forgotten the message: only B can say so."""
    a, b = world["A"], world["B"]
    before = image(b)
    name = public(b, r".\orders")
    a.once(name, b"m", journal=Journal.DEADLETTER)
    world.run(30)
    assert a.look("outgoing-queue", name).awaiting_final == 1
    put_back(b, before)
    b.delete(r".\orders")
    world.run(5)
    again(a, how)
    world.run(ENDS_ASKED_S + 100)
    assert a.look("outgoing-queue", name).awaiting_final == 0
    assert dead(a) == {b"m": C.NACK_RECEIVE_TIMEOUT_AT_SENDER}
