"""Groups with parts at other managers: one decides, and all have its outcome (decision 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from onceq.errors import GroupIncomplete, InsufficientResources, UnknownBranch
from onceq.model.branches import (
    DecisionState,
    Vote,
    Xid,
    anchor_xid,
    group_prefix,
    group_xid,
    partner_name,
)
from onceq.model.shares import Thing
from onceq.partners.recovery import Recovery, Report
from onceq.testing.disk import STORE_POINTS
from tests.conformance.world import AnswerLost, World, Worlds, fast, item
from tests.few import few
from tests.unit.partners.agents import NoRows

Q = r"private$\q"
UNDECIDED_S = 1_000
APP = "spark:orders"


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", "C", settings=fast(undecided_s=UNDECIDED_S))
    for name in "ABC":
        made[name].create("q")
    return made


class Attempt:
    """One attempt at a batch: rows at A, which decides, and at B and C."""

    def __init__(self, world: World, version: int = 0) -> None:
        self.home, self.version = world["A"], version
        self.prefix = group_prefix(self.home.identity.guid, version.to_bytes(6, "big"))
        self.gtrid = self.home.attempt(self.prefix)
        self.xids = [self._anchor(world[name]) for name in "BC"]
        for name in "ABC":
            xid = group_xid(self.gtrid, f"{name}.0")
            assert world[name].promise(xid, item(Q, b"%d" % version)) is Vote.PREPARED
            if name == "A":
                self.xids.append(xid)

    def _anchor(self, other: Any) -> Xid:
        xid = anchor_xid(self.gtrid, other.identity.guid)
        assert self.home.promise(xid) is Vote.PREPARED, "with nothing in it"
        return xid

    def commit(self) -> Any:
        return self.home.commit_group(APP, self.version, self.prefix, *self.xids)


class Deciding(NoRows):
    """A manager of a world as recovery needs it."""

    def __init__(self, at: Any) -> None:
        self.at, self.guid, self.decision = at, at.identity.guid, at.decision

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        return {v.gtrid.encode(): tuple(v.partners) for v in self.at.look("decisions")}

    def done(self, gtrid: bytes) -> None:
        self.at.decision_done(gtrid)


class Other:
    """Another one."""

    def __init__(self, at: Any) -> None:
        self.at, self.name = at, partner_name(at.identity.guid)
        self.commit, self.rollback, self.forget = at.commit_branch, at.rollback, at.forget

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        return [Xid.parse(view.xid) for view in self.at.look("branches")]

    def close(self) -> None:
        pass


def settle(world: World, *names: str) -> Report:
    """Whoever comes next tells the others what A has decided."""
    others = [Other(world[name]) for name in names or ("B", "C")]
    return Recovery(Deciding(world["A"]), others).step(0.0)


def there(world: World) -> list[list[bytes]]:
    return [world[name].bodies(Q) for name in "ABC"]


def left(world: World) -> list[int]:
    return [len(world[name].look("branches")) for name in "ABC"]


def everywhere(*versions: int) -> list[list[bytes]]:
    return [[b"%d" % version for version in versions]] * 3


def test_all_parts_take_effect_by_one_record(world: World) -> None:
    made = Attempt(world)
    assert settle(world).at_work, "undecided: nobody touches it"
    assert there(world) == everywhere()
    assert made.home.decision(made.gtrid) is DecisionState.OPEN
    assert made.commit().messages == 1
    assert made.home.decision(made.gtrid) is DecisionState.COMMITTED
    (decided,) = made.home.look("decisions")
    assert list(decided.partners) == [partner_name(world[n].identity.guid) for n in "BC"]
    assert len(settle(world).committed) == 2
    assert there(world) == everywhere(0)
    assert left(world) == [0, 0, 0]
    assert made.home.look("decisions") == []


def test_a_manager_that_is_away_hears_of_it_later(world: World) -> None:
    made = Attempt(world)
    made.commit()
    report = settle(world, "B")
    assert (len(report.committed), len(report.waiting)) == (1, 1)
    made.home.kill()
    made.home.start()
    world["C"].crash()
    world["C"].start()
    world.run(UNDECIDED_S * 2.5)
    assert left(world) == [0, 0, 1], "C decides nothing by itself, however long it takes"
    assert made.home.decision(made.gtrid) is DecisionState.COMMITTED
    settle(world)
    assert there(world) == everywhere(0)
    assert made.home.look("decisions") == []


def test_what_was_given_up_is_rolled_back_everywhere(world: World) -> None:
    made = Attempt(world)
    assert made.home.rollback_group(made.prefix) == 3
    assert made.home.decision(made.gtrid) is DecisionState.ABORTED
    with pytest.raises(GroupIncomplete):
        made.commit()
    assert len(settle(world).rolled_back) == 2
    assert left(world) == [0, 0, 0]
    assert there(world) == everywhere()
    Attempt(world).commit()
    settle(world)
    assert there(world) == everywhere(0)


def test_what_nobody_decides_is_rolled_back_by_time_and_by_whoever_comes(world: World) -> None:
    made = Attempt(world)
    world.run(UNDECIDED_S * 1.5)
    assert left(world) == [0, 1, 1]
    assert made.home.decision(made.gtrid) is DecisionState.ABORTED
    with pytest.raises(GroupIncomplete):
        made.commit()
    settle(world)
    assert left(world) == [0, 0, 0]


def test_a_batch_that_is_repeated_finds_the_first_one(world: World) -> None:
    """The driver died between the decision and the telling; its successor stages anew."""
    first = Attempt(world)
    first.commit()
    again = Attempt(world)
    done = again.commit()
    assert (done.already, done.rolled_back) == (True, 3)
    report = settle(world)
    assert (len(report.committed), len(report.rolled_back)) == (2, 2)
    assert there(world) == everywhere(0)
    assert left(world) == [0, 0, 0]
    Attempt(world, 1).commit()
    settle(world)
    assert there(world) == everywhere(0, 1)


def test_a_straggler_does_not_hide_what_was_decided(world: World) -> None:
    """A task of an attempt that was given up prepares when all is over."""
    made = Attempt(world)
    made.commit()
    late = Attempt(world)
    assert made.home.decision(made.gtrid) is DecisionState.COMMITTED
    assert len(settle(world).committed) == 2
    assert there(world) == everywhere(0)
    made.home.rollback_group(late.prefix)
    settle(world)
    assert left(world) == [0, 0, 0]
    assert there(world) == everywhere(0)


@pytest.mark.unturned("checkpoint", reason="it counts syncs")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_while_it_decides(world: World, point: str, count: int) -> None:
    """All parts, or none; and who asks again has it once (I2, I20, I21)."""
    a = world["A"]
    made = Attempt(world)
    a.die_at(point, count)
    try:
        made.commit()
    except AnswerLost:
        a.start()
    else:
        a.crash()
        a.start()
    decision = a.decision(made.gtrid)
    assert decision is not DecisionState.ABORTED
    settle(world)
    committed = decision is DecisionState.COMMITTED
    assert there(world) == (everywhere(0) if committed else everywhere())
    again = Attempt(world)
    assert again.commit().already is committed
    settle(world)
    assert there(world) == everywhere(0)
    assert left(world) == [0, 0, 0]
    assert a.look("decisions") == []


@pytest.mark.parametrize("point", STORE_POINTS)
def test_a_part_is_killed_while_it_is_told(world: World, point: str) -> None:
    made = Attempt(world)
    made.commit()
    b = world["B"]
    b.die_at(point, 1)
    try:
        settle(world)
    except AnswerLost:
        b.start()
    else:
        b.crash()
        b.start()
    settle(world)
    assert there(world) == everywhere(0)
    assert left(world) == [0, 0, 0]
    assert made.home.look("decisions") == []


def test_an_anchor_is_of_the_manager_that_decides(world: World) -> None:
    a, b = world["A"], world["B"]
    prefix = group_prefix(a.identity.guid, b"\0" * 6)
    gtrid, guid = a.attempt(prefix), b.identity.guid
    assert b.promise(anchor_xid(gtrid, guid)) is Vote.READ_ONLY
    assert a.promise(group_xid(gtrid, "0.0")) is Vote.READ_ONLY
    assert a.promise(group_xid(gtrid, "for.nobody")) is Vote.READ_ONLY
    anchor = anchor_xid(gtrid, guid)
    assert a.promise(anchor) is Vote.PREPARED
    a.crash()
    a.start()
    assert a.look("branches")[0].messages == 0
    a.rollback(anchor)
    with pytest.raises(UnknownBranch):
        a.commit_branch(anchor)


@pytest.mark.inside("limits are not settings")
def test_decisions_have_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, Thing.DECISIONS, 1)
    made = Attempt(world)
    with pytest.raises(InsufficientResources, match="recover these first"):
        made.commit()
    assert made.home.rollback_group(made.prefix) == 3
