"""Transactions and open queues for ``async`` code; made by ``AsyncQueueManager``."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from onceq.client import plans
from onceq.client.link import AsyncAsking
from onceq.client.plans import Body, Plan, Session, Unit
from onceq.client.results import Batch, MessageIds
from onceq.errors import TransactionOver
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

if TYPE_CHECKING:
    from onceq.client.tasks import AsyncQueueManager


class AsyncTransaction:
    """A unit of work; see ``onceq.Transaction``."""

    def __init__(self, manager: AsyncQueueManager, session: Session) -> None:
        self._manager = manager
        self._unit = Unit(session)
        self._link: AsyncAsking | None = None

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._unit.over:
            return
        if kind is not None:
            await self.abort()
            return
        try:
            await self.commit()
        except BaseException:
            if not self._unit.over:
                await self.abort()
            raise

    @property
    def id(self) -> str:
        """Under which the outcome of its commit can be asked for; "" before the commit."""
        return str(self._unit.id) if self._unit.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """Identifiers of the messages sent, after the commit."""
        return self._unit.sent

    async def _run(self, plan: Plan) -> Any:
        link = self._link
        if link is None or (not link.alive and not self._unit.begun):
            link = self._link = await self._manager.live()
        if not link.alive and not self._unit.over:
            self._unit.over = "aborted, because the connection was lost"
            raise TransactionOver(f"this transaction is over: it was {self._unit.over}")
        return await self._manager.run(plan, link)

    async def send(self, destination: str, body: Body, **properties: Any) -> None:
        """Send one message with the commit."""
        await self._run(self._unit.send(destination, (body,), properties))

    async def send_many(self, destination: str, bodies: Sequence[Body], **properties: Any) -> None:
        """Send several messages with the commit, in this order."""
        await self._run(self._unit.send(destination, bodies, properties))

    async def receive(self, queue: str, *, timeout: float | None = None) -> Message:
        """Take one message; it goes back to its place if the transaction aborts."""
        plan = plans.one(self._unit.receive(queue, count=1, timeout=timeout))
        return cast(Message, await self._run(plan))

    async def receive_many(
        self, queue: str, max: int = 1000, *, timeout: float | None = None
    ) -> Batch:
        """Take at least one message and at most ``max``."""
        return cast(Batch, await self._run(self._unit.receive(queue, count=max, timeout=timeout)))

    async def remove(self, queue: str, first: int, last: int) -> int:
        """Take the messages between two lookup identifiers without their bytes; how many."""
        return cast(int, await self._run(self._unit.remove(queue, first, last)))

    async def peek(self, queue: str, **options: Any) -> None:
        """Raises TransactionUsage: peek has no meaning in a transaction."""
        self._unit.peek()

    async def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen; raises InDoubt, TransactionOver."""
        return cast(MessageIds, await self._run(self._unit.commit(retaining=retaining)))

    async def abort(self) -> None:
        """Undo all of it."""
        await self._run(self._unit.abort())


class AsyncOpenQueue:
    """A queue held open; see ``onceq.OpenQueue``."""

    def __init__(
        self, manager: AsyncQueueManager, link: AsyncAsking, name: str, opened: frames.OpenedHead
    ) -> None:
        self._manager = manager
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional

    async def __aenter__(self) -> AsyncOpenQueue:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def receive(self, *, timeout: float | None = None) -> Message:
        """Take one message."""
        plan = plans.receive_many(self.name, count=1, timeout=timeout, handle=self.handle)
        return cast(Message, await self._manager.run(plans.one(plan), self._link))

    async def peek(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the first message."""
        plan = plans.receive_many(
            self.name, count=1, timeout=timeout, handle=self.handle, peek=True
        )
        return cast(Message, await self._manager.run(plans.one(plan), self._link))

    async def send(self, body: Body, **properties: Any) -> MessageId:
        """Send one message."""
        return await self._manager.send(self.name, body, **properties)

    async def close(self) -> None:
        """Give the handle back."""
        if self.handle:
            handle, self.handle = self.handle, 0
            await self._manager.run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)
