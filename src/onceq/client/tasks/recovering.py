"""Recovery for ``async`` code: its rounds run in a thread and ask the manager through the loop.

See ``client/recovering.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Any, TypeVar, cast

from onceq.client.link import AsyncAsking
from onceq.client.plans import branches
from onceq.client.plans.plan import Plan
from onceq.client.recovering import ManagerDecider, ManagerResource, RecoveryThread
from onceq.client.tasks.connected import AsyncConnected
from onceq.client.tasks.running import Home
from onceq.client.tasks.transaction import AsyncBranch, branch
from onceq.errors import EnlistRefused, ServiceNotAvailable
from onceq.model.branches import Vote, Xid
from onceq.partners.contract import AsyncPartner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.recovery import Recovery

T = TypeVar("T")
ANSWER_S_MAX = 60.0
"""How long a thread waits for the loop, which may end without a word."""


class _InLoop:
    """A queue manager of tasks, for a worker thread."""

    def __init__(self, manager: Home) -> None:
        self._state = manager._state
        self._manager = manager
        self._loop = asyncio.get_running_loop()

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out in the loop, and wait for it.

        Raises:
            ServiceNotAvailable: The loop ended before that was done, or does not get to it.
        """
        work = self._manager._run(plan)
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise ServiceNotAvailable(f"the loop of the application: {error}") from error
        try:
            return future.result(ANSWER_S_MAX)
        except (CancelledError, TimeoutError) as error:
            raise ServiceNotAvailable("the loop of the application ended, or is busy") from error


class AsyncManagerPartner:
    """Another queue manager in a transaction; see ``ManagerPartner``."""

    def __init__(self, manager: Home) -> None:
        self._manager = manager
        self._session = manager._state
        self.name = f"onceq:{manager.id}"
        self.work: AsyncBranch | None = None

    async def check(self) -> None:
        """Find out, before any work is done, whether this can be a partner at all."""
        await self._manager._live()

    async def begin(self, xid: Xid) -> None:
        """Make what the connection does from here on belong to the branch."""
        self.work = await branch(self._manager, xid)

    def _at_work(self) -> AsyncBranch:
        assert self.work is not None, "it was begun"
        return self.work

    async def prepare(self, xid: Xid) -> Vote:
        """Make all work of the branch durable without ending it, and promise both outcomes."""
        return await self._at_work().prepare()

    async def commit(self, xid: Xid) -> None:
        """Commit what is prepared."""
        await self._manager._run(branches.commit_branch(self._session, xid))

    async def commit_one_phase(self, xid: Xid) -> None:
        """Commit what is not prepared: there is no other partner."""
        await self._at_work().commit()

    async def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch, prepared or not."""
        await self._at_work().abort()

    async def forget(self, xid: Xid) -> None:
        """Forget a heuristic outcome of the branch."""
        await self._manager._run(branches.forget_branch(self._session, xid))

    def abandon(self) -> None:
        """Do nothing: its connection is the manager's own."""

    def resource(self) -> Resource:
        """Return the other side of the same database, or None."""
        return ManagerResource(_InLoop(self._manager), self.name)


class AsyncRecovering(AsyncConnected):
    """Of ``AsyncQueueManager``: it may decide for partners, and looks after them."""

    def __init__(
        self, link: AsyncAsking, connect: Callable[[], Awaitable[AsyncAsking]] | None
    ) -> None:
        super().__init__(link, connect)
        self._recovering = RecoveryThread(f"onceq recovery {self.name}", self.recovery)

    async def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort.

        Raises:
            WrongLoop: It belongs to another event loop, which is not closed.
        """
        self._link.check_loop(leaving=True)
        self._recovering.stop()
        await super().close()

    def forked(self) -> None:
        """Give up what is the parent's: this is a child now."""
        super().forked()
        self._recovering.forked()

    def _partner_for(self, connection: Any) -> AsyncPartner:
        """What takes part for a connection (for ``AsyncTransaction.enlist``)."""
        if isinstance(connection, AsyncRecovering):
            if connection.id == self.id:
                raise EnlistRefused("this transaction is that manager's own; send in it directly")
            return AsyncManagerPartner(connection)
        return cast(AsyncPartner, partner_for(connection, tasks=True))

    def recovery(self, resources: list[Resource] | None = None) -> Recovery:
        """Recovery to be driven by the caller, in a worker thread."""
        return Recovery(ManagerDecider(_InLoop(self)), resources or ())
