"""A branch of an external transaction from the application's side (XTX-3).

It is a unit of work like any other until its end: then it is prepared, and its outcome comes from
whoever coordinates. The last batches go along with prepare, in one frame where they fit.

Upholds: I20 (prepared is said only when the manager has said it).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from onceq.client.link import Request
from onceq.client.plans import Plan, ask
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.errors import (
    BranchState,
    InDoubt,
    LinkLost,
    OnceqError,
    ServiceNotAvailable,
    StorageFailure,
    TransactionOver,
    UnknownBranch,
)
from onceq.model.branch import Join, Leave, Vote
from onceq.model.views.branches import BranchView
from onceq.model.xid import ONCEQ_FORMAT, Xid, make_gtrid
from onceq.partners.deciding import What
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


def verb(name: str, xid: Xid, *, transaction: int = 0, how: int = 0, by_hand: bool = False) -> Plan:
    """One verb of XA on a branch."""
    head = frames.BranchHead(name, transaction, xid.format_id, xid.gtrid, xid.bqual, how, by_hand)
    return (yield from ask(Code.BRANCH, head))


def commit(xid: Xid, *, one_phase: bool = False, by_hand: bool = False) -> Plan:
    """Commit a branch; raises InDoubt if the answer is lost: ask again, or look at the list."""
    try:
        yield from verb("commit", xid, how=int(one_phase), by_hand=by_hand)
    except (LinkLost, StorageFailure) as error:
        raise InDoubt(
            f"the answer to the commit of branch {xid} was lost ({error.text}); commit it again: "
            "unknown then means that it was done",
            transaction=str(xid),
        ) from error


def prepare_ended(xid: Xid) -> Plan:
    """Prepare a branch whose work has ended; returns a Vote."""
    head = frames.PrepareHead(0, xid.format_id, xid.gtrid, xid.bqual, [])
    return (yield from ask(Code.PREPARE, head))


def recovered(found: Sequence[BranchView]) -> list[Xid]:
    """The branches of a view that wait for a coordinator: prepared, or decided by hand."""
    return [
        Xid.parse(view.xid)
        for view in found
        if view.phase == "prepared" or view.phase.endswith("by hand")
    ]


class BranchUnit(Unit):
    """One branch, at work on one connection."""

    def __init__(self, session: Session, xid: Xid) -> None:
        super().__init__(session)
        self.xid = xid
        self.vote: Vote | None = None

    def start(self, how: Join) -> Plan:
        """Associate it with this connection."""
        yield from verb("start", self.xid, transaction=self.number, how=how)
        self.begun = True

    def end(self, how: Leave = Leave.SUCCESS) -> Plan:
        """Dissociate it; what was gathered is shipped first."""
        self.check_open()
        if self.doomed is not None:
            how = Leave.FAIL  # The manager may know nothing of a send that was wrong in itself.
        if self._items and how is not Leave.FAIL:
            yield from self._ship()
        yield from self.guard(verb("end", self.xid, transaction=self.number, how=how))
        self.over = "suspended" if how is Leave.SUSPEND else "ended: its coordinator goes on"
        self._clear()

    def prepare(self) -> Plan:
        """Send what was gathered, and promise both outcomes; returns a Vote.

        Raises:
            SendFailed: A send was refused, here or before; the branch was rolled back.
        """
        self.check_open()
        if self.doomed is not None:
            yield from self._end_doomed()
        items, runs = self._offer()
        xid = self.xid
        head = frames.PrepareHead(self.number, xid.format_id, xid.gtrid, xid.bqual, items)
        try:
            vote: Vote = yield from self.guard(_one(Request(Code.PREPARE, head, runs)))
        except (TransactionOver, ServiceNotAvailable):
            raise
        except OnceqError as error:
            yield from self._end_refused(items, error)
            raise
        self.vote = vote
        self.over = f"{vote.value}: its coordinator goes on"
        self._clear()
        return vote

    def commit(self, *, retaining: bool = False) -> Plan:
        """Its own commit is the one of the only branch there is (TMONEPHASE)."""
        yield from self.end()
        self.over = "in doubt"
        yield from commit(self.xid, one_phase=True)
        self.over = "committed"

    def abort(self) -> Plan:
        """Undo it, wherever it is; if its connection was lost it may be prepared all the same."""
        if self.over == "committed":
            raise BranchState(f"branch {self.xid} was committed")
        if not self.over and self.begun:
            with contextlib.suppress(OnceqError):
                yield from verb("end", self.xid, transaction=self.number, how=Leave.FAIL)
        self.over = "rolled back"
        self._clear()
        with contextlib.suppress(UnknownBranch):
            yield from verb("rollback", self.xid)


def _one(request: Request) -> Plan:
    return (yield request)


class Deciding:
    """A unit of work whose commit decides for partners.

    Attributes:
        gtrid: Of the external transaction; empty until a partner is enlisted.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self.gtrid = b""
        self._branches = 0

    def enlist(self, partner: str) -> Plan:
        """Tell the manager of a partner, before that does anything; returns its branch."""
        unit = self._unit
        unit.check_sound()
        gtrid = self.gtrid or make_gtrid(unit.session.source, unit.session.next_global())
        yield from unit.begin()
        head = frames.DecideHead("enlist", unit.number, gtrid, partner)
        yield from unit.guard(ask(Code.DECIDE, head))
        self.gtrid = gtrid
        self._branches += 1
        return Xid(ONCEQ_FORMAT, gtrid, b"%d" % self._branches)

    def told(self, verb: str) -> Plan:
        """All partners have carried the decision out ("done"), or not all could be told.

        Nobody waits for the former to be heard: a decision that stands on record too long only
        makes recovery look once more.
        """
        done = verb == What.DONE.value
        head = frames.DecideHead(verb, 0, self.gtrid)
        yield Request(Code.DECIDE, head, waits=not done, unhurried=done)


def done(gtrid: bytes) -> Plan:
    """All partners have carried a decision out."""
    yield from ask(Code.DECIDE, frames.DecideHead("done", 0, gtrid))


def decision(gtrid: bytes) -> Plan:
    """What was decided for a transaction; returns a Decision."""
    return (yield from ask(Code.DECIDE, frames.DecideHead("ask", 0, gtrid)))
