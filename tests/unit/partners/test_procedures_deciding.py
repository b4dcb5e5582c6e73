"""The decision procedure on models: every failure and every crash, at every step (I20, I21).

The models are what the contract promises and nothing more: a partner that has prepared keeps that;
the home manager's commit is there or is not. Whatever happens, after recovery all have one outcome,
and what the application was told is true.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from onceq.client.enlisting import Partners
from onceq.client.link import Greeting, Session
from onceq.client.plans.branches import Deciding
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import (
    AccessDenied,
    DecidedByHand,
    InDoubt,
    OnceqError,
    PartnerLost,
    PartnerRefused,
    RolledBack,
    TransactionOver,
    UnknownBranch,
)
from onceq.model.branches import ONCEQ_FORMAT, DecisionState, Vote, Xid, make_gtrid
from onceq.partners.procedures import StepResult, What, committing, drive
from onceq.partners.recovery import Recovery
from tests.unit.partners.agents import NoRows

GUID = b"G" * 16
GTRID = make_gtrid(GUID, 1)


class Crash(BaseException):
    """The application dies here."""


@dataclass
class Model:
    """A partner and its resource in one.

    Attributes:
        trouble: By verb: "before" fails and does nothing, "after" does it and fails, "crash-before"
            and "crash-after" end the application.
    """

    name: str
    trouble: dict[str, str] = field(default_factory=dict)
    reads: bool = False
    state: str = "at work"
    reachable: bool = True

    def _do(self, verb: str, state: str, *, needs: tuple[str, ...]) -> None:
        trouble = self.trouble.get(verb, "")
        if trouble.endswith("before"):
            raise Crash if trouble.startswith("crash") else ConnectionError(verb)
        if self.state.endswith("by hand"):
            raise DecidedByHand(f"it was {self.state}")
        if self.state not in needs:
            raise UnknownBranch(f"{verb} of what is {self.state}")
        self.state = state
        if trouble.endswith("after"):
            raise Crash if trouble.startswith("crash") else ConnectionError(verb)

    def prepare(self, xid: Xid) -> Vote:
        if self.reads:
            self._do("prepare", "read-only", needs=("at work",))
            return Vote.READ_ONLY
        self._do("prepare", "prepared", needs=("at work",))
        return Vote.PREPARED

    def commit(self, xid: Xid) -> None:
        self._do("commit", "committed", needs=("prepared",))

    def commit_one_phase(self, xid: Xid) -> None:
        self._do("commit_one_phase", "committed", needs=("at work",))

    def rollback(self, xid: Xid) -> None:
        self._do("rollback", "rolled back", needs=("at work", "prepared"))

    def forget(self, xid: Xid) -> None:
        assert self.state.endswith("by hand"), f"{xid} was decided by nobody else"
        self.state = "forgotten"

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        if not self.reachable:
            raise ConnectionError(self.name)
        listed = self.state == "prepared" or self.state.endswith("by hand")
        return [Xid(ONCEQ_FORMAT, GTRID, self.name.encode())] if listed else []

    def close(self) -> None:
        """Nothing to give up."""

    def crashed(self) -> None:
        """The application is gone: what was not prepared is rolled back by the database."""
        self.trouble = {}
        if self.state == "at work":
            self.state = "rolled back"


@dataclass
class Home(NoRows):
    """The home manager: its decision, and whether its application is at work."""

    trouble: str = ""
    guid: bytes = GUID
    committed: bool = False
    forgotten: bool = False
    working: bool = True

    def __call__(self, what: What) -> Any:
        if what is What.DECIDE:
            if self.trouble == "refused":
                raise OnceqError("the quota is full")
            if self.trouble == "over":
                raise TransactionOver("its connection was lost")
            if self.trouble == "crash-before":
                raise Crash
            if self.trouble != "lost-before":
                self.committed = True
            if self.trouble.startswith("lost"):
                raise InDoubt("the answer was lost")
            if self.trouble == "crash-after":
                raise Crash
            return "made"
        self.working = False
        self.forgotten = what is What.DONE
        return None

    def decision(self, gtrid: bytes) -> DecisionState:
        assert gtrid == GTRID
        if self.working:
            return DecisionState.OPEN
        there = self.committed and not self.forgotten
        return DecisionState.COMMITTED if there else DecisionState.ABORTED

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        there = self.committed and not self.forgotten
        return {GTRID: ("0", "1")} if there else {}

    def done(self, gtrid: bytes) -> None:
        self.forgotten = True


VERBS = ("prepare", "commit", "rollback")
KINDS = ("before", "after", "crash-before", "crash-after")
TROUBLES: list[dict[str, str]] = [{}, *({verb: kind} for verb in VERBS for kind in KINDS)]
HOMES = ["", "refused", "over", "lost-before", "lost-after", "crash-before", "crash-after"]


def enlisted(*models: Model) -> Partners:
    partners = Partners(Deciding(Unit(Session(Greeting("A", GUID, 0)))))
    for model in models:
        partners.add(model, Xid(ONCEQ_FORMAT, GTRID, model.name.encode()))
    return partners


def carry_out(partners: Partners, home: Callable[[What], Any], *, idle: bool = False) -> StepResult:
    steps = committing(len(partners), partners.votes, idle=idle)
    return drive(partners.carry_out(steps, home))


@pytest.mark.parametrize("at_home", HOMES)
@pytest.mark.parametrize("reads", [(False, False), (True, False), (True, True)])
def test_one_outcome_whatever_fails(at_home: str, reads: tuple[bool, bool]) -> None:
    for first, second in itertools.product(TROUBLES, TROUBLES):
        home = Home(at_home)
        models = [Model("0", dict(first), reads[0]), Model("1", dict(second), reads[1])]
        told = ""
        try:
            carry_out(enlisted(*models), home)
            told = "committed"
        except RolledBack:
            told = "rolled back"
        except InDoubt:
            told = "in doubt"
        except OnceqError:
            told = "refused"
        except Crash:
            pass
        for model in models:
            model.crashed()
        home.working = False
        Recovery(home, models).step(0.0)
        story = (at_home, first, second, told, [model.state for model in models])
        ends = {model.state for model in models} - {"read-only"}
        assert ends <= ({"committed"} if home.committed else {"rolled back"}), story
        if told == "committed":
            assert home.committed, story
        if told in ("rolled back", "refused"):
            assert not home.committed, story
        assert not home.open_decisions(), story


def test_nobody_commits_before_the_decision() -> None:
    order: list[str] = []

    class Noted(Model):
        def _do(self, verb: str, state: str, *, needs: tuple[str, ...]) -> None:
            order.append(f"{verb} {self.name}")
            super()._do(verb, state, needs=needs)

    def home(what: What) -> Any:
        order.append(what.value)
        return "made"

    made = carry_out(enlisted(Noted("0"), Noted("1")), home)
    assert made.result == "made"
    assert order == ["prepare 0", "prepare 1", "decide", "commit 0", "commit 1", "done"]


def test_one_partner_alone_commits_in_one_phase() -> None:
    def home(what: What) -> Any:
        raise AssertionError(what)

    model = Model("0")
    made = carry_out(enlisted(model), home, idle=True)
    assert (model.state, made.result) == ("committed", None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_lost_answer_of_the_only_partner_is_in_doubt(when: str) -> None:
    """Nobody knows, so neither "committed" nor "undone" is said (I21)."""
    model = Model("0", {"commit_one_phase": when})
    with pytest.raises(InDoubt):
        carry_out(enlisted(model), lambda what: None, idle=True)


class Refusing(Model):
    """Its refusal has rolled it back, and its connection is free."""

    def prepare(self, xid: Xid) -> Vote:
        self.state = "rolled back"
        raise PartnerRefused("no")

    def commit_one_phase(self, xid: Xid) -> None:
        self.prepare(xid)

    def rollback(self, xid: Xid) -> None:
        raise AssertionError("it is told again")


def test_who_refuses_is_not_told_again() -> None:
    other = Model("1")
    with pytest.raises(RolledBack, match="no"):
        carry_out(enlisted(other, Refusing("0")), lambda what: None)
    assert other.state == "rolled back"
    with pytest.raises(RolledBack, match="no"):
        carry_out(enlisted(Refusing("0")), lambda what: None, idle=True)


@pytest.mark.parametrize("at_home", ["", "refused", "crash-before"])
@pytest.mark.parametrize("trouble", [{}, {"prepare": "before"}])
def test_who_voted_read_only_is_asked_nothing_more(at_home: str, trouble: dict[str, str]) -> None:
    """Its share is over, and its connection may be at other work: neither the procedure nor the
    transaction that is aborted after it tells it anything."""
    told: list[str] = []

    class Reader(Model):
        def rollback(self, xid: Xid) -> None:
            told.append("rollback")

        def commit(self, xid: Xid) -> None:
            told.append("commit")

    partners = enlisted(Reader("0", reads=True), Model("1", trouble))
    with contextlib.suppress(OnceqError, Crash):
        carry_out(partners, Home(at_home))
    drive(partners.roll_back())
    assert told == []


def test_a_branch_that_is_stuck_does_not_keep_others_waiting() -> None:
    home = Home(committed=False, working=False)
    ended: list[bytes] = []

    class Several(Model):
        def recover(self, prefix: bytes = b"") -> list[Xid]:
            return [Xid(ONCEQ_FORMAT, GTRID, name) for name in (b"stuck", b"a", b"b")]

        def rollback(self, xid: Xid) -> None:
            if xid.bqual == b"stuck":
                raise PartnerLost("its connection lives")
            ended.append(xid.bqual)

    report = Recovery(home, [Several("0")]).step(0.0)
    assert ended == [b"a", b"b"]
    assert len(report.rolled_back) == 2
    assert "its connection lives" in report.failed["0"]


def test_what_is_not_for_this_application_to_decide_does_not_keep_others_waiting() -> None:
    home = Home(committed=True, working=False)
    ended: list[bytes] = []

    class Shared(Model):
        def recover(self, prefix: bytes = b"") -> list[Xid]:
            return [Xid(ONCEQ_FORMAT, GTRID, name) for name in (b"another", b"own")]

        def commit(self, xid: Xid) -> None:
            if xid.bqual == b"another":
                raise AccessDenied("nobody has granted send")
            ended.append(xid.bqual)

    recovery = Recovery(home, [Shared("0"), Model("1", state="committed")])
    report = recovery.step(0.0)
    assert ended == [b"own"]
    assert "nobody has granted send" in report.failed["0"]
    assert report.waiting == {GTRID: ("0", "1")}, "it is not over, so its decision is kept"
    assert not home.forgotten


def test_the_decision_of_another_is_left_to_him() -> None:
    class Foreign(Home):
        def done(self, gtrid: bytes) -> None:
            raise AccessDenied("nobody has granted operate")

    models = [Model("0", state="committed"), Model("1", state="committed")]
    report = Recovery(Foreign(committed=True, working=False), models).step(0.0)
    assert report.waiting == {GTRID: ("0", "1")}
    assert not report.forgotten


def test_a_decision_is_kept_until_every_partner_was_looked_at() -> None:
    home = Home(committed=True, working=False)
    here, away = Model("0", state="prepared"), Model("1", state="prepared", reachable=False)
    recovery = Recovery(home, [here, away])
    report = recovery.step(0.0)
    assert here.state == "committed"
    assert report.failed.keys() == {"1"}
    assert report.waiting == {GTRID: ("0", "1")}
    away.reachable = True
    assert recovery.step(0.5).waiting, "it failed half a second ago, and is left alone"
    report = recovery.step(1.5)
    assert (away.state, report.forgotten, report.clean) == ("committed", [GTRID], True)


def test_a_decision_with_an_unknown_partner_is_kept() -> None:
    home = Home(committed=True, working=False)
    report = Recovery(home, [Model("0")]).step(0.0)
    assert report.waiting == {GTRID: ("0", "1")}
    assert not home.forgotten


def test_waits_grow_and_end() -> None:
    home = Home(working=False)
    away = Model("0", reachable=False)
    recovery = Recovery(home, [away])
    tried = []
    now = 0.0
    for _ in range(400):
        report = recovery.step(now)
        if "ConnectionError" in report.failed["0"]:
            tried.append(now)
        now += recovery.next_s(now, report)
    gaps = [b - a for a, b in itertools.pairwise(tried)]
    assert gaps[:6] == [1, 2, 4, 8, 16, 32]
    assert set(gaps[6:]) == {60}


def test_what_is_at_work_and_what_is_somebody_elses_is_left_alone() -> None:
    home = Home()
    mine = Model("0", state="prepared")

    class Others(Model):
        def recover(self, prefix: bytes = b"") -> list[Xid]:
            other = make_gtrid(b"O" * 16, 1)
            return [Xid(ONCEQ_FORMAT, other, b"x"), Xid(7, b"unknown", b"")]

    theirs = Others("1", state="prepared")
    report = Recovery(home, [mine, theirs]).step(0.0)
    assert (mine.state, theirs.state) == ("prepared", "prepared")
    assert [name for name, _ in report.at_work] == ["0"]


def test_a_dry_run_does_nothing() -> None:
    home = Home(committed=True, working=False)
    model = Model("0", state="prepared")
    report = Recovery(home, [model, Model("1", state="committed")]).step(0.0, dry_run=True)
    assert [name for name, _ in report.committed] == ["0"]
    assert model.state == "prepared"
    assert not home.forgotten


def test_a_round_is_a_list_of_calls_that_anybody_may_carry_out() -> None:
    home = Home(committed=True, working=False)
    model = Model("0", state="prepared")
    calls = Recovery(home, [model, Model("1", state="committed")]).calls(0.0)
    done = []
    call = next(calls)
    with pytest.raises(StopIteration) as end:
        while True:
            done.append(call)
            call = calls.send(call())
    assert len(done) == 6, "decisions, two lists, a decision, a commit, and that it is done"
    assert end.value.value.forgotten == [GTRID]


@pytest.mark.parametrize("how", ["committed by hand", "rolled back by hand"])
def test_what_was_decided_by_hand_is_told_once_and_then_forgotten(how: str) -> None:
    """It is never called committed; the decision stays until the resource has forgotten it."""
    home, models = Home(committed=True, working=False), [Model("0", state="committed"), Model("1")]
    models[1].state = how
    recovery = Recovery(home, models)
    told = recovery.step(0.0)
    assert [(name, said) for name, _, said in told.by_hand] == [("1", f"it was {how}")]
    assert (told.committed, told.rolled_back) == ([], [])
    assert (models[1].state, home.forgotten) == (how, False)
    forgotten = recovery.step(1.0)
    assert (forgotten.by_hand, forgotten.committed) == ([], [])
    assert (models[1].state, home.forgotten) == ("forgotten", True)
    assert recovery.step(2.0).clean


def test_a_decision_by_hand_is_told_of_after_a_crash_too() -> None:
    """Recovery that is made anew, after a crash, does not forget what it has not told of."""
    home = Home(committed=True, working=False)
    model = Model("1", state="rolled back by hand")
    for _ in range(2):
        assert len(Recovery(home, [model]).step(0.0).by_hand) == 1
    assert model.state == "rolled back by hand"


def test_a_dry_run_forgets_nothing() -> None:
    home, model = Home(committed=True, working=False), Model("1", state="committed by hand")
    recovery = Recovery(home, [model])
    recovery.step(0.0)
    recovery.step(1.0, dry_run=True)
    assert (model.state, home.forgotten) == ("committed by hand", False)
