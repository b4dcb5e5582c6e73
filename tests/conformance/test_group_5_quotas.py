"""Quotas (Q-19): of a queue for good, of the whole manager for now; case 97."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from onceq.errors import InsufficientResources, SendFailed
from onceq.model import limits
from tests.conformance.world import World, Worlds, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"


def test_case_097_the_quota_of_the_queue_is_final(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.create("q", quota_kb=2)
    a.create("acks", transactional=False)
    more: dict[str, Any] = {
        "journal": 1,
        "acknowledge": 4,
        "admin_queue": r"DIRECT=OS:A\private$\acks",
    }
    a.once(Q, bytes(1500), **more)
    world.run(2)
    a.once(Q, bytes(1000), **more)
    a.once(Q, b"fits", **more)
    world.run(60)
    (told,) = a.messages(r"private$\acks")
    assert (told.message_class, told.body, told.response_queue) == (0x8003, bytes(1000), Q)
    assert b.bodies(LOCAL) == [bytes(1500), b"fits"]
    assert [p.kind for p in world.link("A", "B").seen].count(2) == 1, "a final acknowledgment"
    (dead,) = a.messages("SYSTEM$;DEADXACT")
    assert (dead.message_class, dead.body) == (0x8003, bytes(1000))
    assert a.look("outgoing-queue", Q).unprocessed == 2
    assert b.receive(LOCAL).bodies() == [bytes(1500)]
    b.crash()
    b.start()
    world.run(600)
    assert b.bodies(LOCAL) == [b"fits"], "room comes too late for it"
    assert len(a.messages(r"private$\acks")) == 1


@pytest.mark.parametrize("over", [0, 1])
def test_case_097_the_last_byte_of_a_quota_may_be_used(worlds: Worlds, over: int) -> None:
    """And not one more, by messages from elsewhere and from here (which are counted before their
    packets are padded, as up to 3 bytes more)."""
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    for name in ("q", "here", "held"):
        b.create(name, quota_kb=2)

    def in_a_transaction(body: bytes) -> None:
        tx = b.begin()
        b.send(tx, r"private$\held", body)
        b.commit(tx)

    def filled(send: Callable[..., object], queue: str, padding: int) -> list[bytes]:
        send(b"")
        world.run(2)
        empty = b.look("queue", queue).bytes
        rest = bytes(2048 - 2 * empty + (1 if over else -padding))
        with contextlib.suppress(InsufficientResources, SendFailed):
            send(rest)
        world.run(60)
        assert b.look("queue", queue).bytes == (empty if over else 2048)
        return [body for body in b.bodies(queue) if body]

    for queue, send, padding in (
        (LOCAL, lambda body: a.once(Q, body), 0),
        (r"private$\here", lambda body: b.once(r"private$\here", body), 3),
        (r"private$\held", in_a_transaction, 3),
    ):
        assert len(filled(send, queue, padding)) == (0 if over else 1), queue


@pytest.mark.parametrize("transactional", [True, False])
def test_case_097_of_messages_that_come_together_those_that_fit_enter(transactional: bool) -> None:
    """However they travelled: each counts by itself (Q-19)."""
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.create("q", transactional=transactional, quota_kb=3)
    a.create("acks", transactional=False)
    large, small = bytes(1000), b"s"
    tx = a.begin() if transactional else 0
    more: dict[str, Any] = {
        "journal": 1,
        "acknowledge": 5,
        "admin_queue": r"DIRECT=OS:A\private$\acks",
    }
    a.send(tx, Q, large, large, large, small, large, small, **more)
    if tx:
        a.commit(tx)
    world.run(5)
    assert len({m.transaction for m in b.messages(LOCAL)}) == 1
    assert b.bodies(LOCAL) == [large, large, small, small]
    where = a if transactional else b
    dead = where.messages("SYSTEM$;DEADXACT" if transactional else "SYSTEM$;DEADLETTER")
    assert [(m.message_class, m.body) for m in dead] == [(0x8003, large)] * 2
    classes = [m.message_class for m in a.messages(r"private$\acks")]
    assert sorted(classes) == [0x0002] * 4 + [0x8003] * 2
    if transactional:
        assert a.look("outgoing-queue", Q).unacknowledged == 0


@pytest.mark.unturned("directory", reason="who is in the directory is no stranger")
@pytest.mark.unturned("public", reason="who is in the directory is no stranger")
def test_case_097_the_quota_of_the_manager_is_for_now(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.kill()
    b.settings = fast(computer_quota_bytes=2 * 4096)  # A is a stranger there, and has half of it
    b.start()
    b.create("q")
    a.create("acks", transactional=False)
    more: dict[str, Any] = {
        "journal": 1,
        "acknowledge": 4,
        "admin_queue": r"DIRECT=OS:A\private$\acks",
    }
    a.once(Q, bytes(3000), **more)
    world.run(2)
    acks = len(world.link("A", "B").order_acks())
    a.once(Q, bytes(2000), **more)
    world.run(30)
    assert b.bodies(LOCAL) == [bytes(3000)]
    assert len(world.link("A", "B").order_acks()) == acks, "nothing of it is acknowledged"
    assert a.bodies("SYSTEM$;DEADXACT") == a.bodies(r"private$\acks") == []
    assert [p.kind for p in world.link("A", "B").seen].count(2) == 0, "nor is it refused"
    assert a.look("outgoing-queue", Q).unacknowledged == 1
    b.receive(LOCAL)
    world.run(10)
    assert b.bodies(LOCAL) == [bytes(2000)]
    world.run(10)
    assert a.look("outgoing-queue", Q).unacknowledged == 0
    assert a.bodies("SYSTEM$;DEADXACT") == a.bodies(r"private$\acks") == []


@pytest.mark.unturned("second", reason="it counts what a manager holds")
def test_a_full_manager_closes_no_session_for_acknowledgments() -> None:
    # What frees space at the other end, and here, goes on.
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    a.kill()
    a.settings = fast(computer_quota_bytes=4096)
    a.start()
    a.create("own")
    a.once(Q, bytes(2500))
    a.once("private$\\own", bytes(1000))
    with pytest.raises(InsufficientResources):
        a.once(Q, bytes(1000))
    world.run(5)
    assert a.look("outgoing-queue", Q).messages == 0
    a.once(Q, bytes(1000))


def test_a_quota_is_told_of_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    # PIT-11
    world = World("A")
    a = world["A"]
    for name in ("q", "r"):
        a.create(name, quota_kb=1)

    def refused(name: str) -> None:
        with pytest.raises(InsufficientResources):
            a.once(f"private$\\{name}", bytes(2000))

    def told() -> int:
        return sum("queue quota reached" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.WARNING, "onceq"):
        for _ in range(5):
            refused("q")
        assert told() == 1
        refused("r")
        assert told() == 2
        world.run(3599)
        refused("q")
        assert told() == 2
        world.run(2)
        refused("q")
        assert told() == 3


def test_a_stream_that_has_used_its_numbers_refuses_and_goes_on_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EOD-12: numbers have 32 bits; what was never acknowledged as a whole cannot begin anew."""
    monkeypatch.setattr(limits, "STREAM_NUMBERS_MAX", 3)
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    a.create("own")
    b.kill()
    a.once(Q, b"1", b"2", b"3")
    a.once(Q, b"4")
    open_before = a.begin()
    with pytest.raises(InsufficientResources, match="used its 3 numbers"):
        a.send(open_before, f"DIRECT=OS:A\\private$\\own,{Q}", b"5")
    with pytest.raises(SendFailed, match="used its 3 numbers"):
        a.commit(open_before)
    assert a.bodies("private$\\own") == []
    b.start()
    world.run(10)
    a.once(Q, b"5")
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]
    first, last = b.messages(LOCAL)[0], b.messages(LOCAL)[-1]
    assert (first.stream < last.stream, last.number) == (True, 1)
