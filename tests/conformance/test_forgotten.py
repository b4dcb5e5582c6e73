"""Transactions in which nothing happens any more keep nobody waiting for ever."""

from __future__ import annotations

import pytest

from onceq.errors import ReceiveTimeout, RolledBackByTime, TransactionOver, UnknownBranch
from onceq.model import requests
from onceq.model.branches import Leave, Vote, Xid
from tests.conformance.world import World, Worlds, fast

IN, OUT = r"private$\in", r"private$\out"
XID = Xid(7, b"global", b"branch")
IDLE_S = 600


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", settings=fast(transaction_idle_s=IDLE_S))
    made["A"].create("in")
    made["A"].create("out")
    made["A"].once(IN, b"1", b"2")
    return made


def test_what_was_forgotten_is_rolled_back(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    assert a.receive(IN, tx=tx).bodies() == [b"1"]
    a.send(tx, OUT, b"never")
    world.run(IDLE_S * 0.9)
    assert a.bodies(IN) == [b"2"]
    world.run(IDLE_S * 0.3)
    assert a.bodies(IN) == [b"1", b"2"]
    assert a.messages(IN)[0].abort_count == 0, "that it was forgotten is not its fault"
    assert a.look("status").transactions == 0
    for _ in range(2):
        with pytest.raises(RolledBackByTime, match="transaction_idle_s"):
            a.send(tx, OUT, b"late")
    with pytest.raises(RolledBackByTime, match=f"for {IDLE_S} s"):
        a.commit(tx)
    a.abort(tx)
    assert a.bodies(OUT) == []
    with pytest.raises(TransactionOver, match="never begun"):
        a.commit(tx)


def test_what_is_used_goes_on(world: World) -> None:
    a = world["A"]
    tx, idle = a.begin(), a.begin()
    for index in range(8):
        a.send(tx, OUT, b"%d" % index)
        world.run(IDLE_S * 0.7)
    a.commit(tx)
    assert len(a.bodies(OUT)) == 8
    with pytest.raises(RolledBackByTime):
        a.commit(idle)
    world.run(10 * IDLE_S)
    late = a.begin()
    world.run(IDLE_S * 0.7)
    a.once(OUT, b"other")
    world.run(IDLE_S * 0.7)
    with pytest.raises(RolledBackByTime):
        a.commit(late)


def test_what_waits_for_a_message_is_not_forgotten(world: World) -> None:
    a = world["A"]
    a.receive(IN, count=2)
    tx = a.begin()
    with pytest.raises(ReceiveTimeout):
        a.receive(IN, tx=tx, wait_s=5 * IDLE_S)
    a.send(tx, OUT, b"done")
    a.commit(tx)
    assert a.bodies(OUT) == [b"done"]


@pytest.mark.parametrize("how", [Leave.SUCCESS, Leave.SUSPEND, None])
def test_a_branch_that_nobody_prepares(world: World, how: Leave | None) -> None:
    a = world["A"]
    tx = a.start_branch(XID)
    a.receive(IN, tx=tx)
    if how is not None:
        a.end_branch(tx, XID, how)
    world.run(IDLE_S * 1.3)
    assert a.bodies(IN) == [b"1", b"2"]
    with pytest.raises(RolledBackByTime) as raised:
        a.prepare(XID)
    assert raised.value.xa == 106  # XA_RBTIMEOUT
    a.rollback(XID)
    with pytest.raises(UnknownBranch):
        a.rollback(XID)
    tx = a.start_branch(XID)
    a.receive(IN, tx=tx)
    a.end_branch(tx, XID)
    a.commit_branch(XID, one_phase=True)
    assert a.bodies(IN) == [b"2"]
    with pytest.raises(UnknownBranch):
        a.prepare(XID)


def test_what_is_prepared_waits_for_ever(world: World) -> None:
    a = world["A"]
    tx = a.start_branch(XID)
    a.receive(IN, tx=tx)
    a.end_branch(tx, XID)
    assert a.prepare(XID) is Vote.PREPARED
    world.run(20 * IDLE_S)
    assert a.bodies(IN) == [b"2"]
    a.crash()
    a.start()
    world.run(20 * IDLE_S)
    assert a.bodies(IN) == [b"2"]
    a.commit_branch(XID)
    assert a.bodies(IN) == [b"2"]


def test_one_that_would_decide_for_others_decides_nothing(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    gtrid = a.enlist(tx)
    assert a.decision(gtrid).value == "open"
    world.run(IDLE_S * 1.3)
    assert a.decision(gtrid).value == "aborted"
    with pytest.raises(RolledBackByTime):
        a.commit(tx)


def test_never_if_so_set(worlds: Worlds) -> None:
    world = worlds("A", settings=fast(transaction_idle_s=0))
    a = world["A"]
    a.create("out")
    tx = a.begin()
    a.send(tx, OUT, b"1")
    world.run(100_000)
    a.commit(tx)
    assert a.bodies(OUT) == [b"1"]


def test_the_time_by_default(worlds: Worlds) -> None:
    world = worlds("A")
    a = world["A"]
    a.create("out")
    tx = a.begin()
    world.run(3_500)
    a.ask(requests.Commit(tx, ()))
    tx = a.begin()
    world.run(4_100)
    with pytest.raises(RolledBackByTime):
        a.commit(tx)


def test_a_limit_of_its_own_is_longer_or_shorter_than_the_setting(world: World) -> None:
    a = world["A"]
    for number, idle_s in ((901, 0), (902, 5 * IDLE_S), (903, IDLE_S // 10)):
        a.ask(requests.Begin(number, idle_s))
    assert a.receive(IN, tx=901).bodies() == [b"1"]
    assert a.receive(IN, tx=903).bodies() == [b"2"]
    world.run(IDLE_S * 0.2)
    with pytest.raises(RolledBackByTime, match=f"for {IDLE_S // 10} s .the limit of its program"):
        a.commit(903)
    assert a.messages(IN)[0].abort_count == 0
    world.run(4 * IDLE_S)
    a.commit(902)
    world.run(100 * IDLE_S)
    a.ask(requests.Commit(901, then=904))
    assert a.receive(IN, tx=904).bodies() == [b"2"]
    world.run(100 * IDLE_S)
    assert a.bodies(IN) == [], "it is still held"
    a.ask(requests.Abort(904, blameless=True))
    assert a.messages(IN)[0].abort_count == 0, "the one that began with a commit is as that was"
    tx = a.begin()
    a.receive(IN, tx=tx)
    a.abort(tx)
    assert a.messages(IN)[0].abort_count == 1
