"""Packets that a prepare has laid into the log are received as if the commit had written them."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.transaction import xa_branch
from onceq.model.branches import Vote, Xid
from onceq.model.message import Journal
from tests.conformance.world import Node, World, Worlds, fast, item

OUT, OTHER = r"private$\out", r"private$\other"
BOTH = r"DIRECT=OS:.\private$\out,DIRECT=OS:.\private$\other"
FAR = r"DIRECT=OS:B\private$\far"
ONE, TWO, THREE = (Xid(7, b"global", branch) for branch in (b"one", b"two", b"three"))
INSIDE = pytest.mark.inside("looks at the log, or asks for a checkpoint")


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", settings=fast())
    for name in ("out", "other"):
        made["A"].create(name)
    made["B"].create("far")
    return made


def records_of(a: Any) -> list[bytes]:
    return [bytes(payload) for _, payload, _ in a.running.store.replay(0, a.running.store.synced)]


def live(a: Any) -> int:
    return int(a.running.manager.state.space.total)


def again(a: Any, how: str) -> None:
    """What happens between the prepare and the commit."""
    if how == "checkpoint":
        a.running.checkpoint()
    if how != "nothing":
        a.crash()
        a.start()


@INSIDE
@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_bodies_are_written_once(world: World, how: str) -> None:
    a = world["A"]
    body = b"only once " * 30
    a.promise(ONE, item(OUT, body, body), item(OUT, b"short"))
    again(a, how)
    a.commit_branch(ONE)
    a.running.store.sync()
    if how != "checkpoint":
        assert sum(payload.count(body) for payload in records_of(a)) == 2
    a.running.checkpoint()
    a.crash()
    a.start()
    assert a.bodies(OUT) == [body, body, b"short"]


@pytest.mark.parametrize("how", ["nothing", "restart"])
def test_they_are_one_transaction_with_its_first_and_last(world: World, how: str) -> None:
    a = world["A"]
    a.promise(
        ONE, item(OUT, b"1", b"2", label=["one", "two"]), item(BOTH, b"3"),
        item(OUT, b"4"),
    )  # fmt: skip
    again(a, how)
    sent = a.commit_branch(ONE)
    assert sent.messages == 4
    found = list(a.messages(OUT))
    assert [(m.body, m.label, m.first_in_transaction, m.last_in_transaction) for m in found] == [
        (b"1", "one", True, False),
        (b"2", "two", False, False),
        (b"3", "", False, False),
        (b"4", "", False, True),
    ]
    (third,) = list(a.messages(OTHER))
    assert (third.first_in_transaction, third.last_in_transaction) == (True, True)
    assert third.id == found[2].id, "copies of one message (FN-14)"
    assert [m.id.number - found[0].id.number for m in found] == [0, 1, 2, 3]
    assert found[0].id.number == sent.first_message
    assert {m.transaction for m in (*found, third)} == {sent.transaction}


def test_their_order_is_that_of_the_commits(world: World) -> None:
    a = world["A"]
    for xid in (ONE, TWO, THREE):
        a.promise(xid, item(OUT, xid.bqual))
    a.once(OUT, b"meanwhile")
    for xid in (THREE, ONE, TWO):
        a.commit_branch(xid)
    assert a.bodies(OUT) == [b"meanwhile", b"three", b"one", b"two"]
    ids = [message.id for message in a.messages(OUT)]
    assert len(set(ids)) == 4


@INSIDE
@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_a_roll_back_leaves_nothing_and_no_number_comes_again(world: World, how: str) -> None:
    a = world["A"]
    before = live(a)
    a.promise(ONE, item(OUT, b"x" * 500))
    assert live(a) > before + 500, "they count as long as they are promised"
    again(a, how)
    a.rollback(ONE)
    assert live(a) == before
    assert a.bodies(OUT) == []
    a.promise(TWO, item(OUT, b"y"))
    a.commit_branch(TWO)
    a.promise(THREE, item(OUT, b"z"))
    a.crash()
    a.start()
    a.once(OUT, b"last")
    a.commit_branch(THREE)
    numbers = [message.id.number for message in a.messages(OUT)]
    assert len({1, *numbers}) == 4, "1 was taken by what was rolled back"


@INSIDE
def test_their_segment_is_kept_as_long_as_anybody_needs_it(world: World) -> None:
    """Prepared, committed, received: through checkpoints and much other traffic."""
    a = world["A"]
    body = b"waits" * 2_000

    def traffic() -> None:
        for _ in range(30):
            a.once(OTHER, b"t" * 4_000)
            a.receive(OTHER)
        a.running.checkpoint()

    for xid in (ONE, TWO):
        a.promise(xid, item(OUT, body))
    first = min(segment.base for segment in a.running.store.segments())
    traffic()
    a.commit_branch(ONE)
    traffic()
    assert min(segment.base for segment in a.running.store.segments()) == first
    a.crash()
    a.start()
    a.rollback(TWO)
    traffic()
    assert a.bodies(OUT) == [body]
    a.receive(OUT)
    traffic()
    traffic()
    assert min(segment.base for segment in a.running.store.segments()) > first


def test_a_queue_that_is_gone_at_the_commit_leaves_dead_letters(world: World) -> None:
    a = world["A"]
    a.promise(ONE, item(OUT, b"dead", journal=Journal.DEADLETTER), item(OTHER, b"alive"))
    a.delete(OUT)
    a.crash()
    a.start()
    a.commit_branch(ONE)
    assert a.bodies(OTHER) == [b"alive"]
    assert a.bodies(r"system$;deadxact") == [b"dead"]
    a.crash()
    a.start()
    assert a.bodies(r"system$;deadxact") == [b"dead"]


def test_what_is_promised_expires_after_the_commit(world: World) -> None:
    a = world["A"]
    a.promise(
        ONE, item(OUT, b"late", time_to_be_received=60, journal=Journal.DEADLETTER)
    )  # fmt: skip
    world.run(30)
    a.commit_branch(ONE)
    assert a.bodies(OUT) == [b"late"]
    world.run(40)
    assert a.bodies(OUT) == []
    assert a.bodies(r"system$;deadxact") == [b"late"]


def test_what_leaves_this_manager_is_written_by_the_commit(world: World) -> None:
    """Numbers of a stream are known then only, and a roll-back leaves no gap in it."""
    a, b = world["A"], world["B"]
    a.promise(ONE, item(FAR, b"1"), item(OUT, b"one"))
    a.promise(TWO, item(FAR, b"2"), item(OUT, b"two"))
    a.promise(THREE, item(FAR, b"3"))
    a.rollback(ONE)
    a.commit_branch(THREE)
    a.commit_branch(TWO)
    world.run(60)
    assert b.bodies(r"private$\far") == [b"3", b"2"]
    assert a.bodies(OUT) == [b"two"]


@INSIDE
def test_a_branch_of_an_older_store_is_committed_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = world["A"]
    with monkeypatch.context() as patch:
        patch.setattr(xa_branch, "store_packets", lambda step, tx: ([], 0, 0))
        assert a.promise(ONE, item(OUT, b"1", b"2"), item(OTHER, b"3")) is Vote.PREPARED
    a.crash()
    a.start()
    a.commit_branch(ONE)
    assert (a.bodies(OUT), a.bodies(OTHER)) == ([b"1", b"2"], [b"3"])


@INSIDE
@pytest.mark.unturned("second", reason="it counts what is written")
def test_prepared_branches_need_no_memory_for_their_bodies(world: World) -> None:
    a = world["A"]
    assert isinstance(a, Node)
    a.promise(ONE, item(OUT, b"x" * 10_000))
    a.promise(TWO, item(FAR, b"x" * 10_000))
    (one, two) = a.look("branches")
    assert (one.bytes, two.bytes) == (10_000, 10_000)
    assert a.engine is not None
    step = a.running.manager._step
    assert 10_000 < step.units.open_bytes < 12_000, "of the one that leaves this manager"
    for xid in (ONE, TWO):
        a.rollback(xid)
    assert step.units.open_bytes == 0
    assert not step.units.promised
