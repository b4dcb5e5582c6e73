"""What a send is for which nothing was said, with every kind of client (finding K1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from onceq.errors import ReplyTimeout, WrongQueueKind
from tests.daemon.applications import KINDS, emptied, manager_with

T = r"private$\orders"
N = r"private$\plain"
FAR = r"DIRECT=OS:FAR\private$\far"


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory, transactional=[T], plain=[N]) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any) -> Iterator[Any]:
    """A manager whose queues are empty."""
    with emptied(manager):
        yield manager


def spellings(qm: Any, queue: str) -> list[str]:
    """Every name of a queue of this manager, and lists with it."""
    short = queue.partition("\\")[2]
    names = [
        queue, queue.upper(), rf".\private$\{short}", rf"{qm.name}\private$\{short}",
        rf"DIRECT=OS:.\private$\{short}", rf"DIRECT=OS:localhost\private$\{short}",
        rf"DIRECT=OS:{qm.name}\private$\{short}", qm.queue(queue).format_name,
    ]  # fmt: skip
    return [*names, *(f"{name},{FAR}" for name in names[4:]), f"{FAR},{names[-1]}"]


def taken(qm: Any, queue: str) -> list[bool]:
    """Whether the messages of a queue came in transactions, which are taken out."""
    return [message.transactional for message in qm.receive_many(queue, timeout=0.0)]


@pytest.mark.parametrize("queue", [T, N])
def test_a_send_is_what_the_queue_takes_whatever_its_name(qm: Any, queue: str) -> None:
    kind = queue == T
    for name in spellings(qm, queue):
        qm.send(name, "one")
        qm.send_many(name, ["two", "three"])
        qm.send(name, "recoverable", delivery="recoverable")
        assert taken(qm, queue) == [kind] * 4, name
        with pytest.raises(WrongQueueKind):
            qm.send(name, "no", transactional=not kind)
        with pytest.raises(WrongQueueKind):
            qm.send_many(name, ["no", "no"], transactional=not kind)
    assert qm.queue(queue)["messages"] == 0
    qm.purge(FAR)


@pytest.mark.parametrize("queue", [T, N])
def test_every_way_of_sending_chooses_alike(qm: Any, queue: str) -> None:
    kind = queue == T
    tracked = qm.send_tracked(queue, "tracked")
    with pytest.raises(ReplyTimeout, match="it is in its queue"):
        qm.request(queue, "asked", timeout=0.0)
    asked = qm.peek_many(queue)[-1]
    qm.reply(asked, "answer")
    qm.send_current(queue, "current")
    qm.send(queue, "later", delay=timedelta(seconds=1))
    with qm.open_queue(queue, access="send") as opened:
        assert opened.transactional is kind
        opened.send("handle")
        with pytest.raises(WrongQueueKind):
            opened.send("no", transactional=not kind)
    (ending,) = tracked.outcomes()
    assert ending.state == "arrived"
    assert taken(qm, queue) == [kind] * 4
    assert qm.receive(queue, timeout=30.0).text == "later"
    (ending,) = tracked.outcomes()
    assert ending.state == "received"


def test_what_was_purged_is_told_once(qm: Any) -> None:
    for name in spellings(qm, T)[:8]:
        tracked = qm.send_tracked(name, "x")
        qm.purge(T)
        assert [one.state for one in tracked.outcomes()] == ["purged"], name


def test_a_large_batch_is_what_the_queue_takes(qm: Any) -> None:
    bodies = [b"x" * (3 << 20)] * 7
    for queue, kind in ((T, True), (N, False)):
        qm.send_many(queue, bodies)
        assert {m.transactional for m in qm.peek_many(queue)} == {kind}
        with pytest.raises(WrongQueueKind):
            qm.send_many(queue, bodies, transactional=not kind)
        assert qm.purge(queue) == len(bodies)


def test_elsewhere_it_is_a_transaction_unless_it_is_express(qm: Any) -> None:
    qm.send(FAR, "one")
    qm.send(FAR, "two", delivery="express")
    qm.send(FAR, "three", transactional=False)
    assert {m.text: m.transactional for m in qm.peek_many(FAR)} == {
        "one": True, "two": False, "three": False,
    }  # fmt: skip
    qm.purge(FAR)


def test_queues_of_both_kinds_are_not_reached_by_one_send(qm: Any) -> None:
    both = rf"DIRECT=OS:.\{T},DIRECT=OS:.\{N}"
    for wanted in (None, True, False):
        with pytest.raises(WrongQueueKind, match="send to them apart"):
            qm.send(both, "x", transactional=wanted)
    with pytest.raises(WrongQueueKind), qm.transaction() as tx:
        tx.send(both, "x")
    assert qm.queue(T)["messages"] == qm.queue(N)["messages"] == 0


def test_a_transaction_refuses_at_the_call_and_goes_on(qm: Any) -> None:
    with qm.transaction() as tx:
        tx.send(T, "one")
        for name in spellings(qm, N):
            with pytest.raises(WrongQueueKind, match="not transactional"):
                tx.send(name, "no")
            with pytest.raises(WrongQueueKind):
                tx.send_many(name, ["no", "no"])
        tx.send(T, "two")
    assert taken(qm, T) == [True, True]


def test_a_queue_that_was_made_anew_is_looked_at_anew(qm: Any) -> None:
    """By somebody else: this session still knows what the queue was before."""
    name = r"private$\again"
    here = rf"DIRECT=OS:.\{name}"
    qm.create_queue(name)
    qm.send(here, "plain")
    for kind in (True, False):
        known = dict(qm._state.destinations)
        qm.delete_queue(name)
        qm.create_queue(name, transactional=kind)
        qm._state.destinations |= known
        qm.send(here, "one")
        assert taken(qm, name) == [kind]
    known = dict(qm._state.destinations) | {here: True}
    qm._state.destinations |= known
    tx = qm.transaction()
    tx.send(here, "too late to be refused at the call")
    with pytest.raises(WrongQueueKind, match="takes nothing that is sent in a transaction"):
        tx.commit()
    qm.send(here, "two")
    assert taken(qm, name) == [False]
    qm.delete_queue(name)
