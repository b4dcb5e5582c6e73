"""Recovery for ``async`` code: rounds run in a worker thread and ask the manager through the loop.

See ``client/recovering.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from onceq.client import branch_unit
from onceq.client.session import Session
from onceq.errors import EnlistRefused, OnceqError
from onceq.model.branch import Decision, Vote
from onceq.model.xid import Xid
from onceq.partners.contract import AnyPartner, AsyncPartner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.recovery import WAIT_S_MIN, Recovery

if TYPE_CHECKING:
    from onceq.client.task_branches import AsyncBranch
    from onceq.client.tasks import AsyncQueueManager

T = TypeVar("T")
ANSWER_S_MAX = 60.0
"""How long a worker thread waits for the loop; the loop may have ended."""


class _Asking:
    """The manager, asked from a worker thread."""

    def __init__(self, manager: AsyncQueueManager) -> None:
        self._manager = manager
        self._loop = asyncio.get_running_loop()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S_MAX)


class _Decider(_Asking):
    """See ``partners.recovery.Decider``."""

    def __init__(self, manager: AsyncQueueManager, guid: bytes) -> None:
        super().__init__(manager)
        self.guid = guid

    def decision(self, gtrid: bytes) -> Decision:
        """See Decider."""
        return self._do(self._manager.decision(gtrid))

    def open_decisions(self) -> Mapping[bytes, tuple[str, ...]]:
        """See Decider."""
        views = self._do(self._manager.decisions())
        return {view.gtrid.encode(): view.partners for view in views}

    def done(self, gtrid: bytes) -> None:
        """See Decider."""
        self._do(self._manager.run(branch_unit.done(gtrid)))


class _Resource(_Asking):
    """Another queue manager for recovery; see ``Resource``."""

    def __init__(self, manager: AsyncQueueManager, name: str) -> None:
        super().__init__(manager)
        self.name = name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        found = self._do(self._manager.xa.recover())
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._do(self._manager.xa.commit(xid))

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._do(self._manager.xa.rollback(xid))

    def forget(self, xid: Xid) -> None:
        """See Resource."""
        self._do(self._manager.xa.forget(xid))

    def close(self) -> None:
        """See Resource. The manager belongs to somebody else."""


class AsyncManagerPartner:
    """Another queue manager in a transaction; see ``ManagerPartner``."""

    def __init__(self, manager: AsyncQueueManager) -> None:
        self._manager = manager
        self.name = f"onceq:{manager.id}"
        self.work: AsyncBranch | None = None

    async def check(self) -> None:
        """See Partner."""
        await self._manager.live()

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        self.work = await self._manager.branch(xid)

    def _at_work(self) -> AsyncBranch:
        assert self.work is not None, "it was begun"
        return self.work

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        return await self._at_work().prepare()

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        await self._manager.xa.commit(xid)

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        await self._at_work().commit()

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        await self._at_work().abort()

    async def forget(self, xid: Xid) -> None:
        """See Partner."""
        await self._manager.xa.forget(xid)

    def abandon(self) -> None:
        """See Partner: its connection is the manager's own."""

    def resource(self) -> Resource:
        """See Partner."""
        return _Resource(self._manager, self.name)


class AsyncRecovering:
    """Of ``AsyncQueueManager``."""

    _session: Session
    _recovery: Recovery | None
    _recovery_task: asyncio.Task[None] | None
    _recovery_soon: asyncio.Event
    _closed: bool

    def partner_for(self, connection: Any) -> AsyncPartner:
        """What takes part for a connection (for ``AsyncTransaction.enlist``)."""
        if isinstance(connection, AsyncRecovering):
            other = cast("AsyncQueueManager", connection)
            if other.id == cast("AsyncQueueManager", self).id:
                raise EnlistRefused("this transaction is that manager's own; send in it directly")
            return AsyncManagerPartner(other)
        return cast(AsyncPartner, partner_for(connection, tasks=True))

    def recovery(self, resources: list[Resource] | None = None) -> Recovery:
        """Recovery to be driven by the caller, in a worker thread."""
        decider = _Decider(cast("AsyncQueueManager", self), self._session.source)
        return Recovery(decider, resources or ())

    def look_after(self, partner: AnyPartner) -> None:
        """Let a task look after the resource of a partner from now on."""
        if self._recovery is None:
            self._recovery = self.recovery()
            self._recovery_task = asyncio.create_task(self._recover(self._recovery))
        if not self._recovery.knows(partner.name):
            resource = partner.resource()
            if resource is not None:
                self._recovery.add(resource, partner.name)
            self._recovery_soon.set()

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
