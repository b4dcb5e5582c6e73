"""Transactions and open queues for threads; made by ``QueueManager``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from onceq.client import plans
from onceq.client.bodies import Body
from onceq.client.link import Link
from onceq.client.plans import Plan
from onceq.client.results import Batch, MessageIds
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.errors import InvalidHandle, OnceqError, ServiceNotAvailable
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

if TYPE_CHECKING:
    from onceq.client.sync import QueueManager


class Transaction:
    """A unit of work. Made by ``QueueManager.transaction``.

    Attributes:
        id: Under which the outcome of its commit can be asked for; "" before the commit.
        sent: Identifiers of the messages sent, after the commit.
    """

    def __init__(self, manager: QueueManager, session: Session) -> None:
        self._manager = manager
        self._unit = Unit(session)
        self._link: Link | None = None

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._unit.over:
            return
        if kind is not None:
            with contextlib.suppress(OnceqError):  # The exception of the block is the news.
                self.abort()
            return
        try:
            self.commit()
        except BaseException:
            if not self._unit.over:
                with contextlib.suppress(OnceqError):
                    self.abort()
            raise

    @property
    def id(self) -> str:
        """See the class."""
        return str(self._unit.id) if self._unit.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """See the class."""
        return self._unit.sent

    def _run(self, plan: Plan) -> Any:
        """Carry a plan out, always on the connection that the transaction was begun on."""
        self._unit.check_open()
        if self._link is None or not self._unit.begun:
            self._link = self._manager.live()
        elif not self._link.look():
            raise self._unit.lost()
        return self._manager.run(plan, self._link)

    def send(self, destination: str, body: Body, **properties: Any) -> None:
        """Send one message with the commit."""
        self._run(self._unit.send(destination, (body,), properties))

    def send_many(self, destination: str, bodies: Iterable[Body], **properties: Any) -> None:
        """Send several messages with the commit, in this order."""
        self._run(self._unit.send(destination, bodies, properties))

    def receive(self, queue: str, *, timeout: float | None = None) -> Message:
        """Take one message; it goes back to its place if the transaction aborts."""
        return cast(Message, self._run(
            plans.one(self._unit.receive(queue, count=1, timeout=timeout))))  # fmt: skip

    def receive_many(self, queue: str, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``."""
        return cast(Batch, self._run(self._unit.receive(queue, count=max, timeout=timeout)))

    def remove(self, queue: str, first: int, last: int) -> int:
        """Take the messages between two lookup identifiers without their bytes; how many."""
        return cast(int, self._run(self._unit.remove(queue, first, last)))

    def peek(self, queue: str, **options: Any) -> None:
        """Raises TransactionUsage: peek has no meaning in a transaction."""
        self._unit.peek()

    def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``.
            TransactionOver: It was committed or aborted before.
        """
        return cast(MessageIds, self._run(self._unit.commit(retaining=retaining)))

    def abort(self) -> None:
        """Undo all of it: nothing is sent, what was received goes back."""
        if self._unit.begun and self._link is not None and self._link.alive:
            self._manager.run(self._unit.abort(), self._link)
        else:
            self._unit.drop()


class OpenQueue:
    """A queue held open. Made by ``QueueManager.open_queue``."""

    def __init__(
        self,
        manager: QueueManager,
        session: Session,
        link: Link,
        name: str,
        opened: frames.OpenedHead,
    ) -> None:
        self._manager = manager
        self._session = session
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, plan: Plan) -> Any:
        if self.handle and not self._link.look():
            self.handle = 0
        if not self.handle:
            raise InvalidHandle(
                f"queue {self.name} is not open: it was closed, or its connection was lost"
            )
        return self._manager.run(plan, self._link)

    def _asking(self, count: int, timeout: float | None, *, peek: bool, after: int = 0) -> Plan:
        return plans.receive_many(
            self._session, self.name, count=count, timeout=timeout, handle=self.handle, peek=peek,
            after=after,
        )  # fmt: skip

    def receive(self, *, timeout: float | None = None) -> Message:
        """Take one message, at once and for good."""
        plan = plans.one(self._asking(1, timeout, peek=False))
        return cast(Message, self._run(plan))

    def receive_many(self, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``, at once and for good."""
        return cast(Batch, self._run(self._asking(max, timeout, peek=False)))

    def peek(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the first message."""
        plan = plans.one(self._asking(1, timeout, peek=True))
        return cast(Message, self._run(plan))

    def peek_many(self, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        return cast(Batch, self._run(self._asking(max, timeout, peek=True, after=after)))

    def send(self, body: Body, *, transactional: bool = False, **properties: Any) -> MessageId:
        """Send one message now."""
        return self._manager.send(self.name, body, transactional=transactional, **properties)

    def close(self) -> None:
        """Give the handle back; receives that wait through it end with OperationCancelled."""
        handle, self.handle = self.handle, 0
        if handle and self._link.alive:
            with contextlib.suppress(ServiceNotAvailable):
                self._manager.run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)
