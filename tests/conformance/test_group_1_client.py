"""Conformance cases of group 1 that a caller of the client library sees."""

from __future__ import annotations

import contextlib

import pytest

from onceq.client.results import MessageIds
from onceq.errors import InDoubt, NotSupported, ServiceNotAvailable, TransactionOver
from onceq.testing import disk
from tests.conformance.world import World, Worlds

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    world["A"].create("q")
    return world


@pytest.mark.client
@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (disk.BEFORE_APPEND, "aborted"),
        (disk.AFTER_APPEND, "aborted"),
        (disk.BEFORE_SYNC, "committed"),
        (disk.AFTER_SYNC, "committed"),
        (disk.BEFORE_ANSWER, "committed"),
    ],
)
def test_case_013_the_caller_hears_in_doubt(world: World, point: str, expected: str) -> None:
    a = world["A"]
    with a.client() as manager:
        with pytest.raises(InDoubt) as caught, manager.transaction() as tx:
            # The first send looks whether its destination can be sent to.
            tx.send_many(Q, [b"m1", b"m2"])
            a.die_at(point)
        a.see_its_end()
        a.start()
        assert manager.outcome(caught.value.transaction) == expected
    world.run(10)
    assert world["B"].bodies(LOCAL) == ([b"m1", b"m2"] if expected == "committed" else [])


@pytest.mark.client
def test_case_014_what_was_committed_survives_a_kill_after_the_answer(world: World) -> None:
    a = world["A"]
    with a.client() as manager:
        a.die_at(disk.AFTER_ANSWER, 2)
        with contextlib.suppress(ServiceNotAvailable), manager.transaction() as tx:
            tx.send(Q, b"m")
        assert isinstance(tx.sent, MessageIds), "the commit was answered"
        a.see_its_end()
    a.start()
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"m"]


@pytest.mark.client
def test_case_016_second_commit_of_the_caller(world: World) -> None:
    with world["A"].client() as manager:
        tx = manager.transaction()
        tx.send(LOCAL, b"m")
        tx.commit()
        with pytest.raises(TransactionOver) as caught:
            tx.commit()
    assert caught.value.hresult == 0xC00E0051
    assert world["A"].bodies(LOCAL) == [b"m"]


@pytest.mark.client
def test_case_017_a_commit_does_not_retain(world: World) -> None:
    with world["A"].client() as manager:
        tx = manager.transaction()
        tx.send(LOCAL, b"m")
        with pytest.raises(NotSupported) as caught:
            tx.commit(retaining=True)
        assert caught.value.hresult == 0x8004D00F
        tx.commit()
    assert world["A"].bodies(LOCAL) == [b"m"]
