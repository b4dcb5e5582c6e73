"""Recovery for code with threads: other managers as partners, and the manager that decides.

See ``client/recovering.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceq.client.link import ThreadLink
from onceq.client.recovering import ManagerDecider, ManagerResource, RecoveryThread
from onceq.client.threads.connected import Connected
from onceq.client.threads.running import Home
from onceq.client.threads.transaction import Branch, branch
from onceq.errors import EnlistRefused
from onceq.model.branches import Vote, Xid
from onceq.partners.contract import Partner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.recovery import Recovery


class ManagerPartner(ManagerResource):
    """Another queue manager in a transaction; see ``Partner``.

    Attributes:
        work: The branch in which to send and receive there.
    """

    work: Branch | None = None

    def __init__(self, manager: Home) -> None:
        super().__init__(manager)
        self._home = manager

    def check(self) -> None:
        """Find out, before any work is done, whether this can be a partner at all."""
        self._home._live()

    def begin(self, xid: Xid) -> None:
        """Make what the connection does from here on belong to the branch."""
        self.work = branch(self._home, xid)

    def _at_work(self) -> Branch:
        assert self.work is not None, "it was begun"
        return self.work

    def prepare(self, xid: Xid) -> Vote:
        """Make all work of the branch durable without ending it, and promise both outcomes."""
        return self._at_work().prepare()

    def commit_one_phase(self, xid: Xid) -> None:
        """Commit what is not prepared: there is no other partner."""
        self._at_work().commit()

    def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch, prepared or not."""
        self._at_work().abort()

    def abandon(self) -> None:
        """Do nothing: its connection is the manager's own."""

    def resource(self) -> Resource:
        """Return the other side of the same database, or None."""
        return ManagerResource(self._manager, self.name)


class AbsentManager:
    """Another queue manager for recovery, which need not be there yet; see ``Resource``."""

    def __init__(self, connect: Callable[[], Recovering]) -> None:
        """Connect when it is first asked for anything, and again until that works."""
        self._connect = connect
        self._manager: Recovering | None = None

    def _there(self) -> ManagerResource:
        if self._manager is None:
            self._manager = self._connect()
        return ManagerResource(self._manager)

    @property
    def name(self) -> str:
        """The name that partners of this database have."""
        return self._there().name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """Return the branches that are prepared here and can be ended from here."""
        return self._there().recover(prefix)

    def commit(self, xid: Xid) -> None:
        """Commit what is prepared."""
        self._there().commit(xid)

    def rollback(self, xid: Xid) -> None:
        """Undo the work of a prepared branch."""
        self._there().rollback(xid)

    def forget(self, xid: Xid) -> None:
        """Forget a heuristic outcome of the branch."""
        self._there().forget(xid)

    def close(self) -> None:
        """Close the connection, which is its own."""
        if self._manager is not None:
            self._manager.close()


class Recovering(Connected):
    """Of ``QueueManager``: it may decide for partners, and looks after them."""

    def __init__(self, connect: Callable[[], ThreadLink], *, again: bool) -> None:
        super().__init__(connect, again=again)
        self._recovering = RecoveryThread(f"onceq recovery {self.name}", self.recovery)

    def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        self._recovering.stop()
        super().close()

    def forked(self) -> None:
        """Give up what is the parent's: this is a child now."""
        super().forked()
        self._recovering.forked()

    def _partner_for(self, connection: Any) -> Partner:
        """What takes part for a connection (for ``Transaction.enlist``)."""
        if isinstance(connection, Recovering):
            if connection.id == self.id:
                raise EnlistRefused("this transaction is that manager's own; send in it directly")
            return ManagerPartner(connection)
        partner: Any = partner_for(connection)
        return partner  # type: ignore[no-any-return]  # which is none for tasks

    def recovery(self, resources: list[Resource] | None = None) -> Recovery:
        """Recovery to be driven by the caller, who says which databases there are."""
        return Recovery(ManagerDecider(self), resources or ())
