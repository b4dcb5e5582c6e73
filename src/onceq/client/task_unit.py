"""Transactions and open queues for ``async`` code; made by ``AsyncQueueManager``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from onceq.client import plans
from onceq.client.bodies import Body
from onceq.client.branch_unit import Deciding
from onceq.client.choosing import chosen, which
from onceq.client.current import Chain, entered, left
from onceq.client.cursors import AsyncCursor
from onceq.client.enlisting import Partners, carry_out_async, settled
from onceq.client.link import AsyncAsking
from onceq.client.plans import Plan
from onceq.client.reading import AsyncTaking
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.client.tracking import AsyncTracked, copies, wishes
from onceq.client.unit import Unit
from onceq.errors import HandleLost, InvalidHandle, OnceqError, RolledBack, ServiceNotAvailable
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.results import Opened
from onceq.packet.batch import Batch
from onceq.partners.deciding import What, committing
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

if TYPE_CHECKING:
    from onceq.client.tasks import AsyncQueueManager


class AsyncTransaction(AsyncTaking):
    """A unit of work; see ``onceq.Transaction``."""

    def __init__(self, manager: AsyncQueueManager, session: Session) -> None:
        self._manager = manager
        self._unit = Unit(session)
        self._link: AsyncAsking | None = None
        self._around: Chain = None
        self._deciding = Deciding(self._unit)
        self._partners = Partners()
        self.pending: list[str] = []

    async def __aenter__(self) -> AsyncTransaction:
        self._around = entered(self, self._manager, self._unit)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if self._unit.over:
            if not self._unit.decided:
                await self._partners.rollback_async()
            return
        if kind is not None:
            with contextlib.suppress(OnceqError):  # The exception of the block is the news.
                await self.abort()
            return
        try:
            await self.commit()
        except BaseException:
            if not self._unit.over:
                with contextlib.suppress(OnceqError):
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
        """Carry a plan out, always on the connection that the transaction was begun on."""
        self._unit.check_open()
        if self._link is None or not self._unit.begun:
            self._link = await self._manager.live()
        elif not await self._link.look():
            raise self._unit.lost()
        return await self._manager.run(plan, self._link)

    @overload
    async def send(
        self, destination: str, body: Body, *, track: Literal[True], **properties: Any
    ) -> AsyncTracked: ...

    @overload
    async def send(
        self, destination: str, body: Body, *, track: Literal[False] = False, **properties: Any
    ) -> None: ...

    async def send(
        self, destination: str, body: Body, *, track: bool = False, **properties: Any
    ) -> AsyncTracked | None:
        """Send one message with the commit."""
        if not track:
            await self._send(destination, (body,), properties)
            return None
        manager, unit = self._manager, self._unit
        unit.check_open()
        properties = wishes(properties, await manager.tracking_queue())
        names = await manager.run(copies(destination))
        index = unit.total
        await self._send(destination, (body,), properties)
        made = AsyncTracked.within(unit.session, unit, index, names)
        made.manager = manager
        return cast(AsyncTracked, made)

    async def send_many(self, destination: str, bodies: Iterable[Body], **properties: Any) -> None:
        """Send several messages with the commit, in this order."""
        await self._send(destination, bodies, properties)

    async def _send(self, destination: str, bodies: Iterable[Body], values: dict[str, Any]) -> None:
        """Gather them; ask the manager only if something must be asked, and on its connection."""
        unit = self._unit
        if unit.begun and self._link is not None and not await self._link.look():
            unit.check_open()
            raise unit.lost()
        more = unit.offer(destination, bodies, values)
        if more is not None:
            await self._run(more)

    async def _hold(self, queue: str, max: int, *, timeout: float | None) -> Batch:
        """Take from a queue of whatever kind, for loops that work one off (for the classes of
        this package and the command line)."""
        return cast(Batch, await self._run(self._unit.hold(queue, count=max, timeout=timeout)))

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

    async def enlist(self, connection: Any) -> Any:
        """Let a database, or another queue manager, commit with this transaction or not at all;
        see ``Transaction.enlist``."""
        partner = self._manager.partner_for(connection)
        self._unit.check_open()
        await settled(partner.check())
        xid = await self._run(self._deciding.enlist(partner.name))
        await settled(partner.begin(xid))
        self._partners.add(partner, xid)
        self._manager.look_after(partner)
        return getattr(partner, "work", connection)

    async def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen, here and at every partner; raises InDoubt, RolledBack,
        TransactionOver."""
        if not len(self._partners):
            return cast(MessageIds, await self._run(self._unit.commit(retaining=retaining)))
        self._unit.check_open()
        if self._unit.doomed is not None:
            await self._partners.rollback_async()
            return cast(MessageIds, await self._run(self._unit.commit()))
        steps = committing(len(self._partners), idle=self._unit.idle)
        try:
            made = await carry_out_async(steps, self._partners, self._home)
        except RolledBack:
            self._partners.open = False
            if not self._unit.over:
                await self.abort()
            raise
        except BaseException:
            if self._unit.decided or self._unit.idle:
                self._partners.open = False
                self._partners.abandon()
            raise
        self._partners.open = False
        if made.result is None:
            await self.abort()
            return MessageIds(self._unit.session.source)
        self.pending = self._partners.names(made.pending)
        if self.pending:
            self._partners.abandon(index for index, _ in made.pending)
            self._manager.recover_soon()
        return cast(MessageIds, made.result)

    async def _home(self, what: What) -> Any:
        if what is What.DECIDE:
            return await self._run(self._unit.commit())
        with contextlib.suppress(OnceqError):  # It is decided; recovery finds out.
            await self._manager.run(self._deciding.told(what.value))
        return None

    async def abort(self) -> None:
        """Undo all of it."""
        await self._partners.rollback_async()
        if self._unit.begun and self._link is not None and self._link.alive:
            await self._manager.run(self._unit.abort(), self._link)
        else:
            self._unit.drop()


class AsyncOpenQueue:
    """A queue held open; see ``onceq.OpenQueue``."""

    def __init__(
        self,
        manager: AsyncQueueManager,
        session: Session,
        link: AsyncAsking,
        name: str,
        opened: Opened,
    ) -> None:
        self._manager = manager
        self._session = session
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional
        self.places = tuple(opened.places)
        """Opened to send: which queues the name leads to; order is kept between names that have
        one in common. Numbers of the queue manager's."""
        self.turn = opened.turn
        """How many have opened it so that others cannot receive, this one included."""

    async def __aenter__(self) -> AsyncOpenQueue:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether its connection still lives, as far as that can be known without asking."""
        return bool(self.handle) and self._link.alive

    async def run(self, plan: Plan) -> Any:
        """Carry a plan out on the connection of the handle (for the classes of this package)."""
        if self.handle and not await self._link.look():
            raise HandleLost(
                f"queue {self.name} was open on a connection that is lost; open it again"
            )
        if not self.handle:
            raise InvalidHandle(f"queue {self.name} is not open: it was closed")
        return await self._manager.run(plan, self._link)

    def _asking(self, count: int, timeout: float | None, *, peek: bool, after: int = 0) -> Plan:
        return plans.receive_many(
            self._session, self.name, count=count, timeout=timeout, handle=self.handle, peek=peek,
            after=after,
        )  # fmt: skip

    async def receive(self, *, timeout: float | None = None, **choice: Any) -> Message:
        """Take one message, at once and for good; chosen as in ``QueueManager.receive``."""
        plan = chosen(
            self._session, self.name, which(**choice), timeout=timeout, handle=self.handle
        )
        return cast(Message, await self.run(plans.one(plan)))

    async def receive_many(self, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``, at once and for good."""
        return cast(Batch, await self.run(self._asking(max, timeout, peek=False)))

    async def peek(self, *, timeout: float | None = 0.0, **choice: Any) -> Message:
        """Look at one message."""
        plan = chosen(
            self._session, self.name, which(**choice), timeout=timeout, handle=self.handle,
            peek=True,
        )  # fmt: skip
        return cast(Message, await self.run(plans.one(plan)))

    async def peek_many(
        self, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
    ) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        return cast(Batch, await self.run(self._asking(max, timeout, peek=True, after=after)))

    async def send(
        self, body: Body, *, transactional: bool = False, **properties: Any
    ) -> MessageId:
        """Send one message now."""
        manager = self._manager
        made = await manager.send(self.name, body, transactional=transactional, **properties)
        return cast(MessageId, made)

    async def cursor(self, *, alone: bool = False) -> AsyncCursor:
        """A place in the queue that moves from message to message; see ``onceq.Cursor``.

        Args:
            alone: Close the queue with the cursor.
        """
        number = await self.run(plans.ask(Code.CURSOR, frames.Number(self.handle)))
        return AsyncCursor(self, self._session, cast(int, number), alone=alone)

    async def close(self) -> None:
        """Give the handle back; receives that wait through it end with OperationCancelled."""
        handle, self.handle = self.handle, 0
        if handle and self._link.alive:
            with contextlib.suppress(ServiceNotAvailable):
                await self._manager.run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)
