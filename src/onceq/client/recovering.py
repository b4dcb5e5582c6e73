"""Recovery from an application: the manager as decider, managers as resources, and a thread.

When a transaction first enlists a database or another manager, a thread begins to look after it.
It brings every branch that an earlier life of any application has left prepared there to its
outcome, at once and then from time to time (XTX-5). It is a thread for tasks too, because drivers
block; there the plans go through the loop.

The caller who closes the manager does not wait for a round that waits for a database, and must not
close connections that the round uses: SQLite ends the process if a connection is closed under a
running statement. So the thread closes all of them after its last round.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from onceq.client.link import Session
from onceq.client.plans import branches, operate
from onceq.client.plans.plan import Plan
from onceq.errors import OnceqError
from onceq.model.branches import DecisionState, Xid, partner_name
from onceq.model.views.looks import BranchView, RowsView
from onceq.partners.contract import AnyPartner, LastAgent
from onceq.partners.recovery import WAIT_S_MIN, Recovery

T = TypeVar("T")


class RecoveringManager(Protocol):
    """A queue manager whose plans a thread can carry out."""

    @property
    def _state(self) -> Session:
        """Of the application with it."""

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out."""


class ManagerDecider:
    """A queue manager that decides; see ``partners.recovery.Decider``."""

    def __init__(self, manager: RecoveringManager) -> None:
        self._manager = manager
        self._session = manager._state
        self.guid = self._session.source

    def decision(self, gtrid: bytes) -> DecisionState:
        """Return what was decided."""
        return self._manager._run(branches.decision(self._session, gtrid))

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """Return the commits that partners may not have carried out, with their names."""
        views = self._manager._run(operate.decisions(self._session))
        return {view.gtrid.encode(): tuple(view.partners) for view in views}

    def done(self, gtrid: bytes) -> None:
        """Note that all partners have carried a decision out."""
        self._manager._run(branches.done(self._session, gtrid))

    def promises(self) -> list[BranchView]:
        """Return the prepared branches that rows decide."""
        return self._manager._run(branches.promises(self._session))

    def rows(self, agent: str, found: int = 0) -> RowsView:
        """Return which rows of a database the manager has seen."""
        return self._manager._run(branches.rows(self._session, agent, found))

    def commit(self, xid: Xid) -> None:
        """Commit one of these branches."""
        self._manager._run(branches.commit_branch(self._session, xid))

    def rollback(self, xid: Xid) -> None:
        """Roll one of these branches back."""
        self._manager._run(branches.rollback_branch(self._session, xid))


class ManagerResource:
    """Another queue manager for recovery; see ``Resource``."""

    def __init__(self, manager: RecoveringManager, name: str = "") -> None:
        self._manager = manager
        self._session = manager._state
        self.name = name or partner_name(self._session.source)

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """Return the branches that are prepared here and can be ended from here."""
        found = self._manager._run(branches.recover(self._session))
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """Commit what is prepared."""
        self._manager._run(branches.commit_branch(self._session, xid))

    def rollback(self, xid: Xid) -> None:
        """Undo the work of a prepared branch."""
        self._manager._run(branches.rollback_branch(self._session, xid))

    def forget(self, xid: Xid) -> None:
        """Forget a heuristic outcome of the branch."""
        self._manager._run(branches.forget_branch(self._session, xid))

    def close(self) -> None:
        """Do nothing: the manager belongs to somebody else."""


class RecoveryThread:
    """Rounds of recovery for one manager, in a thread that runs from the first partner on."""

    def __init__(self, name: str, recovery: Callable[[], Recovery]) -> None:
        """Nothing runs yet.

        Args:
            name: Of the thread.
            recovery: Makes it, when it is first needed.
        """
        self._name = name
        self._make = recovery
        self._recovery: Recovery | None = None
        self._lock = threading.Lock()
        self._soon: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Of what may be used in a signal handler, unlike an event."""
        self._over = False
        self._parents: Recovery | None = None
        """Of the process that this one was forked from. It is kept: a connection that nobody knows
        any more would be closed, and with it the parent's."""

    def forked(self) -> None:
        """This is a child now: its thread is the parent's, and so are the databases' connections;
        what is enlisted here begins another one."""
        self._lock, self._soon = threading.Lock(), queue.SimpleQueue()
        self._parents, self._recovery = self._recovery or self._parents, None

    def look_after(self, partner: AnyPartner) -> None:
        """Look after the resource of a partner from now on, at the address that it shows."""
        address = getattr(partner, "address", "")
        with self._lock:
            if self._recovery is not None and self._recovery.knows(partner.name, address):
                return
            resource = partner.resource()
            recovery = self._recovery or self._make()
            if resource is not None:
                recovery.add(resource, partner.name, address)
            self._look_with(recovery)

    def look_after_rows(self, last: LastAgent) -> bool:
        """Look after branches that rows in that database decide, at the address that it shows.

        Returns:
            Whether recovery has found that the database was set back.
        """
        with self._lock:
            known = self._recovery
            if known is not None and known.knows_agent(last.name, last.address):
                return last.name in known.restored
            agent = last.agent()
            recovery = known or self._make()
            if agent is not None:
                recovery.add_agent(agent, last.name, last.address)
            self._look_with(recovery)
            return last.name in recovery.restored

    def _look_with(self, recovery: Recovery) -> None:
        first = self._recovery is None
        self._recovery = recovery
        if first:
            threading.Thread(
                target=self._run, args=(recovery,), name=self._name, daemon=True
            ).start()
        self._soon.put(None)

    def soon(self) -> None:
        """Look now."""
        self._soon.put(None)

    def stop(self) -> None:
        """No further round begins; one that is under way is not waited for."""
        self._over = True
        self._soon.put(None)

    def _run(self, recovery: Recovery) -> None:
        wait_s = 0.0
        while not self._over:
            with contextlib.suppress(queue.Empty):
                self._soon.get(timeout=wait_s)
                while True:
                    self._soon.get_nowait()
            if self._over:
                break
            now_s = time.monotonic()
            try:
                report = recovery.step(now_s)
                wait_s = recovery.next_s(now_s, report)
            except OnceqError:
                wait_s = WAIT_S_MIN  # The manager itself cannot be reached.
        recovery.close()
