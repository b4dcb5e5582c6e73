"""Queue managers for ``async`` code: the same names and plans as for threads, awaited.

An object belongs to the event loop that made it; any number of its tasks may use it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, cast, overload

from onceq.client import plans
from onceq.client.batches import send_many
from onceq.client.bodies import Body
from onceq.client.consuming import AsyncConsuming
from onceq.client.current import current
from onceq.client.cursors import AsyncCursor
from onceq.client.link import AsyncAsking
from onceq.client.operating import AsyncOperating
from onceq.client.plans import Plan
from onceq.client.queues import create_plan, set_plan
from onceq.client.reading import AsyncReading
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.client.sync import RECONNECT_S, REPEATS_MAX
from onceq.client.task_branches import AsyncBranching
from onceq.client.task_recovering import AsyncRecovering
from onceq.client.task_unit import AsyncOpenQueue, AsyncTransaction
from onceq.client.tracking import AsyncTracked, AsyncTracking, copies, wishes
from onceq.errors import ServiceNotAvailable
from onceq.model.identity import MessageId, guid_text
from onceq.model.views import looks
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


class AsyncQueueManager(
    AsyncConsuming, AsyncReading, AsyncOperating, AsyncTracking, AsyncBranching, AsyncRecovering
):
    """See ``onceq.QueueManager``: every method of that name does the same, awaited."""

    def __init__(
        self, link: AsyncAsking, connect: Callable[[], Awaitable[AsyncAsking]] | None
    ) -> None:
        self._link = link
        self._connect = connect
        self._session = Session(link.greeting)
        self._connecting = asyncio.Lock()
        self._closed = False
        self._recovery = None
        self._recovery_task = None
        self._recovery_soon = asyncio.Event()

    async def __aenter__(self) -> AsyncQueueManager:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncQueueManager {self.name}>"

    @property
    def name(self) -> str:
        """Computer name of the queue manager."""
        return self._session.name

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._session.source)

    async def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        self._closed = True
        await self._stop_recovering()
        if self._connect is None:
            await asyncio.get_running_loop().run_in_executor(None, self._link.close)
        else:
            self._link.close()

    # ---- running plans --------------------------------------------------------------------

    async def live(self) -> AsyncAsking:
        """The link, connected again if it broke."""
        link = self._link
        if await link.look():
            return link
        async with self._connecting:
            if self._closed:
                raise ServiceNotAvailable("this queue manager was closed")
            if not self._link.alive:
                if self._connect is None:
                    raise ServiceNotAvailable("the embedded queue manager has stopped")
                self._link = await self._reconnect(self._connect)
            return self._link

    async def _reconnect(self, connect: Callable[[], Awaitable[AsyncAsking]]) -> AsyncAsking:
        waits = iter(RECONNECT_S)
        while True:
            try:
                link = await connect()
                break
            except ServiceNotAvailable:
                wait = next(waits, None)
                if wait is None or self._closed:
                    raise
                await asyncio.sleep(wait)
        try:
            self._session.heard(link.greeting)
        except ServiceNotAvailable:
            link.close()
            raise
        if self._closed:
            link.close()
        return link

    async def run(self, plan: Plan, link: AsyncAsking | None = None) -> Any:
        """Carry a plan out (for the classes of this package); see ``QueueManager.run``."""
        repeats = 0 if link is not None else REPEATS_MAX
        link = link or await self.live()
        try:
            request = next(plan)
            while True:
                try:
                    result = await link.call(request)
                except ServiceNotAvailable as error:
                    if repeats and request.repeatable(error):
                        repeats -= 1
                        link = await self.live()
                    else:
                        request = plan.throw(error)
                except BaseException as error:  # noqa: BLE001 - a plan sees every error
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            return stop.value

    # ---- queues ---------------------------------------------------------------------------

    async def create_queue(
        self,
        name: str,
        *,
        transactional: bool = False,
        label: str = "",
        quota_kb: int | None = None,
        exist_ok: bool = False,
        **more: Any,
    ) -> QueueView:
        """Make a queue."""
        plan = create_plan(
            name, transactional=transactional, label=label, quota_kb=quota_kb, exist_ok=exist_ok,
            **more,
        )  # fmt: skip
        made: QueueView = await self.run(plan)
        return made

    async def set_queue(self, name: str, **values: Any) -> QueueView:
        """Change properties of a queue: all that are named, or none."""
        made: QueueView = await self.run(set_plan(name, values))
        return made

    async def delete_queue(self, name: str) -> int:
        """Delete a queue; returns how many messages went with it."""
        self._session.destinations.clear()
        return cast(int, await self.run(plans.ask(Code.DELETE, frames.Named(name))))

    async def purge(self, name: str) -> int:
        """Remove the messages of a queue, or of an outgoing queue; returns how many."""
        return cast(int, await self.run(plans.ask(Code.PURGE, frames.Named(name))))

    async def queues(self) -> list[QueueView]:
        """All queues of this manager."""
        return await self._look(looks.QUEUES)

    async def open_queue(
        self, name: str, *, access: str = "receive", share: str = "none", note: str = ""
    ) -> AsyncOpenQueue:
        """Hold a queue open (MQOpenQueue)."""
        link = await self.live()
        opened = await self.run(plans.open_queue(name, access, share, note), link)
        return AsyncOpenQueue(self, self._session, link, name, opened)

    async def cursor(self, queue: str, *, access: str = "receive") -> AsyncCursor:
        """A cursor of its own: the queue is open as long as the cursor."""
        opened = await self.open_queue(queue, access=access)
        try:
            return await opened.cursor(alone=True)
        except BaseException:
            await opened.close()
            raise

    # ---- messages -------------------------------------------------------------------------

    @overload
    async def send(
        self, destination: str, body: Body, *, transactional: bool = False, track: Literal[True],
        **properties: Any,
    ) -> AsyncTracked: ...  # fmt: skip

    @overload
    async def send(
        self, destination: str, body: Body, *, transactional: bool = False,
        track: Literal[False] = False, **properties: Any,
    ) -> MessageId: ...  # fmt: skip

    async def send(
        self, destination: str, body: Body, *, transactional: bool = False, track: bool = False,
        **properties: Any,
    ) -> MessageId | AsyncTracked:  # fmt: skip
        """Send one message now."""
        if track:
            properties = wishes(properties, await self.tracking_queue())
            names = await self.run(copies(destination))
            ids = await self.send_many(
                destination, [body], transactional=transactional, **properties
            )
            return AsyncTracked(self._session, ids[0], names, self)
        sent = await self.send_many(destination, [body], transactional=transactional, **properties)
        return sent[0]

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[Body],
        *,
        transactional: bool = False,
        **properties: Any,
    ) -> MessageIds:
        """Send a batch now: all or none if ``transactional``."""
        plan = send_many(
            self._session, destination, bodies, transactional=transactional, values=properties
        )
        return cast(MessageIds, await self.run(plan))

    async def send_current(
        self, destination: str, body: Body, **properties: Any
    ) -> MessageId | None:
        """Send with the transaction whose ``with`` block this is (MQ_MTS_TRANSACTION).

        Where there is none the message is sent now, and not transactionally: a transactional
        queue refuses it (class 0x800A).

        Returns:
            Its identifier; None if it goes with the transaction's commit.
        """
        tx = current(self)
        if tx is None:
            return cast(MessageId, await self.send(destination, body, **properties))
        await tx.send(destination, body, **properties)
        return None

    async def receive_many(
        self, queue: str, max: int = 1000, *, timeout: float | None = None
    ) -> Batch:
        """Take at least one message and at most ``max``."""
        return cast(
            Batch,
            await self.run(plans.receive_many(self._session, queue, count=max, timeout=timeout)),
        )

    async def peek_many(
        self, queue: str, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
    ) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        plan = plans.receive_many(
            self._session, queue, count=max, timeout=timeout, peek=True, after=after
        )
        return cast(Batch, await self.run(plan))

    def transaction(self) -> AsyncTransaction:
        """A unit of work: ``async with qm.transaction() as tx``."""
        return AsyncTransaction(self, self._session)

    async def outcome(self, transaction: str) -> str:
        """What became of a commit: "committed", "aborted" or "unknown"."""
        return cast(str, await self.run(plans.outcome(self._session, transaction)))
