"""Quotas (section 1.5): of a queue for good, of the whole manager for now; case 97."""

from __future__ import annotations

import logging

import pytest

from onceq.errors import InsufficientResources
from tests.conformance.world import World, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"


def test_case_097_the_quota_of_the_queue_is_final() -> None:
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.create("q", quota_kb=2)
    a.once(Q, bytes(1500), journal=1)
    world.run(2)
    a.once(Q, bytes(1000), journal=1)
    a.once(Q, b"fits", journal=1)
    world.run(5)
    assert b.bodies(LOCAL) == [bytes(1500), b"fits"]
    assert [p.kind for p in world.link("A", "B").seen].count(2) == 1, "a final acknowledgment"
    (dead,) = a.messages("SYSTEM$;DEADXACT")
    assert (dead.message_class, dead.body) == (0x8003, bytes(1000))
    assert a.look("outgoing-queue", Q).unprocessed == 2


def test_case_097_the_quota_of_the_manager_is_for_now() -> None:
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.kill()
    b.settings = fast(computer_quota_bytes=4096)
    b.start()
    b.create("q")
    a.once(Q, bytes(3000), journal=1)
    world.run(2)
    acks = len(world.link("A", "B").order_acks())
    a.once(Q, bytes(2000), journal=1)
    world.run(30)
    assert b.bodies(LOCAL) == [bytes(3000)]
    assert len(world.link("A", "B").order_acks()) == acks, "nothing of it is acknowledged"
    with pytest.raises(TimeoutError):
        a.messages("SYSTEM$;DEADXACT")
    assert a.look("outgoing-queue", Q).unacknowledged == 1
    b.receive(LOCAL)
    world.run(10)
    assert b.bodies(LOCAL) == [bytes(2000)]
    world.run(10)
    assert a.look("outgoing-queue", Q).unacknowledged == 0


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
