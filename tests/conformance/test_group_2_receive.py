"""Conformance cases 26 to 30: where messages may be received (SND-26, RCV-11)."""

from __future__ import annotations

from pathlib import Path

import pytest

import onceq
from onceq.errors import QueueNotFound, TransactionUsage
from onceq.model.requests import Receive, Seek
from tests.conformance.reading import code_of, cursor, seek
from tests.conformance.world import Node, World, Worlds

Q, PLAIN = r"private$\q", r"private$\plain"
REMOTE = r"DIRECT=OS:B\private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    for name in ("A", "B"):
        world[name].create("q")
    world["A"].create("plain", transactional=False)
    return world


@pytest.fixture
def a(world: World) -> Node:
    return world["A"]


def test_case_026_transactional_receive_from_a_plain_queue(a: Node) -> None:
    a.send(0, r"DIRECT=OS:.\private$\plain", b"m")
    a.create("empty", transactional=False)
    (place,) = a.messages(PLAIN).lookup_ids
    at = cursor(a, PLAIN)
    tx = a.begin()
    for how, more in (
        (Seek.CURRENT, {"lookup": place}), (Seek.FIRST, {}), (Seek.LAST, {}),
        (Seek.CURRENT, {"cursor": at}), (Seek.CURRENT, {"wait_s": 5}),
    ):  # fmt: skip
        assert code_of(seek, a, PLAIN, how, peek=False, tx=tx, **more) == 0xC00E0050, (how, more)
    for name in (PLAIN, r"private$\empty", f"{PLAIN};JOURNAL"):
        with pytest.raises(TransactionUsage) as caught:
            a.receive(name, tx=tx)
        assert caught.value.hresult == 0xC00E0050
    assert a.bodies(PLAIN) == [b"m"]
    a.commit(tx)
    assert a.bodies(PLAIN) == [b"m"]


def test_case_027_transactional_receive_from_a_remote_queue(world: World, a: Node) -> None:
    world["B"].once(r"DIRECT=OS:.\private$\q", b"m")
    private = world["B"].look("queue", Q).format_name
    tx = a.begin()
    for name in (REMOTE, rf"DIRECT=TCP:{world['B'].address}\private$\q", private, r"B\private$\q"):
        with pytest.raises(TransactionUsage) as caught:
            a.receive(name, tx=tx)
        assert caught.value.hresult == 0xC00E0050
    a.commit(tx)
    world.run(5)
    assert world.link("A", "B").seen == []
    assert world["B"].bodies(Q) == [b"m"]


def test_case_028_receive_from_a_remote_queue_is_asked_of_its_manager(
    world: World, a: Node
) -> None:
    """Remote read over RPC is not done: a reader connects to B, and is told."""
    b = world["B"]
    b.once(r"DIRECT=OS:.\private$\q", b"m")
    with pytest.raises(QueueNotFound, match="connect to that queue manager"):
        a.receive(REMOTE)
    assert b.receive(Q).bodies() == [b"m"]
    assert b.bodies(Q) == []


def test_case_029_peek_in_a_transaction(a: Node) -> None:
    a.once(r"DIRECT=OS:.\private$\q", b"m")
    tx = a.begin()
    with pytest.raises(TransactionUsage) as caught:
        a.ask(Receive(Q, tx, peek=True))
    assert caught.value.hresult == 0xC00E0050
    (place,) = a.messages(Q).lookup_ids
    at = cursor(a, Q)
    for how, more in (
        (Seek.CURRENT, {"lookup": place}), (Seek.FIRST, {}), (Seek.LAST, {}),
        (Seek.NEXT, {"lookup": place}), (Seek.CURRENT, {"cursor": at}),
        (Seek.CURRENT, {"allow_peek": True}), (Seek.CURRENT, {"wait_s": 5}),
    ):  # fmt: skip
        assert code_of(seek, a, Q, how, tx=tx, **more) == 0xC00E0050, (how, more)
    assert a.receive(Q, tx=tx).bodies() == [b"m"], "the transaction is as it was"
    a.commit(tx)


def test_case_030_receive_in_a_transaction_with_a_callback(tmp_path: Path) -> None:
    with onceq.open(tmp_path / "a", name="A", listen="", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        qm.send(Q, "m", transactional=True)
        with qm.transaction() as tx:
            with pytest.raises(TransactionUsage) as caught:
                tx.receive(Q, callback=print)
            assert caught.value.hresult == 0xC00E0050
            with pytest.raises(TransactionUsage):
                tx.receive(Q, timeout=5, callback=print)
        assert qm.peek(Q).text == "m"
        assert qm.peek(Q).abort_count == 0, "nothing was taken"
