"""Cursors of the client library, for threads and for tasks (RCV-5 to RCV-7)."""

from __future__ import annotations

import contextlib
from typing import Any, Self, cast

from onceq.client import plans
from onceq.client.choosing import SEEK, Which, chosen
from onceq.client.link import Request
from onceq.client.plans import Plan
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.errors import HandleLost, InvalidHandle, OnceqError
from onceq.model.message import Message
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


class _Place:
    """What cursors for threads and for tasks have in common."""

    def __init__(self, session: Session, name: str, handle: int, number: int) -> None:
        self._session = session
        self.name = name
        self._handle = handle
        self._number = number

    def _asking(self, seek: str, timeout: float | None, *, peek: bool) -> Plan:
        if not self._number:
            raise InvalidHandle(f"this cursor of {self.name} was closed")
        return plans.one(
            chosen(
                self._session, self.name, Which(seek=SEEK[seek]), timeout=timeout,
                handle=self._handle, cursor=self._number, peek=peek,
            )
        )  # fmt: skip

    def _holding(self, unit: Unit, timeout: float | None) -> Plan:
        return plans.one(
            unit.receive(
                self.name, count=1, timeout=timeout, handle=self._handle, cursor=self._number
            )
        )

    def _closing(self) -> Plan:
        number, self._number = self._number, 0
        if number:
            with contextlib.suppress(OnceqError):
                yield Request(Code.UNCURSOR, frames.Number(number), waits=False)


class Cursor(_Place):
    """A place in a queue. Made by ``OpenQueue.cursor``; ends with the open queue.

    ``IllegalCursorAction``: it has looked at no message yet. ``MessageAlreadyReceived``: the
    message that it stands at is gone; ``peek_next`` goes on.
    """

    def __init__(self, queue: Any, session: Session, number: int, *, alone: bool) -> None:
        super().__init__(session, queue.name, queue.handle, number)
        self._queue = queue
        self._alone = alone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _look(self, seek: str, timeout: float | None) -> Message:
        return cast(Message, self._queue.run(self._asking(seek, timeout, peek=True)))

    def peek_current(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the message that it stands at; first of all at the first one."""
        return self._look("current", timeout)

    def peek_next(self, *, timeout: float | None = 0.0) -> Message:
        """Go on to the next message."""
        return self._look("next", timeout)

    def peek_previous(self) -> Message:
        """Go back to the message before; raises MessageNotFound."""
        return self._look("previous", 0.0)

    def peek_first(self) -> Message:
        """Go to the first message; raises MessageNotFound."""
        return self._look("first", 0.0)

    def peek_last(self) -> Message:
        """Go to the last message; raises MessageNotFound."""
        return self._look("last", 0.0)

    def receive_current(self, *, timeout: float | None = None, transaction: Any = None) -> Message:
        """Take the message that it stands at; the next call is about the one behind it.

        Args:
            transaction: A Transaction of the same queue manager; None: at once and for good.
        """
        if transaction is not None:
            return cast(Message, transaction._run(self._holding(transaction._unit, timeout)))
        return cast(Message, self._queue.run(self._asking("current", timeout, peek=False)))

    def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(InvalidHandle, HandleLost):
            self._queue.run(self._closing())
        if self._alone:
            self._queue.close()


class AsyncCursor(_Place):
    """See ``onceq.Cursor``; awaited."""

    def __init__(self, queue: Any, session: Session, number: int, *, alone: bool) -> None:
        super().__init__(session, queue.name, queue.handle, number)
        self._queue = queue
        self._alone = alone

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _look(self, seek: str, timeout: float | None) -> Message:
        return cast(Message, await self._queue.run(self._asking(seek, timeout, peek=True)))

    async def peek_current(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the message that it stands at."""
        return await self._look("current", timeout)

    async def peek_next(self, *, timeout: float | None = 0.0) -> Message:
        """Go on to the next message."""
        return await self._look("next", timeout)

    async def peek_previous(self) -> Message:
        """Go back to the message before."""
        return await self._look("previous", 0.0)

    async def peek_first(self) -> Message:
        """Go to the first message."""
        return await self._look("first", 0.0)

    async def peek_last(self) -> Message:
        """Go to the last message."""
        return await self._look("last", 0.0)

    async def receive_current(
        self, *, timeout: float | None = None, transaction: Any = None
    ) -> Message:
        """Take the message that it stands at."""
        if transaction is not None:
            plan = self._holding(transaction._unit, timeout)
            return cast(Message, await transaction._run(plan))
        return cast(Message, await self._queue.run(self._asking("current", timeout, peek=False)))

    async def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(InvalidHandle, HandleLost):
            await self._queue.run(self._closing())
        if self._alone:
            await self._queue.close()
