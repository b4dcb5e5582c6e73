"""Transactions and open queues for threads; made by ``QueueManager``."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from onceq.client import plans
from onceq.client.link import Link
from onceq.client.plans import Body, Plan, Session, Unit
from onceq.client.results import Batch, MessageIds
from onceq.errors import TransactionOver
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
            self.abort()
            return
        try:
            self.commit()
        except BaseException:
            if not self._unit.over:
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
        link = self._link
        if link is None or (not link.alive and not self._unit.begun):
            link = self._link = self._manager.live()
        if not link.alive and not self._unit.over:
            self._unit.over = "aborted, because the connection was lost"
            raise TransactionOver(f"this transaction is over: it was {self._unit.over}")
        return self._manager.run(plan, link)

    def send(self, destination: str, body: Body, **properties: Any) -> None:
        """Send one message with the commit."""
        self._run(self._unit.send(destination, (body,), properties))

    def send_many(self, destination: str, bodies: Sequence[Body], **properties: Any) -> None:
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
        self._run(self._unit.abort())


class OpenQueue:
    """A queue held open. Made by ``QueueManager.open_queue``."""

    def __init__(
        self, manager: QueueManager, link: Link, name: str, opened: frames.OpenedHead
    ) -> None:
        self._manager = manager
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def receive(self, *, timeout: float | None = None) -> Message:
        """Take one message."""
        plan = plans.receive_many(self.name, count=1, timeout=timeout, handle=self.handle)
        return cast(Message, self._manager.run(plans.one(plan), self._link))

    def peek(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the first message."""
        plan = plans.receive_many(
            self.name, count=1, timeout=timeout, handle=self.handle, peek=True
        )
        return cast(Message, self._manager.run(plans.one(plan), self._link))

    def send(self, body: Body, **properties: Any) -> MessageId:
        """Send one message."""
        return self._manager.send(self.name, body, **properties)

    def close(self) -> None:
        """Give the handle back."""
        if self.handle:
            handle, self.handle = self.handle, 0
            self._manager.run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)
