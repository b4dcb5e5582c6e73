"""The judge's books of transactions that several partners share (``coordinators.py``).

Each has a share at its home manager, whose commit is the decision, and one at each partner. Every
verb that anybody asks of a partner is entered here before it is asked and when it is answered: both
those of the application itself, and those of recovery on behalf of one that is gone.

Watches: I20 (what has promised can be told), I21 (nobody commits before the decision or rolls back
after it; in the end all have the outcome of the home manager, and the application was told it).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.model.branches import Vote, Xid
from onceq.model.results import Outcome
from proof.sim.apps.databases import Database
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Status, Unit
from proof.sim.judge.ledger import Ledger


@dataclass(eq=False, slots=True)
class Share:
    """What one partner does in one transaction.

    Attributes:
        unit: At a manager: its messages.
        database, rows: At a database: what is to be there, or not.
        asked: It was asked to prepare.
        promised: It has answered that it can do both.
        over: It has no part in it any more: it had nothing to decide, or never promised.
        commits, rollbacks: How often anybody has asked it for that.
        undone: A roll-back was answered as done.
    """

    whole: Whole
    xid: Xid
    where: str
    unit: Unit | None = None
    database: Database | None = None
    rows: list[int] = field(default_factory=list)
    asked: bool = False
    promised: bool = False
    over: bool = False
    commits: int = 0
    rollbacks: int = 0
    undone: bool = False
    ended: bool = False


@dataclass(eq=False, slots=True)
class Whole:
    """One transaction with all its shares.

    Attributes:
        asked: Its home manager was asked to commit it.
        decided: Somebody was told that it is committed.
        decided_life: Life of the home manager at that time.
        told: What its application was told; None: nothing, or that it is in doubt.
        alone: The only partner has decided, without a promise.
    """

    home: Node
    gtrid: bytes
    unit: Unit
    shares: list[Share] = field(default_factory=list)
    asked: bool = False
    decided: bool = False
    decided_life: int = -1
    told: bool | None = None
    alone: bool = False


class SharedBooks:
    """See the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node], ledger: Ledger) -> None:
        self.kernel, self.nodes, self.ledger = kernel, nodes, ledger
        self.wholes: dict[bytes, Whole] = {}
        self.shares: dict[tuple[str, Xid], Share] = {}
        self._rows = 0

    def begin(self, home: Node, gtrid: bytes) -> Whole:
        """A transaction begins."""
        whole = self.wholes[gtrid] = Whole(home, gtrid, self.ledger.unit(home.index))
        return whole

    def share(self, whole: Whole, xid: Xid, at: Node | Database, where: str) -> Share:
        """A partner takes part."""
        share = Share(whole, xid, where)
        if isinstance(at, Database):
            share.database = at
        else:
            share.unit = self.ledger.unit(at.index)
        whole.shares.append(share)
        self.shares[where, xid] = share
        return share

    def row(self, share: Share) -> int:
        """A row of its own for a database."""
        self._rows += 1
        share.rows.append(self._rows)
        return self._rows

    # ---- the home manager ---------------------------------------------------------------

    def decide(self, whole: Whole) -> None:
        """Its commit goes into the inbox."""
        whole.asked = True
        self.ledger.ask(whole.unit)

    def decided(self, whole: Whole) -> None:
        """Somebody is told that it is committed."""
        if not whole.asked:
            self.kernel.wrong(f"I21: {whole.home.name} has decided {whole.gtrid!r} by itself")
        undone = [share for share in whole.shares if share.undone]
        if undone:
            self.kernel.wrong(
                f"I21: {whole.gtrid!r} is committed, and was rolled back at {undone[0].where}"
            )
        if not whole.decided:
            whole.decided = True
            whole.decided_life = whole.home.life

    def aborting(self, whole: Whole) -> None:
        """Its abort goes into the inbox: whether an answer comes or not, what it took is anybody's
        from a moment on that nobody knows."""
        if whole.unit.status is Status.OPEN:
            self._undone(whole.unit)

    def home_lost(self, whole: Whole) -> None:
        """The connection to the home manager is lost."""
        if whole.unit.status is Status.ASKED:
            self.ledger.doubt(whole.unit)
        elif whole.unit.status is Status.OPEN:
            self.ledger.aborted(whole.unit)

    def found(self, whole: Whole, outcome: Outcome) -> None:
        """The home manager was asked what became of a commit in doubt."""
        self.ledger.resolved(whole.unit, outcome)
        done = outcome is Outcome.COMMITTED
        self.kernel.marks[marks.SHARED_DONE if done else marks.SHARED_NOT_DONE] += 1
        if done:
            self.decided(whole)

    # ---- a partner ----------------------------------------------------------------------

    def voted(self, share: Share, vote: Vote) -> None:
        """It has answered to prepare."""
        unit = share.unit
        if vote is Vote.PREPARED:
            share.promised = True
            return
        if share.rows or (unit is not None and (unit.sends or unit.takes)):
            self.kernel.wrong(f"I20: {share.where} has work in {share.xid}, and has nothing to do")
        share.over = True
        if unit is not None:
            unit.status = Status.ABORTED

    def refused(self, share: Share) -> None:
        """It has answered to prepare that it was rolled back."""
        share.over = True
        if share.unit is not None and share.unit.status is Status.OPEN:
            self.ledger.aborted(share.unit)

    def lost(self, share: Share) -> None:
        """The application's connection to it is lost: only a promise outlives that. One whose
        answer is lost counts as a vote against."""
        if share.promised or share.over or share.commits:
            return
        share.over = True
        if share.asked:
            self.kernel.marks[marks.VOTE_LOST] += 1
        if share.unit is None or share.unit.status not in (Status.OPEN, Status.DOUBT):
            return
        if share.asked or share.rollbacks:
            self._undone(share.unit)
        else:
            self.ledger.aborted(share.unit)

    def commit(self, share: Share) -> None:
        """Somebody is about to tell it to commit."""
        whole, unit = share.whole, share.unit
        if not whole.decided:
            self.kernel.wrong(
                f"I21: {share.where} is told to commit {share.xid} before that is decided"
            )
        share.commits += 1
        if unit is not None and unit.status is Status.OPEN:
            self.ledger.ask(unit)
        elif unit is not None:
            unit.vague = True  # asked again: nobody knows which of the two it was

    def committed(self, share: Share, *, known: bool, recovered: bool) -> None:
        """It has answered: done, or that there is no such branch (any more)."""
        if not known and share.commits == 1:
            # A listed branch that nobody else was telling its outcome; or one that had promised.
            self.kernel.wrong(
                f"I20: {share.where} was told for the first time to commit {share.xid}, and does "
                "not know it"
            )
        share.ended = True
        if share.unit is not None and share.unit.status is not Status.COMMITTED:
            self.ledger.committed(share.unit)
        if known and recovered:
            self.kernel.marks[marks.RECOVERED_COMMIT] += 1
            if share.whole.home.life != share.whole.decided_life:
                self.kernel.marks[marks.DECISION_KEPT] += 1

    def rollback(self, share: Share) -> None:
        """Somebody is about to tell it to roll back."""
        if share.whole.decided and not share.commits:
            self.kernel.wrong(
                f"I21: {share.where} is told to roll {share.xid} back, which is committed"
            )
        share.rollbacks += 1
        if share.unit is not None and share.unit.status is Status.OPEN:
            self.ledger.doubt(share.unit)  # until it is heard, what it held may be anybody's

    def rolled_back(self, share: Share, *, known: bool, recovered: bool) -> None:
        """It has answered: done, or that there is no such branch (any more)."""
        unit = share.unit
        if known and share.whole.decided:
            self.kernel.wrong(f"I21: {share.where} has rolled {share.xid} back, which is committed")
        share.undone = share.undone or (known and share.promised)
        if unit is not None and unit.status is Status.DOUBT:
            self._undone(unit)
        if known and recovered:
            self.kernel.marks[marks.RECOVERED_ROLLBACK] += 1

    def _undone(self, unit: Unit) -> None:
        """It is rolled back, or will be; when its abort counts is not known."""
        unit.told = Outcome.ABORTED
        self.ledger.aborted(unit)

    # ---- the application ----------------------------------------------------------------

    def died(self, whole: Whole) -> None:
        """It is no more. Nobody hears the answers that are under way, even where a manager takes
        its connection to be alive for a while: the messages of such a commit or promise are free
        again when it is refused."""
        if whole.unit.status is Status.ASKED:
            self.ledger.doubt(whole.unit)
        for share in whole.shares:
            unheard = share.asked and not (share.promised or share.over or share.commits)
            if unheard and share.unit is not None and share.unit.status is Status.OPEN:
                self.ledger.doubt(share.unit)
        if any(share.promised for share in whole.shares):
            untold = not all(share.ended or share.over for share in whole.shares)
            if not whole.asked:
                self.kernel.marks[marks.DIED_PREPARED] += 1
            elif whole.decided and untold:
                self.kernel.marks[marks.DIED_DECIDED] += 1

    # ---- the end ------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything could be reached, and recovery has run: nothing may be left, and every
        transaction has one outcome. What nobody could say goes into the books."""
        for node in self.nodes:
            assert node.engine is not None
            branches = node.engine.manager.state.branches
            for branch in branches:
                self.kernel.wrong(f"I21: {node.name} still has {branch.xid} prepared")
            for gtrid, made in branches.decisions.items():
                self.kernel.wrong(
                    f"I21: {node.name} still keeps its decision on {gtrid!r} for {made.partners}"
                )
        for whole in self.wholes.values():
            self._judge(whole)

    def _judge(self, whole: Whole) -> None:
        if whole.alone:
            self._judge_alone(whole)
            return
        status = whole.unit.status
        if status not in (Status.COMMITTED, Status.ABORTED):
            self.kernel.wrong(f"I21: nobody knows what became of {whole.gtrid!r}: {status.value}")
        committed = status is Status.COMMITTED
        if whole.told is not None and whole.told is not committed:
            self._differs(whole, "its application", whole.told)
        for share in whole.shares:
            if share.database is not None:
                there = share.database.rows.intersection(share.rows)
                if share.xid in share.database.prepared:
                    self.kernel.wrong(f"I21: {share.where} still has {share.xid} prepared")
                if there and len(there) < len(share.rows):
                    self.kernel.wrong(f"I2: {share.where} has a part of {share.xid}")
                if share.rows and bool(there) is not committed:
                    self._differs(whole, share.where, bool(there))
            elif share.unit is not None and (share.unit.sends or share.unit.takes):
                self._settle(whole, share.unit, share.where, committed=committed)

    def _settle(self, whole: Whole, unit: Unit, where: str, *, committed: bool) -> None:
        if unit.status in (Status.COMMITTED, Status.ABORTED):
            if (unit.status is Status.COMMITTED) is not committed:
                self._differs(whole, where, not committed)
        elif committed:
            self.ledger.committed(unit)
        elif unit.seen:
            self._differs(whole, where, True)
        else:
            self._undone(unit)

    def _differs(self, whole: Whole, where: str, done: bool) -> None:
        there = "committed" if done else "rolled back"
        self.kernel.wrong(
            f"I21: {whole.gtrid!r} is {whole.unit.status.value} at {whole.home.name}, and {there} "
            f"as {where} has it"
        )

    def _judge_alone(self, whole: Whole) -> None:
        """The only partner has decided: what it has done is what its application was told."""
        for share in whole.shares:
            assert share.database is not None
            there = share.database.rows.intersection(share.rows)
            if there and len(there) < len(share.rows):
                self.kernel.wrong(f"I2: {share.where} has a part of {share.xid}")
            if share.rows and whole.told is not None and bool(there) is not whole.told:
                self.kernel.wrong(
                    f"I21: {share.where} has {len(there)} rows of {share.xid}, and its application "
                    f"was told {'committed' if whole.told else 'rolled back'}"
                )
