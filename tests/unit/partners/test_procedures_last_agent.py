"""A row in a database decides: every failure, every crash, and every order of a slow commit and of
recovery (I20, I21).

The model of the database knows one transaction with one row of ours. Its commit may be on its way
when the application is gone: it then lands at any moment of recovery, in two stages, with the key
of the row held between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from onceq.client.enlisting import Partners
from onceq.client.link import Greeting, Session
from onceq.client.plans.branches import ByRow, Deciding
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    LinkLost,
    ManagerAway,
    OnceqError,
    PartnerLost,
    PartnerRefused,
    RolledBack,
    ServiceNotAvailable,
    TransactionLost,
    TransactionOver,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.branches import (
    ONCEQ_FORMAT,
    DecisionState,
    Vote,
    Xid,
    agent_of,
    decider_of,
    make_gtrid,
    xid_by_row,
)
from onceq.model.requests import Promise
from onceq.model.results import Promised
from onceq.model.views.looks import BranchView, RowsView
from onceq.partners.contract import ABORTED, COMMITTED, NOTED, Row, row_of
from onceq.partners.finding import DatabasePlace
from onceq.partners.procedures import What, committing_by_row
from onceq.partners.recovery import Recovery

GUID = b"G" * 16
NAME = "sqlite:/shop.db"
NUMBER = 17
OPEN, HELD, DONE, UNDONE = "open", "row held", "committed", "rolled back"


class Crash(BaseException):
    """The application dies here."""


@dataclass
class Database:
    """A last agent and its recovery in one.

    Attributes:
        trouble: What happens to the commit: "refused"; "before" and "after" it the connection or
            (with "crash-") the application is lost; "slow": it is on its way then.
        stage: Of the transaction.
        coming: The row of a commit that is on its way.
    """

    trouble: str = ""
    stage: str = OPEN
    rows: dict[Row, str] = field(default_factory=dict)
    coming: Row | None = None
    name: str = NAME
    connection: object = None

    def record(self, row: Row) -> None:
        if self.trouble == "refused":
            self.stage = UNDONE
            raise PartnerRefused("a constraint")
        if not self.trouble.endswith("before"):
            self.coming = row
            if not self.trouble.endswith("slow"):
                self.land()
                self.land()
        if self.trouble:
            raise Crash if self.trouble.startswith("crash") else ConnectionError(self.trouble)

    def land(self) -> None:
        """The commit on its way comes a stage further."""
        row = self.coming
        if row is None:
            return
        if self.stage == OPEN:
            self.stage = UNDONE if row in self.rows else HELD
        elif self.stage == HELD:
            self.rows[row] = COMMITTED
            self.stage = DONE
        if self.stage in (DONE, UNDONE):
            self.coming = None

    def commit_one_phase(self, xid: Xid) -> None:
        self.stage = DONE

    def rollback(self, xid: Xid) -> None:
        assert self.stage == OPEN, f"rollback of what is {self.stage}"
        self.stage = UNDONE

    def connection_lost(self) -> None:
        if self.stage == OPEN and self.coming is None:
            self.stage = UNDONE

    def settle(self, row: Row) -> bool:
        if self.stage == HELD:
            raise PartnerLost("the key is held")
        return self.rows.setdefault(row, ABORTED) == COMMITTED

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        there = self.rows.get(row_of(xid_by_row(GUID, 1, NAME), NUMBER)) == COMMITTED
        if must and not (there and tuple(must) == (NUMBER,)):
            return -1
        return int(there and after < NUMBER <= upto and NUMBER not in but)

    def note(self, manager: str, number: int) -> None:
        self.rows[Row(manager, number, "")] = NOTED

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """There is only one, which is kept."""

    def close(self) -> None:
        """Nothing to give up."""


@dataclass
class Home:
    """The manager: whether the branch is prepared, and what became of it.

    Attributes:
        trouble: By step: "refused", "before", "after", "crash-before" and "crash-after".
    """

    trouble: dict[What, str] = field(default_factory=dict)
    empty: bool = False
    state: str = "active"
    working: bool = True
    guid: bytes = GUID
    xid: Xid = field(default_factory=lambda: xid_by_row(GUID, 1, NAME))

    def __call__(self, what: What) -> Any:
        trouble = self.trouble.get(what, "")
        if trouble == "refused":
            raise OnceqError("the quota is full")
        if not trouble.endswith("before"):
            self._do(what)
        if trouble:
            raise Crash if trouble.startswith("crash") else TransactionOver("lost")
        return None if what is What.PROMISE and self.empty else "ids"

    def _do(self, what: What) -> None:
        if what is What.PROMISE:
            self.state = "over" if self.empty else "prepared"
        elif what is What.LEAVE:
            self.working = False
        else:
            self._end("committed" if what is What.FULFIL else "rolled back")

    def _end(self, state: str) -> None:
        if self.state != "prepared":
            raise UnknownBranch(self.state)
        self.state = state

    def rows(self, agent: str, found: int = 0) -> RowsView:
        """The row must be there once the branch is committed."""
        over = self.state == "committed"
        return RowsView(NAME, 0, NUMBER * over, int(over), () if over else (NUMBER,))

    def promises(self) -> list[BranchView]:
        if self.state != "prepared":
            return []
        return [
            BranchView(str(self.xid), "prepared", number=NUMBER, agent=NAME, at_work=self.working)
        ]

    def commit(self, xid: Xid) -> None:
        assert xid == self.xid
        self._end("committed")

    def rollback(self, xid: Xid) -> None:
        assert xid == self.xid
        self._end("rolled back")

    def decision(self, gtrid: bytes) -> DecisionState:
        raise AssertionError("this manager decides nothing")

    def open_decisions(self) -> dict[bytes, tuple[str, ...]]:
        return {}

    def done(self, gtrid: bytes) -> None:
        raise AssertionError("this manager decides nothing")


def attempt(home: Home, database: Database) -> str:
    """What the application is told."""
    row = row_of(home.xid, NUMBER)
    steps = committing_by_row()
    asked: list[What] = []

    def do() -> Any:
        step = next(steps)
        while True:
            asked.append(step.what)
            try:
                if step.partner < 0:
                    result = home(step.what)
                elif step.what is What.RECORD:
                    result = database.record(row)  # type: ignore[func-returns-value]
                else:
                    result = getattr(database, step.what.value)(home.xid)
            except Crash:
                raise  # nobody is there any more to see it
            except Exception as error:  # noqa: BLE001 - the steps see every error
                step = steps.throw(error)
            else:
                step = steps.send(result)

    try:
        do()
    except StopIteration:
        return "committed"
    except Crash:
        return "gone"
    except RolledBack:
        return "rolled back"
    except InDoubt:
        return "in doubt"
    except OnceqError:
        return "refused"
    raise AssertionError("unreachable")


HOME_TROUBLE = ("", "refused", "before", "after", "crash-before", "crash-after")
DATABASE_TROUBLE = (
    "", "refused", "before", "after", "slow", "crash-before", "crash-after", "crash-slow"
)  # fmt: skip
Case = tuple[What | None, str, str]
CASES: list[Case] = [
    *((What.PROMISE, trouble, "") for trouble in HOME_TROUBLE),
    *((None, "", trouble) for trouble in DATABASE_TROUBLE),
    *((What.FULFIL, trouble, "") for trouble in HOME_TROUBLE[1:]),
    *((What.BREAK, trouble, "refused") for trouble in HOME_TROUBLE[1:]),
    *((What.LEAVE, trouble, at) for trouble in HOME_TROUBLE[1:] for at in ("after", "slow")),
]


def recovered(home: Home, database: Database, landing: tuple[int, int]) -> None:
    """Rounds of recovery until nothing is left; a slow commit comes further before these calls."""
    home.working = False
    recovery = Recovery(home)
    recovery.add_agent(database)
    calls = 0
    for round_number in range(20):
        work = recovery.calls(round_number * 1000.0)
        try:
            call = next(work)
            while True:
                for at in landing:
                    if at == calls:
                        database.land()
                calls += 1
                try:
                    result = call()
                except Exception as error:  # noqa: BLE001 - the work sees every error
                    call = work.throw(error)
                else:
                    call = work.send(result)
        except StopIteration as stop:
            if stop.value.clean and calls > max(landing):
                return
    raise AssertionError("recovery does not end")


def judge(case: Case, kind: type[Database] = Database) -> None:
    """One attempt, its recovery with a slow commit landing in every order, and the outcomes.

    Raises:
        AssertionError: They differ, or what the application was told is not true.
    """
    step, trouble, at_commit = case
    outcomes = set()
    for first in range(10):
        for second in range(first, 11):
            home = Home({step: trouble} if step is not None else {})
            database = kind(at_commit)
            told = attempt(home, database)
            database.connection_lost()
            recovered(home, database, (first, second))
            there = database.stage == DONE
            assert database.stage in (DONE, UNDONE)
            if home.state != "active":
                assert (home.state == "committed") == there
            else:
                assert not there
            if told == "committed":
                assert there
            if told in ("rolled back", "refused"):
                assert not there
            outcomes.add(there)
    if at_commit.endswith("slow"):
        assert outcomes == {True, False}, "not both orders were gone through"


@pytest.mark.parametrize("case", CASES)
def test_one_outcome_whatever_happens_in_whatever_order(case: Case) -> None:
    judge(case)


class Unfenced(Database):
    """Recovery only looks for the row, and keeps no other one out."""

    def settle(self, row: Row) -> bool:
        return self.rows.get(row) == COMMITTED


class Unwaiting(Database):
    """Recovery takes a row that is not committed yet for none."""

    def settle(self, row: Row) -> bool:
        return self.rows.get(row) == COMMITTED if self.stage == HELD else super().settle(row)


class Apart(Database):
    """The row is written in a transaction of its own, before that of the application."""

    def record(self, row: Row) -> None:
        self.rows[row] = COMMITTED
        super().record(row)

    def land(self) -> None:
        self.stage, self.coming = (DONE, None) if self.coming else (self.stage, None)


@pytest.mark.parametrize("mistake", [Unfenced, Unwaiting, Apart])
def test_the_judgement_finds_planted_mistakes(mistake: type[Database]) -> None:
    with pytest.raises(AssertionError):
        for case in CASES:
            judge(case, mistake)


def test_without_trouble_it_is_committed_and_no_recovery_is_needed() -> None:
    home, database = Home(), Database()
    assert attempt(home, database) == "committed"
    assert (home.state, database.stage) == ("committed", DONE)


def test_a_refused_commit_undoes_the_branch_at_once() -> None:
    home, database = Home(), Database("refused")
    assert attempt(home, database) == "rolled back"
    assert home.state == "rolled back"


def test_nothing_to_decide_is_no_row() -> None:
    home, database = Home(empty=True), Database()
    assert attempt(home, database) == "committed"
    assert (database.stage, database.rows) == (DONE, {})


def test_an_application_at_work_is_left_alone() -> None:
    home, database = Home({What.LEAVE: "before"}), Database("slow")
    assert attempt(home, database) == "in doubt"
    recovery = Recovery(home)
    recovery.add_agent(database)
    report = recovery.step(0.0)
    assert report.at_work == [(NAME, home.xid)]
    assert (database.rows, report.clean) == ({}, False)


def test_a_database_that_is_away_is_asked_later() -> None:
    home, database = Home(state="prepared", working=False), Database(stage=HELD)
    recovery = Recovery(home)
    recovery.add_agent(database)
    report = recovery.step(0.0)
    assert list(report.failed) == [f"{NAME} (rows)"]
    assert list(recovery.step(0.5).failed) == [f"{NAME} (rows)"]
    database.stage = UNDONE
    report = recovery.step(10.0)
    assert report.rolled_back == [(NAME, home.xid)]
    assert report.clean
    assert home.state == "rolled back"


def test_an_agent_is_looked_after_once() -> None:
    recovery = Recovery(Home())
    assert recovery.add_agent(Database())
    assert not recovery.add_agent(Database())
    assert recovery.knows_agent(NAME)


def test_a_dry_run_writes_no_row() -> None:
    home, database = Home(state="prepared", working=False), Database(stage=UNDONE)
    recovery = Recovery(home)
    recovery.add_agent(database)
    (said,) = recovery.step(0.0, dry_run=True).failed.values()
    assert "asking decides" in said
    assert (database.rows, home.state) == ({}, "prepared")


def test_the_identifier_says_who_decides_and_is_no_managers() -> None:
    xid = xid_by_row(GUID, (1 << 96) - 1, "x" * 60)
    assert agent_of(xid) == "x" * 60
    assert decider_of(xid.gtrid) is None
    assert row_of(xid, 5) == Row(GUID.hex(), 5, "f" * 24)
    assert agent_of(Xid(ONCEQ_FORMAT, make_gtrid(GUID, 1), b"row.x")) == ""
    assert agent_of(Xid(1, xid.gtrid, xid.bqual)) == ""
    assert agent_of(Xid(ONCEQ_FORMAT, xid.gtrid, b"x")) == ""
    with pytest.raises(InvalidParameter, match="names no database"):
        Promise(1, Xid(1, b"g")).check()


def by_row() -> ByRow:
    session = Session(Greeting("A", GUID, 0), random=bytes, clock=lambda: 0.0)
    return ByRow(Unit(session), NAME)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("lost", [LinkLost("cut"), ManagerAway("away")])
def test_a_promise_that_was_lost_says_do_it_again(begun: bool, lost: ServiceNotAvailable) -> None:
    """What was never asked, in a transaction that is not begun, has its own error."""
    made = by_row()
    made._unit.begun = begun
    plan = made.promise()
    next(plan)
    asked = begun or isinstance(lost, LinkLost)
    with pytest.raises(TransactionLost if asked else type(lost)) as caught:
        plan.throw(lost)
    assert (caught.value is lost) is not asked


def test_a_transaction_whose_promise_is_given_up_is_over() -> None:
    made = by_row()
    plan = made.promise()
    next(plan)
    with pytest.raises(KeyboardInterrupt):
        plan.throw(KeyboardInterrupt())
    with pytest.raises(TransactionOver, match="given up"):
        made._unit.check_open()


def test_the_row_has_the_number_of_the_branch() -> None:
    made = by_row()
    plan = made.promise()
    next(plan)
    with pytest.raises(StopIteration):
        plan.send(Promised(NUMBER, 5, 2, 1))
    partners = Partners(Deciding(made._unit))
    partners.by_row = made
    partners.add(Database(), made.xid)
    assert made.row == row_of(made.xid, NUMBER)
    steps = partners.carry_out(committing_by_row(), lambda what: None)
    next(steps)
    record: Any = steps.send("promised")
    assert record.args == (made.row,)


@dataclass
class Forbidding:
    """The same database as a resource: nothing can be prepared there."""

    closed: bool = False

    @property
    def name(self) -> str:
        raise TwoPhaseForbidden("max_prepared_transactions = 0")

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        raise AssertionError("it was never met")

    def commit(self, xid: Xid) -> None:
        """Never asked."""

    def rollback(self, xid: Xid) -> None:
        """Never asked."""

    def forget(self, xid: Xid) -> None:
        """Never asked."""

    def close(self) -> None:
        self.closed = True


def test_a_database_where_nothing_can_be_prepared_is_asked_for_rows_alone() -> None:
    home, database, resource = Home(state="prepared", working=False), Database(), Forbidding()
    recovery = Recovery(home)
    recovery.add_place(DatabasePlace("shop", resource, database))
    report = recovery.step(0.0)
    assert (report.rolled_back, report.clean) == ([(NAME, home.xid)], True)
    assert resource.closed


def test_a_database_that_is_no_last_agent_must_allow_promises() -> None:
    recovery = Recovery(Home())
    with pytest.raises(TwoPhaseForbidden):
        recovery.add_place(DatabasePlace("shop", Forbidding(), None), now=True)
    assert list(recovery.step(0.0).failed) == ["shop"]
    assert list(recovery.step(0.1).failed) == ["shop"]


# ---- several databases -------------------------------------------------------------------------


PREPARE = [(What.PREPARE, 0), (What.PREPARE, 1)]
UNDO = [(What.ROLLBACK, 0), (What.ROLLBACK, 1)]
LAST = 2


def gone_through(trouble: dict[tuple[What, int], Exception]) -> tuple[list[tuple[What, int]], Any]:
    """The steps of a commit with two partners and a last agent; and what came of it."""
    steps = committing_by_row(3)
    done: list[tuple[What, int]] = []
    step = next(steps)
    while True:
        key = step.what, step.partner
        done.append(key)
        try:
            if key in trouble:
                step = steps.throw(trouble[key])
            else:
                step = steps.send(Vote.PREPARED if step.what is What.PREPARE else "answer")
        except StopIteration as stop:
            return done, stop.value
        except OnceqError as error:
            return done, error


def test_all_others_prepare_and_the_last_decides() -> None:
    done, made = gone_through({})
    row = [(What.PROMISE, -1), (What.RECORD, LAST), (What.FULFIL, -1)]
    assert done == [*PREPARE, *row, (What.COMMIT, 0), (What.COMMIT, 1), (What.DONE, -1)]
    assert (made.result, made.pending) == ("answer", [])


@pytest.mark.parametrize("broken", [0, 1])
def test_who_cannot_promise_undoes_all(broken: int) -> None:
    done, error = gone_through({(What.PREPARE, broken): PartnerRefused("no")})
    others = [step for step in (*UNDO, (What.ROLLBACK, LAST)) if step[1] != broken]
    assert done == [*PREPARE[: broken + 1], *others]
    assert isinstance(error, RolledBack)


def test_a_manager_that_does_not_promise_undoes_all() -> None:
    done, error = gone_through({(What.PROMISE, -1): LinkLost("no answer")})
    assert done == [*PREPARE, (What.PROMISE, -1), *UNDO, (What.ROLLBACK, LAST)]
    assert isinstance(error, LinkLost)


def test_a_row_that_is_refused_undoes_the_branch_and_all_others() -> None:
    done, error = gone_through({(What.RECORD, LAST): PartnerRefused("no")})
    assert done == [*PREPARE, (What.PROMISE, -1), (What.RECORD, LAST), (What.BREAK, -1), *UNDO]
    assert isinstance(error, RolledBack)


def test_where_the_row_is_in_doubt_nobody_is_told_anything() -> None:
    done, error = gone_through({(What.RECORD, LAST): PartnerLost("no answer")})
    assert done == [*PREPARE, (What.PROMISE, -1), (What.RECORD, LAST), (What.LEAVE, -1)]
    assert isinstance(error, InDoubt)


@pytest.mark.parametrize("lost", [(What.FULFIL, -1), (What.COMMIT, 0)])
def test_whoever_cannot_be_told_is_told_later(lost: tuple[What, int]) -> None:
    done, made = gone_through({lost: LinkLost("no answer")})
    assert done[-3:] == [(What.COMMIT, 0), (What.COMMIT, 1), (What.LEAVE, -1)]
    assert [index for index, _ in made.pending] == [lost[1]]
