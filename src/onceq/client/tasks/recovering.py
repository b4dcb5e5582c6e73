"""Recovery for ``async`` code: rounds run in a worker thread and ask the manager through the loop.

See ``client/threads/recovering.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from onceq.client.link import AsyncAsking
from onceq.client.plans import xa
from onceq.client.plans.plan import Plan
from onceq.client.recovering import ManagerDecider, ManagerPromiser, ManagerResource
from onceq.client.tasks.branches import AsyncBranch, branch
from onceq.client.tasks.connected import AsyncConnected
from onceq.client.tasks.running import Home
from onceq.errors import EnlistRefused, OnceqError
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import AnyPartner, AsyncPartner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.last_agent import LastAgent
from onceq.partners.recovery import WAIT_S_MIN, Recovery

T = TypeVar("T")
ANSWER_S_MAX = 60.0
"""How long a worker thread waits for the loop; the loop may have ended."""


class _InLoop:
    """A queue manager of tasks, for a worker thread."""

    def __init__(self, manager: Home) -> None:
        self._state = manager._state
        self._manager = manager
        self._loop = asyncio.get_running_loop()

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out in the loop, and wait for it."""
        work = self._manager.run(plan)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S_MAX)


class AsyncManagerPartner:
    """Another queue manager in a transaction; see ``ManagerPartner``."""

    def __init__(self, manager: Home) -> None:
        self._manager = manager
        self._session = manager._state
        self.name = f"onceq:{manager.id}"
        self.work: AsyncBranch | None = None

    async def check(self) -> None:
        """See Partner."""
        await self._manager.live()

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        self.work = await branch(self._manager, xid)

    def _at_work(self) -> AsyncBranch:
        assert self.work is not None, "it was begun"
        return self.work

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        return await self._at_work().prepare()

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        await self._manager.run(xa.commit(self._session, xid))

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        await self._at_work().commit()

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        await self._at_work().abort()

    async def forget(self, xid: Xid) -> None:
        """See Partner."""
        await self._manager.run(xa.forget(self._session, xid))

    def abandon(self) -> None:
        """See Partner: its connection is the manager's own."""

    def resource(self) -> Resource:
        """See Partner."""
        return ManagerResource(_InLoop(self._manager), self.name)


class AsyncRecovering(AsyncConnected):
    """Of ``AsyncQueueManager``: it may decide for partners, and looks after them."""

    def __init__(
        self, link: AsyncAsking, connect: Callable[[], Awaitable[AsyncAsking]] | None
    ) -> None:
        super().__init__(link, connect)
        self._recovery: Recovery | None = None
        self._recovery_task: asyncio.Task[None] | None = None
        self._recovery_soon = asyncio.Event()

    async def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        self._closed = True
        await self._stop_recovering()
        await super().close()

    def partner_for(self, connection: Any) -> AsyncPartner:
        """What takes part for a connection (for ``AsyncTransaction.enlist``)."""
        if isinstance(connection, AsyncRecovering):
            if connection.id == self.id:
                raise EnlistRefused("this transaction is that manager's own; send in it directly")
            return AsyncManagerPartner(connection)
        return cast(AsyncPartner, partner_for(connection, tasks=True))

    def recovery(self, resources: list[Resource] | None = None) -> Recovery:
        """Recovery to be driven by the caller, in a worker thread."""
        return Recovery(ManagerDecider(_InLoop(self)), resources or ())

    def look_after(self, partner: AnyPartner) -> None:
        """Let a task look after the resource of a partner from now on."""
        recovery = self._looking()
        if not recovery.knows(partner.name):
            resource = partner.resource()
            if resource is not None:
                recovery.add(resource, partner.name)
            self._recovery_soon.set()

    def look_after_rows(self, last: LastAgent) -> None:
        """Let the task look after branches that rows in that database decide."""
        recovery = self._looking()
        recovery.check_restored(last.name)
        if not recovery.knows_agent(last.name):
            agent = last.agent()
            if agent is not None:
                recovery.add_agent(agent, ManagerPromiser(_InLoop(self)), last.name)
            self._recovery_soon.set()

    def _looking(self) -> Recovery:
        """Recovery, which the task goes through from time to time."""
        if self._recovery is None:
            self._recovery = self.recovery()
            self._recovery_task = asyncio.create_task(self._recover(self._recovery))
        return self._recovery

    def recover_soon(self) -> None:
        """Let the task look now."""
        self._recovery_soon.set()

    async def _recover(self, recovery: Recovery) -> None:
        wait_s = 0.0
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._recovery_soon.wait(), wait_s)
            self._recovery_soon.clear()
            now_s = time.monotonic()
            try:
                report = await asyncio.to_thread(recovery.step, now_s)
                wait_s = recovery.next_s(now_s, report)
            except (OnceqError, TimeoutError):
                wait_s = WAIT_S_MIN  # The manager itself cannot be reached.

    async def _stop_recovering(self) -> None:
        """End the task (for ``close``)."""
        if self._recovery_task is not None:
            self._recovery_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._recovery_task
        if self._recovery is not None:
            await asyncio.to_thread(self._recovery.close)
