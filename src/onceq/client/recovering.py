"""Recovery from an application: the manager as decider, managers as resources, and a thread.

The first time that a transaction enlists a database or another manager, a thread of the
``QueueManager`` begins to look after it: whatever an earlier life of any application has left
prepared there is brought to its outcome, at once and then from time to time (XTX-5).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from onceq.client import branch_unit
from onceq.client.session import Session
from onceq.errors import EnlistRefused, OnceqError
from onceq.model.branch import Decision, Vote
from onceq.model.xid import Xid
from onceq.partners.contract import AnyPartner, Partner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.recovery import WAIT_S_MIN, Recovery, Report

if TYPE_CHECKING:
    from onceq.client.branches import Branch
    from onceq.client.sync import QueueManager


class ManagerDecider:
    """A queue manager that decides; see ``partners.recovery.Decider``."""

    def __init__(self, manager: QueueManager, guid: bytes) -> None:
        self._manager = manager
        self.guid = guid

    def decision(self, gtrid: bytes) -> Decision:
        """See Decider."""
        return self._manager.decision(gtrid)

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """See Decider."""
        return {view.gtrid.encode(): view.partners for view in self._manager.decisions()}

    def done(self, gtrid: bytes) -> None:
        """See Decider."""
        self._manager.run(branch_unit.done(gtrid))


class ManagerPartner:
    """Another queue manager in a transaction; see ``Partner``.

    Attributes:
        work: The branch in which to send and receive there.
    """

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self.name = f"onceq:{manager.id}"
        self.work: Branch | None = None

    def check(self) -> None:
        """See Partner."""
        self._manager.live()

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        self.work = self._manager.branch(xid)

    def _at_work(self) -> Branch:
        assert self.work is not None, "it was begun"
        return self.work

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        return self._at_work().prepare()

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        self._manager.xa.commit(xid)

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        self._at_work().commit()

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        self._at_work().abort()

    def forget(self, xid: Xid) -> None:
        """See Partner."""
        self._manager.xa.forget(xid)

    def abandon(self) -> None:
        """See Partner: its connection is the manager's own."""

    def resource(self) -> Resource:
        """See Partner."""
        return ManagerResource(self._manager, self.name)


class ManagerResource:
    """Another queue manager for recovery; see ``Resource``."""

    def __init__(self, manager: QueueManager, name: str = "") -> None:
        self._manager = manager
        self.name = name or f"onceq:{manager.id}"

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        return [xid for xid in self._manager.xa.recover() if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.xa.commit(xid)

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.xa.rollback(xid)

    def forget(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.xa.forget(xid)

    def close(self) -> None:
        """See Resource. The manager belongs to somebody else."""


class AbsentManager:
    """Another queue manager for recovery, which need not be there yet; see ``Resource``."""

    def __init__(self, connect: Callable[[], QueueManager]) -> None:
        """Connect when it is first asked for anything, and again until that works."""
        self._connect = connect
        self._manager: QueueManager | None = None

    def _there(self) -> ManagerResource:
        if self._manager is None:
            self._manager = self._connect()
        return ManagerResource(self._manager)

    @property
    def name(self) -> str:
        """See Resource."""
        return self._there().name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        return self._there().recover(prefix)

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._there().commit(xid)

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._there().rollback(xid)

    def forget(self, xid: Xid) -> None:
        """See Resource."""
        self._there().forget(xid)

    def close(self) -> None:
        """See Resource. This connection is its own."""
        if self._manager is not None:
            self._manager.close()


class Recovering:
    """Of ``QueueManager``."""

    _session: Session
    _recovery: Recovery | None
    _recovery_lock: threading.Lock
    _recovery_soon: threading.Event
    _closed: bool

    def partner_for(self, connection: Any) -> Partner:
        """What takes part for a connection (for ``Transaction.enlist``)."""
        if isinstance(connection, Recovering):
            other = cast("QueueManager", connection)
            if other.id == cast("QueueManager", self).id:
                raise EnlistRefused("this transaction is that manager's own; send in it directly")
            return ManagerPartner(other)
        return cast(Partner, partner_for(connection))

    def recovery(self, resources: list[Resource] | None = None) -> Recovery:
        """Recovery to be driven by the caller, who says which databases there are."""
        decider = ManagerDecider(cast("QueueManager", self), self._session.source)
        return Recovery(decider, resources or ())

    def look_after(self, partner: AnyPartner) -> None:
        """Let the thread look after the resource of a partner from now on."""
        with self._recovery_lock:
            if self._recovery is not None and self._recovery.knows(partner.name):
                return
            first = self._recovery is None
            recovery = self._recovery = self._recovery or self.recovery()
            resource = partner.resource()
            if resource is not None:
                recovery.add(resource, partner.name)
            if first:
                name = f"onceq recovery {self._session.name}"
                threading.Thread(target=self._recover, name=name, daemon=True).start()
            self._recovery_soon.set()

    def recover_soon(self) -> None:
        """Let the thread look now."""
        self._recovery_soon.set()

    def _recover(self) -> None:
        recovery = self._recovery
        assert recovery is not None
        wait_s = 0.0
        while not self._closed:
            self._recovery_soon.wait(wait_s)
            self._recovery_soon.clear()
            if self._closed:
                break
            report = Report()
            now_s = time.monotonic()
            try:
                report = recovery.step(now_s)
                wait_s = recovery.next_s(now_s, report)
            except OnceqError:
                wait_s = WAIT_S_MIN  # The manager itself cannot be reached.
        recovery.close()
