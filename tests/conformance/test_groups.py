"""Groups of branches: many tasks prepare, one commits all of them, once for each version."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.state.branch_table import Group, GroupTable
from onceq.core.state.setups import GroupCommitted
from onceq.core.transaction import second_phase
from onceq.errors import (
    CommittedByHand,
    GroupDiffers,
    GroupIncomplete,
    GroupOfAnotherQuery,
    InsufficientResources,
    InvalidParameter,
    RolledBack,
    UnknownBranch,
    UsageError,
)
from onceq.model.branches import DecisionState, Vote, Xid, group_prefix, group_xid
from onceq.model.shares import Thing
from onceq.testing.disk import STORE_POINTS
from tests.conformance.world import AnswerLost, World, Worlds, fast, item
from tests.few import few

OUT = r"private$\out"
FAR = r"DIRECT=OS:B\private$\far"
UNDECIDED_S = 1_000
APP = "spark:orders"


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", settings=fast(undecided_s=UNDECIDED_S))
    made["A"].create("out")
    made["B"].create("far")
    return made


class Batch:
    """One attempt at a batch on a manager, by tasks that each prepare a branch."""

    def __init__(self, a: Any, version: int) -> None:
        self.a, self.version = a, version
        self.prefix = group_prefix(a.identity.guid, version.to_bytes(6, "big"))
        self.gtrid = a.attempt(self.prefix)
        self.xids: list[Xid] = []

    def task(self, name: str, *items: Any) -> Xid:
        xid = group_xid(self.gtrid, name)
        assert self.a.promise(xid, *items) is Vote.PREPARED
        self.xids.append(xid)
        return xid

    def tasks(self, count: int = 3) -> Batch:
        for n in range(count):
            body = b"%d.%d" % (self.version, n)
            self.task(f"{n}", item(OUT, body + b"a", body + b"b"), item(FAR, body))
        return self

    def commit(self, **more: Any) -> Any:
        return self.a.commit_group(APP, self.version, self.prefix, *self.xids, **more)


def sent(*versions: int, tasks: int = 3) -> tuple[list[bytes], list[bytes]]:
    """What is here and there after these versions."""
    far = [b"%d.%d" % (version, n) for version in versions for n in range(tasks)]
    return [body + end for body in far for end in (b"a", b"b")], far


def there(world: World) -> tuple[list[bytes], list[bytes]]:
    world.run(60)
    return world["A"].bodies(OUT), world["B"].bodies(r"private$\far")


def phases(a: Any) -> list[str]:
    return [view.phase for view in a.look("branches")]


def remembered(a: Any) -> list[tuple[str, str, int]]:
    return [(view.app, view.query, view.version) for view in a.look("groups")]


def test_all_of_it_happens_in_the_order_of_the_list(world: World) -> None:
    a = world["A"]
    batch = Batch(a, 7)
    for n in (2, 0, 1):  # tasks end in any order
        batch.task(f"{n}", item(OUT, b"%d" % n))
    assert there(world) == ([], [])
    batch.xids.sort()
    done = batch.commit(query="q1")
    assert (done.already, done.messages, done.rolled_back) == (False, 3, 0)
    assert there(world)[0] == [b"0", b"1", b"2"]
    assert phases(a) == []
    assert remembered(a) == [(APP, "q1", 7)]


def test_a_version_is_committed_once(world: World) -> None:
    a = world["A"]
    Batch(a, 0).tasks().commit()
    for _ in range(2):
        again = Batch(a, 0).tasks()
        done = again.commit()
        assert (done.already, done.messages, done.rolled_back) == (True, 0, 3)
    late = Batch(a, 1).tasks()
    late.commit()
    assert Batch(a, 0).tasks().commit().already
    assert there(world) == sent(0, 1)
    assert phases(a) == []


def test_other_attempts_are_rolled_back_with_it(world: World) -> None:
    a = world["A"]
    first, other = Batch(a, 0).tasks(), Batch(a, 0).tasks()
    apart = Batch(a, 5).tasks(1)
    assert first.commit().rolled_back == 3
    assert there(world) == sent(0)
    assert phases(a) == ["prepared"], "a branch of another batch"
    Batch(a, 0).tasks(1)  # a straggler prepares when all is over
    assert Batch(a, 1).tasks().commit().rolled_back == 1
    assert there(world) == sent(0, 1)
    assert other.commit().already
    apart.commit()
    assert there(world)[0] == sent(0, 1)[0] + sent(5, tasks=1)[0]


def test_a_batch_that_is_not_complete_changes_nothing(world: World) -> None:
    a = world["A"]
    batch = Batch(a, 0).tasks()
    a.rollback(batch.xids[1])
    with pytest.raises(GroupIncomplete, match="is not prepared here"):
        batch.commit()
    assert phases(a) == ["prepared"] * 2
    assert remembered(a) == []
    assert a.rollback_group(batch.prefix) == 2
    assert a.rollback_group(batch.prefix) == 0
    assert phases(a) == []
    assert there(world) == ([], [])
    Batch(a, 0).tasks().commit()
    assert there(world) == sent(0)


def test_a_group_that_is_over_takes_no_stragglers(world: World) -> None:
    a = world["A"]
    batch, other = Batch(a, 0).tasks(1), Batch(a, 1).tasks(1)
    late = group_xid(batch.gtrid, "late")
    tx = a.start_branch(late)
    assert a.rollback_group(batch.prefix, final=True) == 1
    with pytest.raises(RolledBack, match="its group is over"):
        a.prepare(late, tx, item(OUT, b"late"))
    assert phases(a) == ["prepared"], "that of the other batch"
    other.commit()
    assert there(world) == sent(1, tasks=1)
    Batch(a, 2).tasks(1).commit()


def test_a_branch_at_work_is_not_prepared(world: World) -> None:
    a = world["A"]
    batch = Batch(a, 0).tasks(1)
    open_one = group_xid(batch.gtrid, "9")
    a.start_branch(open_one)
    batch.xids.append(open_one)
    with pytest.raises(GroupIncomplete):
        batch.commit()
    assert there(world) == ([], [])


def test_another_query_under_the_same_name_is_refused(world: World) -> None:
    a = world["A"]
    Batch(a, 3).tasks().commit(query="first")
    for version in (0, 4):
        batch = Batch(a, version).tasks()
        with pytest.raises(GroupOfAnotherQuery, match="up to version 3 for query first"):
            batch.commit(query="second")
        a.rollback_group(batch.prefix)
    assert Batch(a, 4).tasks().commit().messages == 9, "who says nothing of queries is let in"
    Batch(a, 5).tasks().commit(query="first")
    a.forget_group(APP)
    Batch(a, 0).tasks().commit(query="second")
    assert there(world) == sent(3, 4, 5, 0)
    assert remembered(a) == [(APP, "second", 0)]


def test_decided_by_hand_it_is_no_longer_complete(world: World) -> None:
    a = world["A"]
    batch = Batch(a, 0).tasks()
    a.commit_branch(batch.xids[0], by_hand=True)
    with pytest.raises(GroupIncomplete):
        batch.commit()
    assert a.rollback_group(batch.prefix) == 2
    with pytest.raises(CommittedByHand):
        a.rollback(batch.xids[0])
    a.forget(batch.xids[0])
    assert there(world) == sent(0, tasks=1)


def test_only_branches_of_one_batch_of_this_manager(world: World) -> None:
    a = world["A"]
    one, other = Batch(a, 0).tasks(1), Batch(a, 1).tasks(1)
    plain = Xid(7, one.xids[0].gtrid, b"group.0")
    a.promise(plain, item(OUT, b"?"))
    foreign = group_prefix(world["B"].identity.guid, b"\0" * 6)
    for prefix, xids in (
        (one.prefix, [*one.xids, *other.xids]),
        (one.prefix, one.xids * 2),
        (foreign, one.xids),
        (one.prefix[:-1], one.xids),
        (b"onceq-", one.xids),
        (one.prefix, [Xid(7, b"global", b"branch")]),
    ):
        with pytest.raises(InvalidParameter):
            a.commit_group(APP, 0, prefix, *xids)
    for prefix in (foreign, b"", b"onceq-"):
        with pytest.raises(InvalidParameter):
            a.rollback_group(prefix)
    with pytest.raises(UsageError, match="no version is remembered"):
        a.forget_group(APP)
    assert phases(a) == ["prepared"] * 3


def test_an_empty_batch_is_a_version_too(world: World) -> None:
    a = world["A"]
    assert Batch(a, 0).commit() == Batch(a, 1).commit()
    assert Batch(a, 0).tasks().commit().already
    assert there(world) == ([], [])


# ---- two writes under one name and version -------------------------------------------------


@pytest.mark.parametrize("life", ["goes on", "is killed", "dies"])
def test_what_was_committed_as_another_is_no_repetition(world: World, life: str) -> None:
    """Finding 0.3: it was dropped, and nobody heard of it."""
    a = world["A"]
    Batch(a, 3).tasks().commit(target="q1", digest="3 rows x")
    if life != "goes on":
        (a.kill if life == "is killed" else a.crash)()
        a.start()
    for more, words in (
        ({"target": "q2", "digest": "3 rows x"}, "version 3 of 'spark:orders'.*to another dest"),
        ({"target": "q2"}, "to another destination"),
        ({"target": "q1", "digest": "3 rows y"}, r"content \(3 rows x; now 3 rows y\)"),
        ({"digest": "9 rows z"}, "with other content"),
    ):
        batch = Batch(a, 3).tasks()
        with pytest.raises(GroupDiffers, match=words):
            batch.commit(**more)
        assert a.rollback_group(batch.prefix) == 3
    for more in ({"target": "q1", "digest": "3 rows x"}, {"target": "q1"}, {}):
        assert Batch(a, 3).tasks().commit(**more).already
    with pytest.raises(GroupDiffers):
        Batch(a, 2).commit(target="q2", digest="3 rows x")
    assert Batch(a, 2).commit(target="q1", digest="of an earlier version").already
    assert there(world) == sent(3)
    Batch(a, 4).tasks().commit(target="q2", digest="3 rows z")  # a new version may go elsewhere
    assert there(world) == sent(3, 4)
    assert Batch(a, 4).tasks().commit(target="q2", digest="3 rows z").already


def test_versions_from_before_say_nothing_and_go_on(world: World) -> None:
    """A log and a checkpoint of a manager that remembered neither destination nor content."""
    a = world["A"]
    Batch(a, 3).tasks().commit(query="q")
    a.kill()
    a.start()
    assert Batch(a, 3).tasks().commit(target="q2", digest="1 rows x").already
    assert Batch(a, 4).tasks().commit(target="q2", digest="1 rows x").messages == 9
    table = GroupTable()
    table.load([["app", "q", 7, "onceq-", 17]])
    assert table.get("app") == Group("q", 7, b"onceq-", 17)
    old = {"app": "app", "query": "", "version": 1, "prefix": "", "at": 5, "branches": [3]}
    assert GroupCommitted.of(old).digest == ""


# ---- crashes -----------------------------------------------------------------------------


@pytest.mark.unturned("checkpoint", reason="it counts syncs")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_while_it_is_committed(world: World, point: str, count: int) -> None:
    """All of it, or nothing; and who asks again has it once (I2, I20, I21)."""
    a = world["A"]
    Batch(a, 0).tasks().commit()
    batch = Batch(a, 1).tasks()
    a.die_at(point, count)
    try:
        batch.commit()
    except AnswerLost:
        a.start()
    else:
        a.crash()  # fewer such points than that: it dies with all of it said
        a.start()
    committed = remembered(a)[0][2] == 1
    assert there(world) == (sent(0, 1) if committed else sent(0))
    assert phases(a) == ([] if committed else ["prepared"] * 3)
    again = batch if not committed else Batch(a, 1).tasks()
    assert again.commit().already is committed
    assert there(world) == sent(0, 1)


def test_it_is_remembered_through_restarts_and_checkpoints(world: World) -> None:
    a = world["A"]
    for version in range(3):
        Batch(a, version).tasks().commit(query="q")
        a.kill()
        a.start()
    assert Batch(a, 2).tasks().commit().already
    assert remembered(a) == [(APP, "q", 2)]
    assert there(world) == sent(0, 1, 2)


def test_prepared_branches_of_a_batch_survive_and_are_committed_later(world: World) -> None:
    a = world["A"]
    batch = Batch(a, 0).tasks()
    a.crash()
    a.start()
    assert there(world) == ([], [])
    assert batch.commit().messages == 9
    assert there(world) == sent(0)


# ---- time --------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
def test_what_nobody_decides_is_rolled_back(world: World, restart: bool) -> None:
    a = world["A"]
    batch = Batch(a, 0).tasks()
    foreign = Xid(7, b"global", b"branch")
    a.promise(foreign, item(OUT, b"foreign"))
    world.run(UNDECIDED_S * 0.5)
    if restart:
        a.crash()
        a.start()
    world.run(UNDECIDED_S * (0.8 if restart else 0.4))
    assert phases(a) == ["prepared"] * 4, "the time is counted anew"
    assert a.decision(batch.xids[0].gtrid) is DecisionState.OPEN
    world.run(UNDECIDED_S * 0.3)
    assert [view.xid for view in a.look("branches")] == ["7:global:branch"], "not ours to decide"
    assert a.decision(batch.xids[0].gtrid) is DecisionState.ABORTED
    with pytest.raises(GroupIncomplete, match="undecided_s"):
        batch.commit()
    a.rollback(batch.xids[0])
    with pytest.raises(UnknownBranch):
        a.rollback(batch.xids[0])
    a.commit_branch(foreign)
    Batch(a, 0).tasks().commit()
    assert there(world) == ([b"foreign", *sent(0)[0]], sent(0)[1])


def test_what_is_decided_or_at_work_is_not_rolled_back(world: World) -> None:
    """A transaction of this manager with a partner that is this manager, too."""
    a = world["A"]
    tx = a.begin()
    gtrid = a.enlist(tx, "itself")
    xid = Xid(7, gtrid, b"1")
    a.promise(xid, item(OUT, b"kept"))
    world.run(UNDECIDED_S * 1.5)
    assert phases(a) == ["prepared"]
    a.commit(tx)
    world.run(UNDECIDED_S * 1.5)
    a.leave_decision(gtrid)
    world.run(UNDECIDED_S * 1.5)
    assert phases(a) == ["prepared"]
    a.commit_branch(xid)
    a.decision_done(gtrid)
    assert there(world)[0] == [b"kept"]


# ---- limits ------------------------------------------------------------------------------


@pytest.mark.inside("limits are not settings")
def test_applications_are_remembered_up_to_a_number(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, Thing.GROUPS, 2)
    monkeypatch.setattr(second_phase, "GROUP_AGE_S", 10_000)
    world = worlds("A")
    a = world["A"]
    prefix = group_prefix(a.identity.guid, b"\0" * 6)
    a.commit_group("one", 0, prefix)
    a.commit_group("two", 0, prefix)
    a.commit_group("one", 1, prefix)
    with pytest.raises(InsufficientResources, match="forget-group"):
        a.commit_group("three", 0, prefix)
    world.at(world.now_us + 20_000_000_000, lambda: None)
    world.run(20_000)
    a.commit_group("one", 2, prefix)
    a.commit_group("three", 0, prefix)
    assert {view.app for view in a.look("groups")} == {"three", "one"}
    a.kill()
    a.start()
    assert {view.app for view in a.look("groups")} == {"three", "one"}
