"""Branches from the application's side: of an external transaction, or decided by a row.

A branch of an external transaction is prepared, and then decided by its coordinator (XTX-3). A
transaction with a last agent is decided by a row in a database, which commits with it.

Upholds: I20 (prepared is said only when the manager has said it).
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from onceq import errors
from onceq.client.link import LinkRequest, Session
from onceq.client.plans.plan import Plan, ask, do, look_at, tell
from onceq.client.plans.sending_unit import ENDING, NOTHING, PipelinedReceive, offered
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.model import requests
from onceq.model.branches import ONCEQ_FORMAT, DecisionState, Join, Leave, Vote, Xid, xid_by_row
from onceq.model.results import Promised, Sent
from onceq.model.views import looks
from onceq.model.views.looks import BranchView, RowsView
from onceq.partners.contract import Row, row_of
from onceq.partners.procedures import What
from onceq.partners.recovery import promises_in

# ---- xa ------------------------------------------------------------------------------------------
#
# A branch of an external transaction from the application's side (XTX-3).


def prepare(session: Session, xid: Xid) -> Plan[Vote]:
    """Prepare a branch whose work has ended.

    Raises:
        RolledBack: It cannot be promised, and was rolled back.
        UnknownBranch, BranchState: There is none, or its work has not ended.
    """
    request = requests.PrepareBranch(xid)
    return ask(request, Vote)


def commit_branch(
    session: Session, xid: Xid, *, one_phase: bool = False, by_hand: bool = False
) -> Plan[None]:
    """Commit a prepared branch, or (``one_phase``) one that has ended.

    Args:
        by_hand: An operator decides in place of the coordinator: recorded until ``forget``.

    Raises:
        InDoubt: The answer was lost. Commit again.
        UnknownBranch: There is none (any more).
        DecidedByHand: An operator was first.
    """
    try:
        yield from do(requests.CommitBranch(xid, one_phase, by_hand))
    except (errors.LinkLost, errors.StorageFailure) as error:
        raise errors.InDoubt(
            f"the answer to the commit of branch {xid} was lost ({error.text}); commit it again: "
            "unknown then means that it was done",
            transaction=str(xid),
        ) from error


def rollback_branch(session: Session, xid: Xid, *, by_hand: bool = False) -> Plan[None]:
    """Roll a branch back; see ``commit``."""
    return do(requests.RollbackBranch(xid, by_hand))


def forget_branch(session: Session, xid: Xid) -> Plan[None]:
    """Drop the memory of a branch that was decided by hand."""
    return do(requests.ForgetBranch(xid))


def recover(session: Session) -> Plan[list[Xid]]:
    """Branches that are prepared, or were decided by hand."""
    return [
        Xid.parse(view.xid)
        for view in (yield from look_at(looks.BRANCHES))
        if view.phase == "prepared" or view.phase.endswith("by hand")
    ]


UnitT = TypeVar("UnitT", bound="BranchUnit")


class BranchUnit(Unit):
    """One branch, at work on one connection."""

    def __init__(self, session: Session, xid: Xid) -> None:
        super().__init__(session)
        self.number = session.next_transaction()
        self.xid = xid
        self.vote: Vote | None = None

    def start(self, how: Join) -> Plan[None]:
        """Associate it with this connection."""
        yield from do(requests.StartBranch(self.number, self.xid, how))
        self.begun = True

    def end(self, how: Leave = Leave.SUCCESS) -> Plan[None]:
        """Dissociate it; what was gathered is shipped first."""
        self.check_open()
        self.check_awaited()
        if self.doomed is not None:
            how = Leave.FAIL  # The manager may know nothing of a send that was wrong in itself.
        if self._items and how is not Leave.FAIL:
            yield from self._ship()
        yield from self.guard(do(requests.EndBranch(self.number, self.xid, how)))
        self.over = "suspended" if how is Leave.SUSPEND else "ended: its coordinator goes on"
        self._items = []

    def prepare(self) -> Plan[Vote]:
        """End it, and promise that it can be committed and rolled back, through any crash.

        Raises:
            RolledBack: It cannot, and was rolled back.
            SendFailed: The same, because a send was refused, here or before.
        """
        self.check_open()
        self.check_awaited()
        if self.doomed is not None:
            yield from self._end_doomed()
        self.over = ENDING
        items = offered(self._items, self.session.clock)
        try:
            request = requests.PrepareBranch(self.xid, self.number, items)
            vote = yield from self.guard(ask(request, Vote))
        except (errors.TransactionOver, errors.ServiceNotAvailable):
            raise
        except errors.OnceqError as error:
            yield from self._end_refused(items, error)
            raise
        finally:
            self.over = "" if self.over == ENDING else self.over
        self.vote = vote
        self.over = f"{self.vote.value}: its coordinator goes on"
        self._items = []
        return self.vote

    def commit(
        self, *, retaining: bool = False, ahead: PipelinedReceive = NOTHING
    ) -> Plan[MessageIds]:
        """Its own commit is the one of the only branch there is (TMONEPHASE)."""
        yield from self.end()
        self.over = "in doubt"
        try:
            yield from commit_branch(self.session, self.xid, one_phase=True)
        except errors.RolledBack:
            self.over = "rolled back"
            raise
        self.over = "committed"
        return MessageIds(self.session.source)

    def decide(self) -> Plan[None]:
        """Commit it once it was prepared; on any connection."""
        self.check_process()
        return commit_branch(self.session, self.xid)

    def abort(self, why: str = "") -> Plan[None]:
        """Undo it, wherever it is; if its connection was lost it may be prepared all the same.

        Args:
            why: Not kept with what a branch has received.
        """
        self.check_process()
        if self.over == "committed":
            raise errors.BranchState(f"branch {self.xid} was committed")
        if not self.over and self.begun:
            with contextlib.suppress(errors.OnceqError):
                yield from do(requests.EndBranch(self.number, self.xid, Leave.FAIL))
        self.over = "rolled back"
        self._items = []
        with contextlib.suppress(errors.UnknownBranch):
            yield from do(requests.RollbackBranch(self.xid))


def branch(
    session: Session, xid: Xid, *, join: bool = False, resume: bool = False
) -> Plan[BranchUnit]:
    """Work in a branch of an external transaction.

    Args:
        join: It exists, and its work has ended; there is more to do in it.
        resume: It was suspended.

    Raises:
        DuplicateBranch: It exists.
        NoCoordinator: This manager takes no part in external transactions.
    """
    return started(BranchUnit(session, xid), join=join, resume=resume)


def started(unit: UnitT, *, join: bool, resume: bool) -> Plan[UnitT]:
    """The same with a unit of work that is there."""
    yield from unit.start(Join.JOIN if join else Join.RESUME if resume else Join.NEW)
    return unit


def end(unit: BranchUnit, *, suspend: bool = False, fail: bool = False) -> Plan[None]:
    """Dissociate it from this work (xa_end).

    Args:
        suspend: It will be resumed.
        fail: It can only be rolled back.
    """
    return unit.end(Leave.FAIL if fail else Leave.SUSPEND if suspend else Leave.SUCCESS)


class Deciding:
    """A unit of work whose commit decides for partners.

    Attributes:
        gtrid: Of the external transaction; empty until a partner is enlisted.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self.gtrid = b""
        self._branches = 0

    def enlist(self, partner: str) -> Plan[Xid]:
        """Tell the manager of a partner, before that does anything; returns its branch."""
        unit = self._unit
        unit.check_sound()
        yield from unit.begin()
        request = requests.Enlist(unit.number, partner)
        self.gtrid = yield from unit.guard(ask(request, bytes))
        self._branches += 1
        return Xid(ONCEQ_FORMAT, self.gtrid, b"%d" % self._branches)

    def report(self, verb: str) -> Plan[None]:
        """Report that all partners have carried the decision out ("done"), or that not all could.

        No caller waits for the answer to "done": a decision that stays on record too long only
        makes recovery look once more.
        """
        done = verb == What.DONE.value
        if done:
            yield from tell(requests.DecisionDone(self.gtrid), unhurried=True)
        else:
            yield from do(requests.LeaveDecision(self.gtrid))


# ---- what this manager has decided -------------------------------------------------------------


def decision(session: Session, gtrid: bytes) -> Plan[DecisionState]:
    """What this manager has decided for an external transaction (presumed abort)."""
    return ask(requests.AskDecision(gtrid), DecisionState)


def done(session: Session, gtrid: bytes) -> Plan[None]:
    """All partners have carried a decision out."""
    yield from do(requests.DecisionDone(gtrid))


# ---- last agent ----------------------------------------------------------------------------------
#
# A transaction that a row in a database decides, from the application's side.


class ByRow:
    """A unit of work that a row in a database decides.

    Attributes:
        xid: The branch that it becomes.
        promised: What was answered to its promise.
    """

    def __init__(self, unit: Unit, agent: str) -> None:
        self._unit = unit
        session = unit.session
        self.xid = xid_by_row(session.source, session.next_global(), agent)
        self.promised: Promised | None = None

    @property
    def row(self) -> Row:
        """The key of its row."""
        assert self.promised is not None, "the row names the branch"
        return row_of(self.xid, self.promised.number)

    def promise(self) -> Plan[Promised | None]:
        """End it with a promise: from now on it is a branch.

        Returns:
            What its messages are called, as far as that is known now; None if it has nothing to
            decide, and is over.

        Raises:
            DatabaseRestored: The queue manager knows that the database was set back.
            SendFailed: A send was refused, here or before; the transaction was undone.
        """
        unit = self._unit
        unit.check_open()
        if unit.owed:
            unit.check_awaited()
        if unit.doomed is not None:
            yield from unit._end_doomed()
        unit.over = ENDING
        items = offered(unit._items, unit.session.clock)
        try:
            # Where nothing had to be asked before, the items alone are the transaction.
            self.promised = yield LinkRequest(requests.Promise(unit.number, self.xid, items))
        except (errors.DatabaseRestored, errors.RolledBackByTime, errors.TransactionOver):
            raise
        except errors.ServiceNotAvailable as error:
            # A promise whose answer was lost is undone by recovery: no row was written for it.
            if unit.begun or isinstance(error, errors.LinkLost):
                raise unit.lost() from error
            raise
        except errors.OnceqError as error:
            yield from unit._end_refused(items, error)
            raise
        except GeneratorExit:
            raise
        except BaseException:
            unit.over = "aborted, because its promise was given up while it waited"
            raise
        finally:
            unit.over = "" if unit.over == ENDING else unit.over
        unit.over = "in doubt, because a database decides it"
        unit._items = []
        return self.promised

    def fulfil(self, *, others: bool = False) -> Plan[MessageIds]:
        """The row is there: commit the branch.

        Nobody waits for that: it is decided. But where messages leave this manager, or are
        acknowledged, their identifiers come with the commit.

        Args:
            others: It decides for other partners. What is asked about them comes after it.
        """
        assert self.promised is not None, "it was promised"
        unit, source = self._unit, self._unit.session.source
        _, first, messages, _ = self.promised
        unit.over = "committed"
        unit.sent = MessageIds(source, first, messages if first else 0)
        if others and (first or not messages):
            with contextlib.suppress(errors.UnknownBranch):  # Recovery was first.
                yield from do(requests.CommitBranch(self.xid))
            return unit.sent
        request = requests.CommitBranch(self.xid)
        if first or not messages:
            yield LinkRequest(request, waits=False, unhurried=True, shows=True)
        else:
            try:
                sent = yield from ask(request, Sent)
            except errors.UnknownBranch:  # Recovery was first.
                sent = Sent()
            unit.sent = MessageIds(source, sent.first_message, sent.messages)
        return unit.sent

    def undo(self) -> Plan[None]:
        """The database has not committed, and will not."""
        self._unit.over = "aborted"
        yield from rollback_branch(self._unit.session, self.xid)

    def leave(self) -> Plan[None]:
        """This application does not know whether the row is there: others may ask for it."""
        yield from do(requests.LeaveDecision(self.xid.gtrid))


def promises(session: Session) -> Plan[list[BranchView]]:
    """Prepared branches that rows in databases decide."""
    return promises_in((yield from look_at(looks.BRANCHES)))


def rows(session: Session, agent: str, found: int = 0) -> Plan[RowsView]:
    """What rows of a database the manager has seen; see ``AskRows``."""
    return ask(requests.AskRows(agent, found), RowsView)
