"""A queue that an operator has paused: messages come, and nobody receives the next one."""

from __future__ import annotations

import pytest

from onceq.client.plans.receive import receive
from onceq.errors import ReceiveTimeout, UnsupportedFormatName
from onceq.model import requests
from onceq.model.limits import RECEIVE_BYTES_MAX
from onceq.model.requests import Look, Seek
from tests.conformance.reading import drive, unit
from tests.conformance.world import Node, World, Worlds

Q, PLAIN = r"private$\q", r"private$\n"
HERE, HERE_PLAIN = r"DIRECT=OS:.\private$\q", r"DIRECT=OS:.\private$\n"
THERE = r"DIRECT=OS:B\private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    for node in (world["A"], world["B"]):
        node.create("q")
        node.create("n", transactional=False)
    return world


def nothing_is_received(node: Node, queue: str) -> None:
    with pytest.raises(ReceiveTimeout, match="an operator has paused"):
        node.receive(queue)


def test_messages_come_and_wait_until_it_is_resumed(world: World) -> None:
    a, b = world["A"], world["B"]
    b.steer(Q, "pause")
    since = b.look("queue", Q).paused_since
    assert since > 0
    a.once(THERE, b"1")
    world.run(5)
    assert b.bodies(Q) == [b"1"], "looking goes on"
    nothing_is_received(b, Q)
    b.steer(Q, "pause")
    assert b.look("queue", Q).paused_since == since, "it was paused then, and not again"
    b.steer(Q, "resume")
    assert b.look("queue", Q).paused_since == 0
    assert [m.body for m in b.receive(Q)] == [b"1"]


def test_in_a_transaction_and_outside(world: World) -> None:
    a = world["A"]
    for name, here in ((Q, HERE), (PLAIN, HERE_PLAIN)):
        if name == Q:
            a.once(here, b"1")
        else:
            a.send(0, here, b"1")
        a.steer(name, "pause")
        nothing_is_received(a, name)
    tx = a.begin()
    with pytest.raises(ReceiveTimeout, match="an operator has paused"):
        a.receive(Q, tx=tx)
    a.steer(Q, "resume")
    assert [m.body for m in a.receive(Q, tx=tx)] == [b"1"], "the transaction goes on"
    a.commit(tx)


def test_what_a_transaction_holds_is_committed_and_what_it_gives_back_waits(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", b"2")
    first, second = a.begin(), a.begin()
    a.receive(Q, tx=first)
    a.receive(Q, tx=second)
    a.steer(Q, "pause")
    a.commit(first)
    a.abort(second)
    assert a.bodies(Q) == [b"2"]
    nothing_is_received(a, Q)


def test_it_is_paused_after_a_restart(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1")
    a.steer(Q, "pause")
    a.kill()
    a.start()
    nothing_is_received(a, Q)
    a.steer(Q, "resume")
    a.kill()
    a.start()
    assert [m.body for m in a.receive(Q)] == [b"1"]


def test_who_names_a_message_gets_it(world: World) -> None:
    """That is what operators do meanwhile: they take some out, and move them."""
    a = world["A"]
    a.once(HERE, b"1", b"2")
    a.steer(Q, "pause")
    (first, second) = [m.lookup_id for m in a.messages(Q)]
    taken = a.ask(requests.Receive(Q, bytes_max=RECEIVE_BYTES_MAX, lookup=first, seek=Seek.CURRENT))
    assert [m.body for m in taken] == [b"1"]
    assert a.ask(requests.Remove(Q, 0, second, second)) == 1
    assert a.bodies(Q) == []


def test_what_a_search_or_a_whole_receive_has_found_waits(world: World) -> None:
    """Finding J5: the client looks, and then takes by place, as who names a message does."""
    a = world["A"]
    for name, here in ((Q, HERE), (PLAIN, HERE_PLAIN)):
        if name == Q:
            a.once(here, b"1", correlation_id=b"c" * 20)
        else:
            a.send(0, here, b"1", correlation_id=b"c" * 20)
        a.steer(name, "pause")
        for timeout in (0.0, 30.0):
            search = receive(unit(a).session, name, correlation_id=b"c" * 20, timeout=timeout)
            with pytest.raises(ReceiveTimeout, match="an operator has paused"):
                drive(a, search)
        for place in ("first", "last"):
            with pytest.raises(ReceiveTimeout, match="an operator has paused"):
                drive(a, receive(unit(a).session, name, seek=place, timeout=0.0))
    work = unit(a)
    for timeout in (0.0, 30.0):
        with pytest.raises(ReceiveTimeout, match="an operator has paused"):
            drive(a, work.receive_transaction(Q, timeout=timeout, deadline=None, incomplete="wait"))
    a.steer(Q, "resume")
    found = drive(a, work.receive_transaction(Q, timeout=0.0, deadline=None, incomplete="wait"))
    assert found.bodies() == [b"1"]
    a.commit(work.number)


def test_what_was_found_is_received_when_it_is_resumed(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", correlation_id=b"c" * 20)
    a.steer(Q, "pause")
    world.after(20_000_000, lambda: a.steer(Q, "resume"))
    found = drive(a, receive(unit(a).session, Q, correlation_id=b"c" * 20, timeout=60.0))
    assert found.body == b"1"


def test_its_subqueues_are_open(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1")
    tx = a.begin()
    (one,) = [m.lookup_id for m in a.messages(Q)]
    a.ask(requests.MoveMessage(Q, Q + ";aside", one, tx))
    a.commit(tx)
    a.steer(Q, "pause")
    assert a.look("queue", Q + ";aside").paused_since == 0 < a.look("queue", Q).paused_since
    assert [m.body for m in a.receive(Q + ";aside")] == [b"1"]


def test_its_journal_is_open(world: World) -> None:
    """Over a restart, too: it is a queue of the system, and those are never paused."""
    a = world["A"]
    a.ask(requests.SetQueue(Q, {"journal": True}))
    a.once(HERE, b"1")
    a.once(HERE, b"2")
    a.receive(Q)
    a.steer(Q, "pause")
    assert a.look("queue", Q + ";journal").paused_since == 0
    a.kill()
    a.start()
    nothing_is_received(a, Q)
    assert [m.body for m in a.receive(Q + ";journal")] == [b"1"]


def test_what_cannot_be_paused(world: World) -> None:
    a = world["A"]
    for name in ("SYSTEM$;DEADXACT", Q + ";aside"):
        a.once(HERE, b"1")
        if name.startswith(Q):
            tx = a.begin()
            (one,) = [m.lookup_id for m in a.messages(Q)][:1]
            a.ask(requests.MoveMessage(Q, name, one, tx))
            a.commit(tx)
        with pytest.raises(UnsupportedFormatName):
            a.steer(name, "pause")


@pytest.mark.inside("a checkpoint is made there")
def test_a_checkpoint_keeps_it(world: World) -> None:
    a = world["A"]
    a.steer(Q, "pause")
    assert a.engine is not None
    a.engine.checkpoint()
    a.pump()
    a.kill()
    a.start()
    assert a.ask(Look("queue", Q)).paused_since > 0
