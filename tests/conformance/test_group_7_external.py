"""External transactions: a queue manager as a resource manager, and as one that decides (XTX).

Cases 115 and 116, and what stands beside them: every verb of XA in every state of a
branch, through crashes at every point.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import (
    BranchState,
    CommittedByHand,
    DuplicateBranch,
    EnlistRefused,
    NoCoordinator,
    QueueNotFound,
    ReceiveTimeout,
    RolledBack,
    RolledBackByHand,
    TransactionOver,
    UnknownBranch,
)
from onceq.model.branches import DecisionState, Join, Leave, Vote, Xid
from onceq.testing.disk import STORE_POINTS
from tests.conformance.world import AnswerLost, World, Worlds, fast, item

Q = "DIRECT=OS:B\\private$\\q"
IN = "private$\\in"
LOCAL = "private$\\q"
XID = Xid(7, b"global", b"branch")


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B")
    made["A"].create("in")
    made["A"].create("out")
    made["B"].create("q")
    return made


def work(a: Any, xid: Xid = XID) -> None:
    """A branch that has taken a message, and sends to another manager and here."""
    a.once(IN, b"r")
    tx = a.start_branch(xid)
    assert a.receive(IN, tx=tx).bodies() == [b"r"]
    more = {"label": ["kept", "own"], "app_specific": [9, 8], "extension": [b"\0\xff", b""]}
    a.send(tx, Q, b"s1", b"s2", **more)
    a.send(tx, r"DIRECT=OS:A\private$\out,DIRECT=OS:B\private$\q", b"s3")
    a.end_branch(tx, xid)


def held(world: World) -> None:
    """Nothing of it is to be seen (XTX-6)."""
    world.run(60)
    assert world["B"].bodies(LOCAL) == []
    assert world["A"].bodies(r"private$\out") == []
    with pytest.raises(ReceiveTimeout):
        world["A"].receive(IN)


def done(world: World) -> None:
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"s1", b"s2", b"s3"]
    assert world["A"].bodies(r"private$\out") == [b"s3"]
    assert world["A"].bodies(IN) == []
    first, second, _ = world["B"].messages(LOCAL)
    assert (first.label, first.app_specific, first.extension) == ("kept", 9, b"\0\xff")
    assert (second.label, second.app_specific, second.extension) == ("own", 8, b"")


def undone(world: World) -> None:
    world.run(60)
    assert world["B"].bodies(LOCAL) == []
    assert world["A"].bodies(r"private$\out") == []
    (message,) = world["A"].messages(IN)
    assert (message.body, message.abort_count) == (b"r", 1)


def listed(a: Any) -> list[tuple[str, str]]:
    return [(view.xid, view.phase) for view in a.look("branches")]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_case_115_prepared_killed_listed_and_decided(
    world: World, commit: bool, times: int
) -> None:
    a = world["A"]
    work(a)
    assert a.prepare(XID) is Vote.PREPARED
    for _ in range(times):
        a.crash()
        a.start()
        held(world)
        assert listed(a) == [("7:global:branch", "prepared")]
    if commit:
        a.commit_branch(XID)
        done(world)
    else:
        a.rollback(XID)
        undone(world)
    assert listed(a) == []
    for verb in (a.commit_branch, a.rollback, a.prepare, a.forget):
        with pytest.raises(UnknownBranch):
            verb(XID)
    a.kill()
    a.start()
    assert listed(a) == []


@pytest.mark.parametrize("point", STORE_POINTS)
def test_case_115_killed_while_it_is_prepared(world: World, point: str) -> None:
    """Either it is prepared, or it is rolled back: never half."""
    a = world["A"]
    work(a)
    a.die_at(point)
    with pytest.raises(AnswerLost):
        a.prepare(XID)
    a.start()
    if listed(a):
        held(world)
        a.rollback(XID)
    undone(world)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("point", STORE_POINTS)
def test_case_115_killed_while_it_is_decided(world: World, point: str, commit: bool) -> None:
    """Who asks again gets it, or hears that there is no such branch: then it is done (I20)."""
    a = world["A"]
    work(a)
    a.prepare(XID)
    a.die_at(point)
    verb = a.commit_branch if commit else a.rollback
    with pytest.raises(AnswerLost):
        verb(XID)
    a.start()
    if listed(a):
        held(world)
        verb(XID)
    (done if commit else undone)(world)


def test_case_115_what_is_not_prepared_is_rolled_back_at_restart(world: World) -> None:
    work(world["A"])
    world["A"].kill()
    world["A"].start()
    undone(world)
    with pytest.raises(UnknownBranch):
        world["A"].commit_branch(XID, one_phase=True)


def test_case_116_without_a_coordinator(worlds: Worlds) -> None:
    world = worlds("A", "B", settings=fast(external_transactions=False))
    a = world["A"]
    world["B"].create("q")
    with pytest.raises(NoCoordinator) as refused:
        a.start_branch(XID)
    assert refused.value.hresult == 0xC00E004C
    tx = a.begin()
    with pytest.raises(NoCoordinator):
        a.enlist(tx)
    a.send(tx, Q, b"internal")
    a.commit(tx)
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"internal"]


# ---- the verbs ---------------------------------------------------------------------------


def test_read_only_is_out_of_it(world: World) -> None:
    a = world["A"]
    a.end_branch(a.start_branch(XID), XID)
    assert a.prepare(XID) is Vote.READ_ONLY
    with pytest.raises(UnknownBranch):
        a.commit_branch(XID)


def test_one_phase(world: World) -> None:
    a = world["A"]
    work(a)
    a.commit_branch(XID, one_phase=True)
    done(world)
    assert listed(a) == []


def test_two_branches_of_one_transaction_and_two_of_others(world: World) -> None:
    """Branches are decided in any order; commit order is the order of the commits (SND-15)."""
    a = world["A"]
    xids = [Xid(7, b"g1", b"b1"), Xid(7, b"g1", b"b2"), Xid(7, b"g2"), Xid(8, b"g2")]
    for index, xid in enumerate(xids):
        tx = a.start_branch(xid)
        a.send(tx, Q, b"%d" % index)
        a.end_branch(tx, xid)
        a.prepare(xid)
    a.crash()
    a.start()
    for index in (2, 0, 3):
        a.commit_branch(xids[index])
    a.rollback(xids[1])
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"2", b"0", b"3"]


def test_prepared_at_work_with_the_last_batch(world: World) -> None:
    """What an application that does it all on one connection asks for in one request."""
    a = world["A"]
    tx = a.start_branch(XID)
    a.send(tx, Q, b"1")
    with pytest.raises(QueueNotFound):
        a.prepare(XID, tx, item(r"private$\gone", b"x"))
    with pytest.raises(BranchState):
        a.prepare(XID, tx + 1, item(Q, b"x"))
    assert a.prepare(XID, tx, item(Q, b"2"), item(Q, b"3")) is Vote.PREPARED
    a.crash()
    a.start()
    a.commit_branch(XID)
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]


def test_suspended_resumed_and_joined(world: World) -> None:
    a = world["A"]
    one = a.start_branch(XID)
    a.send(one, Q, b"1")
    a.end_branch(one, XID, Leave.SUSPEND)
    with pytest.raises(TransactionOver):
        a.send(one, Q, b"x")
    with pytest.raises(BranchState):
        a.start_branch(XID, Join.JOIN)
    with pytest.raises(BranchState):
        a.prepare(XID)
    two = a.start_branch(XID, Join.RESUME)
    a.send(two, Q, b"2")
    with pytest.raises(BranchState):
        a.start_branch(XID, Join.JOIN)
    a.end_branch(two, XID)
    with pytest.raises(BranchState):
        a.start_branch(XID, Join.RESUME)
    three = a.start_branch(XID, Join.JOIN)
    a.send(three, Q, b"3")
    a.end_branch(three, XID, Leave.SUSPEND)
    a.end_branch(three, XID)
    a.prepare(XID)
    a.commit_branch(XID)
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]


def test_a_failed_branch_cannot_be_prepared(world: World) -> None:
    a = world["A"]
    for finish in (a.prepare, lambda xid: a.commit_branch(xid, one_phase=True)):
        a.once(IN, b"r")
        tx = a.start_branch(XID)
        a.receive(IN, tx=tx)
        a.end_branch(tx, XID, Leave.FAIL)
        with pytest.raises(RolledBack) as refused:
            finish(XID)
        assert refused.value.xa == 100
        assert a.receive(IN).bodies() == [b"r"]
    assert listed(a) == []


def test_verbs_in_the_wrong_state(world: World) -> None:
    a = world["A"]
    tx = a.start_branch(XID)
    with pytest.raises(DuplicateBranch):
        a.start_branch(XID)
    for verb in (a.prepare, a.commit_branch, a.rollback):
        with pytest.raises(BranchState):
            verb(XID)
    with pytest.raises(BranchState):
        a.commit(tx)
    with pytest.raises(BranchState):
        a.end_branch(tx + 1, XID)
    a.send(tx, Q, b"m")
    a.end_branch(tx, XID)
    with pytest.raises(BranchState):
        a.end_branch(tx, XID)
    with pytest.raises(BranchState):
        a.commit_branch(XID)
    a.prepare(XID)
    with pytest.raises(BranchState):
        a.prepare(XID)
    with pytest.raises(BranchState):
        a.forget(XID)
    with pytest.raises(BranchState):
        a.commit_branch(XID, one_phase=True)
    for how in Join:
        with pytest.raises(DuplicateBranch if how is Join.NEW else BranchState):
            a.start_branch(XID, how)
    a.rollback(XID)
    with pytest.raises(UnknownBranch) as unknown:
        a.start_branch(XID, Join.JOIN)
    assert (unknown.value.xa, unknown.value.hresult) == (-4, 0xC00E004E)


@pytest.mark.parametrize("commit", [True, False])
def test_decided_by_hand(world: World, commit: bool) -> None:
    """An operator decides; it is recorded, and whoever comes with the decision hears of it."""
    a = world["A"]
    work(a)
    a.prepare(XID)
    (a.commit_branch if commit else a.rollback)(XID, by_hand=True)
    (done if commit else undone)(world)
    error = CommittedByHand if commit else RolledBackByHand
    for _ in range(2):
        assert [phase for _, phase in listed(a)] == [
            "committed by hand" if commit else "rolled back by hand"
        ]
        for verb in (a.commit_branch, a.rollback):
            with pytest.raises(error):
                verb(XID)
        with pytest.raises(DuplicateBranch):
            a.start_branch(XID)
        a.crash()
        a.start()
    a.forget(XID)
    with pytest.raises(UnknownBranch):
        a.commit_branch(XID)


def test_what_a_branch_holds_can_be_purged_and_deleted(world: World) -> None:
    """As with any transaction (Q-43); after a restart, too."""
    a = world["A"]
    work(a)
    a.prepare(XID)
    a.crash()
    a.start()
    a.delete("private$\\out")
    a.delete("private$\\in")
    a.crash()
    a.start()
    a.commit_branch(XID)
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"s1", b"s2", b"s3"]


def test_a_prepared_branch_stays_in_its_promised_room(worlds: Worlds) -> None:
    """What was promised counts towards the quota, through a restart (Q-21)."""
    world = worlds("A")
    a = world["A"]
    a.create("small", quota_kb=8)
    tx = a.start_branch(XID)
    a.send(tx, r"private$\small", b"x" * 5000)
    a.end_branch(tx, XID)
    a.prepare(XID)
    a.crash()
    a.start()
    with pytest.raises(Exception, match="quota"):
        a.once(r"private$\small", b"y" * 5000)
    a.commit_branch(XID)
    assert len(a.bodies(r"private$\small")[0]) == 5000


# ---- deciding for others -----------------------------------------------------------------


def test_a_commit_that_decides(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"m")
    gtrid = a.enlist(tx, "db1")
    assert a.enlist(tx, "db2") == gtrid
    assert a.decision(gtrid) is DecisionState.OPEN
    a.commit(tx)
    assert a.decision(gtrid) is DecisionState.OPEN  # it tells its partners
    a.leave_decision(gtrid)
    for _ in range(2):
        assert a.decision(gtrid) is DecisionState.COMMITTED
        (view,) = a.look("decisions")
        assert (view.gtrid, tuple(view.partners)) == (gtrid.decode(), ("db1", "db2"))
        a.crash()
        a.start()
    a.decision_done(gtrid)
    assert a.look("decisions") == []
    assert a.decision(gtrid) is DecisionState.ABORTED  # nobody asks after all partners are done
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"m"]


def test_a_commit_that_decides_and_does_nothing_else(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    gtrid = a.enlist(tx)
    a.commit(tx)
    a.crash()
    a.start()
    assert a.decision(gtrid) is DecisionState.COMMITTED


@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_while_it_decides(world: World, point: str) -> None:
    """No record is an abort, for ever: the commit has happened with the decision or not at all."""
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"m")
    gtrid = a.enlist(tx)
    a.die_at(point)
    with pytest.raises(AnswerLost):
        a.commit(tx)
    a.start()
    committed = a.decision(gtrid) is DecisionState.COMMITTED
    with pytest.raises(TransactionOver):
        a.commit(tx)
    assert (a.decision(gtrid) is DecisionState.COMMITTED) == committed
    world.run(10)
    assert world["B"].bodies(LOCAL) == ([b"m"] if committed else [])


def test_an_abort_decides_too(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    gtrid = a.enlist(tx)
    a.abort(tx)
    assert a.decision(gtrid) is DecisionState.ABORTED
    tx = a.begin()
    gtrid = a.enlist(tx)
    a.abort(tx)


def test_who_can_be_enlisted(world: World) -> None:
    a = world["A"]
    one, two = a.begin(), a.begin()
    assert a.enlist(one) != a.enlist(two)
    branch = a.start_branch(XID)
    with pytest.raises(EnlistRefused) as refused:
        a.enlist(branch)
    assert refused.value.hresult == 0xC00E0058
    with pytest.raises(TransactionOver):
        a.enlist(99)
