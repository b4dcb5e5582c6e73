"""Recovery from an application: the manager as decider, and managers as resources.

Rounds of recovery run in a thread, for tasks too: there the plans go through the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from onceq.client.plans import last_agent, xa
from onceq.client.plans.plan import Plan
from onceq.client.session import Session
from onceq.model.branch import Decision
from onceq.model.identity import guid_text
from onceq.model.views.branches import BranchView, RowsView
from onceq.model.xid import Xid

T = TypeVar("T")


class Manager(Protocol):
    """A queue manager whose plans a thread can carry out."""

    @property
    def _state(self) -> Session:
        """Of the application with it."""

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out."""


class ManagerDecider:
    """A queue manager that decides; see ``partners.recovery.Decider``."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._session = manager._state
        self.guid = self._session.source

    def decision(self, gtrid: bytes) -> Decision:
        """See Decider."""
        return self._manager.run(xa.decision(self._session, gtrid))

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """See Decider."""
        views = self._manager.run(xa.decisions(self._session))
        return {view.gtrid.encode(): tuple(view.partners) for view in views}

    def done(self, gtrid: bytes) -> None:
        """See Decider."""
        self._manager.run(xa.done(self._session, gtrid))


class ManagerPromiser:
    """A queue manager with branches that rows decide; see ``last_recovery.Promiser``."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._session = manager._state

    def promises(self) -> list[BranchView]:
        """See Promiser."""
        return self._manager.run(last_agent.promises(self._session))

    def rows(self, agent: str, found: int = 0) -> RowsView:
        """See Promiser."""
        return self._manager.run(last_agent.rows(self._session, agent, found))

    def commit(self, xid: Xid) -> None:
        """See Promiser."""
        self._manager.run(xa.commit(self._session, xid))

    def rollback(self, xid: Xid) -> None:
        """See Promiser."""
        self._manager.run(xa.rollback(self._session, xid))


class ManagerResource:
    """Another queue manager for recovery; see ``Resource``."""

    def __init__(self, manager: Manager, name: str = "") -> None:
        self._manager = manager
        self._session = manager._state
        self.name = name or f"onceq:{guid_text(self._session.source)}"

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        found = self._manager.run(xa.recover(self._session))
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.run(xa.commit(self._session, xid))

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.run(xa.rollback(self._session, xid))

    def forget(self, xid: Xid) -> None:
        """See Resource."""
        self._manager.run(xa.forget(self._session, xid))

    def close(self) -> None:
        """See Resource. The manager belongs to somebody else."""
