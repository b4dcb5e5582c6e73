"""The judge's books of transactions that a row in a database decides (``last_agents.py``).

Each request about a branch is entered before it is asked and when it is answered.

Watches: I20, I21 (a branch is committed only when its row is there, and rolled back only when it is
not there and never will be; in the end the manager and the database have one outcome, and the
application was told it; a database that was set back is always noticed, and decides nothing before
an operator has said so; one that was not is never taken for it).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.model.branches import Xid
from onceq.model.results import Outcome, Promised
from onceq.partners.contract import ABORTED, Row, row_of
from proof.sim.apps.row_databases import RowDatabase
from proof.sim.apps.row_others import Other
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Status, Unit
from proof.sim.judge.ledger import Ledger


@dataclass(eq=False, slots=True)
class Case:
    """One transaction.

    Attributes:
        rows: What is to be in the database, or not.
        row: That decides, when the promise was answered.
        asked: The promise was asked for.
        landed: The database has committed it.
        lost: That was undone when the database was set back.
        commits: How often anybody has asked the manager to commit it.
        heard: The commit was answered: it is durable.
        forgotten: An operator has accepted the restored database since, so that the manager does
            not miss this row any more.
        told: What its application was told; None: nothing, or that it is in doubt.
        alone: The manager had nothing to decide.
        others: Databases that have promised, and follow the row.
        gtrid: Of their branches.
    """

    home: Node
    xid: Xid
    database: RowDatabase
    unit: Unit
    rows: list[int] = field(default_factory=list)
    row: Row | None = None
    asked: bool = False
    landed: bool = False
    lost: bool = False
    commits: int = 0
    heard: bool = False
    forgotten: bool = False
    told: bool | None = None
    alone: bool = False
    others: list[Other] = field(default_factory=list)
    gtrid: bytes = b""


class RowBooks:
    """See the module."""

    def __init__(self, kernel: Kernel, ledger: Ledger) -> None:
        self.kernel, self.ledger = kernel, ledger
        self.cases: dict[Xid, Case] = {}
        self.by_gtrid: dict[bytes, Case] = {}
        self._by_row: dict[Row, Case] = {}
        self.unaccepted: set[tuple[int, str]] = set()
        """Managers, and databases that were set back and lack rows that these have seen."""
        self._set_back: set[RowDatabase] = set()
        self._kept_out: set[Row] = set()
        """What recovery has found not to be committed, and has seen to it that it never will."""
        self._rows = 0

    def begin(self, home: Node, xid: Xid, database: RowDatabase) -> Case:
        """A transaction begins."""
        case = self.cases[xid] = Case(home, xid, database, self.ledger.unit(home.index))
        return case

    def write(self, case: Case) -> int:
        """A row of its own for the database."""
        self._rows += 1
        case.rows.append(self._rows)
        return self._rows

    def write_other(self) -> int:
        """A row of its own for another database."""
        self._rows += 1
        return self._rows

    # ---- those that follow --------------------------------------------------------------

    def following(self, xid: Xid, *, committed: bool, recovered: bool) -> None:
        """Another database is about to be told an outcome."""
        case = self.by_gtrid[xid.gtrid]
        if committed and not case.landed:
            self.kernel.wrong(
                f"I21: {xid} is told to commit, and the row of {case.xid} is not there"
            )
        if not committed and case.landed and not case.lost:
            self.kernel.wrong(
                f"I21: {xid} is told to roll back, and the row of {case.xid} is there"
            )
        self.kernel.marks[marks.ROW_FOLLOWED] += committed and recovered

    def _check_others(self, case: Case) -> None:
        for other in case.others:
            if other.xid in other.database.prepared:
                self.kernel.wrong(f"I21: {other.xid} is left prepared in {other.database.name}")
            there = other.database.rows.intersection(other.rows)
            if there and len(there) < len(other.rows):
                self.kernel.wrong(f"I2: {other.database.name} has a part of {case.xid}")
            if other.rows and not case.lost and bool(there) is not case.landed:
                self._differs(case, f"{other.database.name} has {'it' if there else 'it not'}")

    # ---- the promise --------------------------------------------------------------------

    def promised(self, case: Case, answer: Promised | None) -> None:
        """It has promised, or has nothing to decide."""
        if answer is None:
            if case.unit.sends or case.unit.takes or case.others:
                self.kernel.wrong(f"I20: {case.home.name} has work in {case.xid}, and no promise")
            case.alone, case.unit.status = True, Status.ABORTED
            return
        case.row = row_of(case.xid, answer.number)
        self._by_row[case.row] = case

    def home_lost(self, case: Case) -> None:
        """The connection to the manager is lost: only a promise outlives that."""
        if case.row is not None or case.unit.status is not Status.OPEN:
            return
        if case.asked:
            self.ledger.doubt(case.unit)
        else:
            self.ledger.aborted(case.unit)

    def died(self, case: Case) -> None:
        """The application is no more. Nobody hears whether it is promised what was asked for, even
        where the manager takes its connection to be alive for a while."""
        if case.asked and case.row is None and case.unit.status is Status.OPEN:
            self.ledger.doubt(case.unit)

    def aborting(self, case: Case) -> None:
        """Its abort goes into the inbox; when it counts is not known."""
        if case.unit.status is Status.OPEN:
            self._undone(case.unit)

    def _undone(self, unit: Unit) -> None:
        unit.told = Outcome.ABORTED
        self.ledger.aborted(unit)

    # ---- the database -------------------------------------------------------------------

    def landed(self, row: Row) -> None:
        """The database has committed with a row."""
        self._by_row[row].landed = True

    def set_back(self, database: RowDatabase) -> None:
        """It has the state of a backup."""
        self._set_back.add(database)
        for case in self.cases.values():
            if case.database is not database or not case.landed or case.lost:
                continue
            case.lost = not database.rows.issuperset(case.rows)
            if case.lost and case.heard and not case.forgotten:
                self.unaccepted.add((case.home.index, database.name))

    def alarmed(self, home: Node, database: RowDatabase) -> None:
        """A manager takes it for set back."""
        if database not in self._set_back:
            self.kernel.wrong(f"I21: {home.name} misses rows of {database.name}, which lost none")

    def accepted(self, home: Node, database: RowDatabase) -> None:
        """An operator accepts the restored database."""
        self.unaccepted.discard((home.index, database.name))
        for case in self.cases.values():
            if case.home is home and case.database is database:
                case.forgotten = case.landed

    def settled(self, home: Node, database: RowDatabase, row: Row, *, committed: bool) -> None:
        """The database has decided, because the recovery of a manager has asked it."""
        if database.decisions.get(row) == ABORTED:
            self._kept_out.add(row)
        if not committed and (home.index, database.name) in self.unaccepted:
            self.kernel.wrong(f"I21: {row} is decided by a database that was set back")

    # ---- the branch ---------------------------------------------------------------------

    def committing(self, case: Case) -> None:
        """Somebody is about to tell the branch to commit."""
        if not case.landed:
            self.kernel.wrong(f"I21: {case.xid} is told to commit, and its row is not there")
        case.commits += 1
        if case.unit.status is Status.OPEN:
            self.ledger.ask(case.unit)
        else:
            case.unit.vague = True  # nobody knows which of the two it was

    def committed(self, case: Case, *, known: bool, recovered: bool) -> None:
        """It has answered: done, or that there is no such branch (any more)."""
        if not known and case.commits == 1:
            self.kernel.wrong(f"I20: {case.home.name} does not know {case.xid}, which it promised")
        if known and recovered:
            self.kernel.marks[marks.ROW_FOUND] += 1
            self.kernel.marks[marks.ROW_DONE_AGAIN] += case.commits > 1
        case.heard = True
        if case.unit.status is not Status.COMMITTED:
            self.ledger.committed(case.unit)

    def rolling_back(self, case: Case, *, recovered: bool) -> None:
        """Somebody is about to tell it to roll back."""
        if case.landed and not case.lost:
            self.kernel.wrong(f"I21: {case.xid} is told to roll back, and its row is there")
        if recovered and self._row(case) not in self._kept_out:
            self.kernel.wrong(
                f"I21: {case.xid} is told to roll back, and nothing keeps its row out"
            )
        if case.unit.status in (Status.OPEN, Status.ASKED):
            self.ledger.doubt(case.unit)

    def _row(self, case: Case) -> Row:
        """Return the row of a case; the manager knows it if the promise was not answered."""
        if case.row is not None:
            return case.row
        assert case.home.engine is not None
        branch = case.home.engine.manager.state.branches.get(case.xid)
        return row_of(case.xid, branch.number if branch is not None else 0)

    def rolled_back(self, case: Case, *, recovered: bool) -> None:
        """It has answered: done, or that there is no such branch (any more)."""
        if case.unit.status is Status.DOUBT:
            self._undone(case.unit)
        self.kernel.marks[marks.ROW_FENCED] += recovered

    # ---- the end ------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything could be reached, and recovery has run."""
        for home, name in sorted(self.unaccepted):
            self.kernel.wrong(f"I21: manager {home} has not noticed that {name} was set back")
        for case in self.cases.values():
            there = case.database.rows.intersection(case.rows)
            if there and len(there) < len(case.rows):
                self.kernel.wrong(f"I2: {case.database.name} has a part of {case.xid}")
            if case.told is not None and case.told is not case.landed:
                self._differs(case, "its application was told otherwise")
            self._check_others(case)
            if not case.lost and bool(there) is not case.landed:
                self._differs(case, f"its rows are {'there' if there else 'not there'}")
            if not case.alone:
                self._settle(case)

    def _settle(self, case: Case) -> None:
        unit = case.unit
        if unit.status is Status.ASKED:
            self.ledger.committed(unit)
        elif unit.status is Status.DOUBT:
            self._undone(unit)  # its promise was not answered, and it has none
        committed = unit.status is Status.COMMITTED
        if unit.status is Status.OPEN or (committed is not case.landed and not case.lost):
            self._differs(case, f"its messages are {unit.status.value}")

    def _differs(self, case: Case, how: str) -> None:
        done = "has committed" if case.landed else "has not committed"
        self.kernel.wrong(f"I21: {case.database.name} {done} {case.xid}, and {how}")
