"""A branch of an external transaction from the application's side (XTX-3).

It is a unit of work like any other until its end: then it is prepared, and its outcome comes from
the coordinator. The last batches go along with prepare, in one frame where they fit.

Upholds: I20 (prepared is said only when the manager has said it).
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from onceq.client.plans.plan import Plan, ask, do, look, tell
from onceq.client.plans.sending_unit import ENDING, NOTHING, PipelinedReceive, offered
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.errors import (
    BranchState,
    InDoubt,
    LinkLost,
    OnceqError,
    RolledBack,
    ServiceNotAvailable,
    StorageFailure,
    TransactionOver,
    UnknownBranch,
)
from onceq.model import requests
from onceq.model.branch import Decision, Join, Leave, Vote
from onceq.model.views import looks
from onceq.model.xid import ONCEQ_FORMAT, Xid
from onceq.partners.procedures import What


def prepare(session: Session, xid: Xid) -> Plan[Vote]:
    """Prepare a branch whose work has ended.

    Raises:
        RolledBack: It cannot be promised, and was rolled back.
        UnknownBranch, BranchState: There is none, or its work has not ended.
    """
    request = requests.PrepareBranch(xid)
    return ask(request, Vote)


def commit(
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
    except (LinkLost, StorageFailure) as error:
        raise InDoubt(
            f"the answer to the commit of branch {xid} was lost ({error.text}); commit it again: "
            "unknown then means that it was done",
            transaction=str(xid),
        ) from error


def rollback(session: Session, xid: Xid, *, by_hand: bool = False) -> Plan[None]:
    """Roll a branch back; see ``commit``."""
    return do(requests.RollbackBranch(xid, by_hand))


def forget(session: Session, xid: Xid) -> Plan[None]:
    """Drop the memory of a branch that was decided by hand."""
    return do(requests.ForgetBranch(xid))


def recover(session: Session) -> Plan[list[Xid]]:
    """Branches that are prepared, or were decided by hand."""
    return [
        Xid.parse(view.xid)
        for view in (yield from look(looks.BRANCHES))
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
        except (TransactionOver, ServiceNotAvailable):
            raise
        except OnceqError as error:
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
            yield from commit(self.session, self.xid, one_phase=True)
        except RolledBack:
            self.over = "rolled back"
            raise
        self.over = "committed"
        return MessageIds(self.session.source)

    def decide(self) -> Plan[None]:
        """Commit it once it was prepared; on any connection."""
        self.check_process()
        return commit(self.session, self.xid)

    def abort(self, why: str = "") -> Plan[None]:
        """Undo it, wherever it is; if its connection was lost it may be prepared all the same.

        Args:
            why: Not kept with what a branch has received.
        """
        self.check_process()
        if self.over == "committed":
            raise BranchState(f"branch {self.xid} was committed")
        if not self.over and self.begun:
            with contextlib.suppress(OnceqError):
                yield from do(requests.EndBranch(self.number, self.xid, Leave.FAIL))
        self.over = "rolled back"
        self._items = []
        with contextlib.suppress(UnknownBranch):
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

    def told(self, verb: str) -> Plan[None]:
        """All partners have carried the decision out ("done"), or not all could be told.

        Nobody waits for the former to be heard: a decision that stands on record too long only
        makes recovery look once more.
        """
        done = verb == What.DONE.value
        if done:
            yield from tell(requests.DecisionDone(self.gtrid), unhurried=True)
        else:
            yield from do(requests.LeaveDecision(self.gtrid))


# ---- what this manager has decided -------------------------------------------------------------


def decision(session: Session, gtrid: bytes) -> Plan[Decision]:
    """What this manager has decided for an external transaction (presumed abort)."""
    return ask(requests.AskDecision(gtrid), Decision)


def done(session: Session, gtrid: bytes) -> Plan[None]:
    """All partners have carried a decision out."""
    yield from do(requests.DecisionDone(gtrid))
