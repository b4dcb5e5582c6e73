"""More ways to read a queue: by place and by identifier, through cursors, and moving aside.

The parts of queue managers, transactions and open queues that concern single messages. Threads
and tasks have the same names; what they give is described at the first ones.
"""

from __future__ import annotations

from typing import Any, cast

from onceq.client import plans
from onceq.client.choosing import chosen, move, peek_tops, remove, which
from onceq.client.plans import Plan
from onceq.client.queues import set_plan
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.client.whole import SenderTransaction
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch


def policy(attempts: int, retry_after: int, retries: int, then: str) -> dict[str, Any]:
    """Queue properties of a poison policy."""
    return {
        "poison_attempts": attempts,
        "poison_retry_after": retry_after,
        "poison_retries": retries,
        "poison_then": then,
    }


def _lookup(message: Message | int) -> int:
    return message if isinstance(message, int) else message.lookup_id


class Reading:
    """Of ``QueueManager``."""

    _session: Session

    def run(self, plan: Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    def receive(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
    ) -> Message:
        """Take one message, at once and for good: the first one, or the one that is wanted.

        Args:
            timeout: Seconds to wait for one; None: for ever. By its place a message is there or
                it is not: such a receive never waits (RCV-8).
            lookup_id: Place of the message, or with ``seek`` of one beside it.
            seek: "current"; "next" or "previous" of ``lookup_id``; "first" or "last".
            correlation_id: 20 bytes: the first message that has it.
            message_id: The same by its identifier (MessageId, or its text).

        Raises:
            ReceiveTimeout: There was none in time.
            MessageNotFound: There is none at that place, or a transaction holds it.
            MessageAlreadyReceived: A cursor stands there, and somebody else was faster.
        """
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
        )
        plan = chosen(self._session, queue, wanted, timeout=timeout)
        return cast(Message, self.run(plans.one(plan)))

    def peek(
        self,
        queue: str,
        *,
        timeout: float | None = 0.0,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
    ) -> Message:
        """Look at one message: the first one, or chosen as for ``receive``."""
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
        )
        plan = chosen(self._session, queue, wanted, timeout=timeout, peek=True)
        return cast(Message, self.run(plans.one(plan)))

    def peek_tops(self, queue: str, max: int = 1000, *, after: int = 0, size: int = 512) -> Batch:
        """Look at the beginnings of messages, without what makes them large: their bodies.

        Args:
            after: Lookup identifier behind which to look.
            size: Bytes of each packet; what is longer is cut off, and cannot be decoded. With 0
                only places and times are told.

        Raises:
            ReceiveTimeout: There is none.
        """
        plan = peek_tops(self._session, queue, count=max, after=after, size=size)
        return cast(Batch, self.run(plan))

    def remove(self, queue: str, first: int, last: int) -> int:
        """Take a range that was peeked before, at once and for good, without its bytes.

        Args:
            first, last: Lookup identifiers, both included.

        Returns:
            How many messages were there; those that a transaction holds stay.
        """
        return cast(int, self.run(remove(queue, first, last)))

    def move(self, queue: str, message: Message | int, to: str) -> int:
        """Move a message between a queue and its subqueues, at once.

        Args:
            queue: Where it is.
            message: The message, or its lookup identifier.
            to: The target: a name, ``;retry`` for a subqueue of the same queue, or "" for the
                queue itself.

        Returns:
            Its lookup identifier in the target.

        Raises:
            InvalidParameter: They are not parts of one queue.
            MessageNotFound, MessageLocked.
        """
        return cast(int, self.run(move(queue, _lookup(message), to)))

    def set_poison_policy(
        self,
        queue: str,
        *,
        attempts: int = 3,
        retry_after: int = 0,
        retries: int = 1,
        then: str = "move:poison",
    ) -> QueueView:
        """What becomes of a message whose receive is undone again and again; kept with the queue.

        Args:
            attempts: So many aborts are too many; 0 switches the policy off.
            retry_after: Seconds in the subqueue ``retry``, after which it is tried again; 0: it
                is not.
            retries: How often it is tried again.
            then: In the end: "move:SUBQUEUE", "dead-letter" (refused, and kept in the dead-letter
                queue of this computer) or "reject" (refused: its sender is told, if it asked).

        Returns:
            The queue as it is now.
        """
        plan = set_plan(queue, policy(attempts, retry_after, retries, then))
        made: QueueView = self.run(plan)
        return made


class AsyncReading:
    """Of ``AsyncQueueManager``."""

    _session: Session

    async def run(self, plan: Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    async def receive(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
    ) -> Message:
        """Take one message, at once and for good; chosen as for threads."""
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
        )
        plan = chosen(self._session, queue, wanted, timeout=timeout)
        return cast(Message, await self.run(plans.one(plan)))

    async def peek(
        self,
        queue: str,
        *,
        timeout: float | None = 0.0,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
    ) -> Message:
        """Look at one message."""
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
        )
        plan = chosen(self._session, queue, wanted, timeout=timeout, peek=True)
        return cast(Message, await self.run(plans.one(plan)))

    async def peek_tops(
        self, queue: str, max: int = 1000, *, after: int = 0, size: int = 512
    ) -> Batch:
        """Look at the beginnings of messages, without what makes them large: their bodies."""
        plan = peek_tops(self._session, queue, count=max, after=after, size=size)
        return cast(Batch, await self.run(plan))

    async def remove(self, queue: str, first: int, last: int) -> int:
        """Take a range that was peeked before, at once and for good, without its bytes."""
        return cast(int, await self.run(remove(queue, first, last)))

    async def move(self, queue: str, message: Message | int, to: str) -> int:
        """Move a message between a queue and its subqueues, at once."""
        return cast(int, await self.run(move(queue, _lookup(message), to)))

    async def set_poison_policy(
        self,
        queue: str,
        *,
        attempts: int = 3,
        retry_after: int = 0,
        retries: int = 1,
        then: str = "move:poison",
    ) -> QueueView:
        """What becomes of a message whose receive is undone again and again."""
        plan = set_plan(queue, policy(attempts, retry_after, retries, then))
        made: QueueView = await self.run(plan)
        return made


# ---- in transactions ---------------------------------------------------------------------


class Taking:
    """Of ``Transaction``."""

    _unit: Unit

    def _run(self, plan: Plan) -> Any:
        raise NotImplementedError

    def receive(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
        allow_peek: bool = False,
        callback: object = None,
    ) -> Message:
        """Take one message; it goes back to its place if the transaction aborts.

        Args:
            timeout, lookup_id, seek, correlation_id, message_id: As in ``QueueManager.receive``.
            allow_peek: Others may look at it until the outcome (RCV-9).
            callback: Refused: in a transaction nothing is told of but by its answer (RCV-11).
        """
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id,
            allow_peek=allow_peek, callback=callback,
        )  # fmt: skip
        plan = self._unit.receive(queue, count=1, timeout=timeout, wanted=wanted)
        return cast(Message, self._run(plans.one(plan)))

    def reject(self, message: Message, *, queue: str | None = None) -> None:
        """Refuse a message that this transaction has received (MQMarkMessageRejected).

        At the commit it is gone from the queue, and ends for its sender with class 0xC004: an
        acknowledgment, if it asked for one, and a dead letter, if it wanted that.

        Args:
            queue: Where it was received from, if this transaction has received from several.

        Raises:
            TransactionUsage: This transaction does not hold it.
        """
        self._run(self._unit.reject(message, queue))

    def move(self, message: Message | int, to: str, *, queue: str | None = None) -> None:
        """Move a message to a subqueue, or back, with the commit.

        It may be one that this transaction has received: then it is not removed, but moved.

        Args:
            to: As in ``QueueManager.move``.
            queue: Where it is, if it was not received here.

        Raises:
            InvalidParameter, MessageNotFound, MessageLocked.
        """
        self._run(self._unit.move(message, to, queue))

    def receive_transaction(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        incomplete: str = "wait",
    ) -> SenderTransaction:
        """Take the messages of one transaction of a sender together, when all have arrived.

        Args:
            timeout: Seconds to wait; None: for ever.
            deadline: Seconds after the arrival of a transaction's first message when what is
                there of it is no longer waited for.
            incomplete: What then: "wait" (go on waiting), "give" (hand out what is there, with
                ``complete`` False), "dead-letter" (refuse it, and keep it in the dead-letter queue
                of this computer, with the commit).

        Raises:
            ReceiveTimeout: None was there entirely in time.
        """
        plan = self._unit.receive_transaction(
            queue, timeout=timeout, deadline=deadline, incomplete=incomplete
        )
        return cast(SenderTransaction, self._run(plan))


class AsyncTaking:
    """Of ``AsyncTransaction``."""

    _unit: Unit

    async def _run(self, plan: Plan) -> Any:
        raise NotImplementedError

    async def receive(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        lookup_id: int = 0,
        seek: str = "current",
        correlation_id: bytes | None = None,
        message_id: MessageId | str | None = None,
        allow_peek: bool = False,
        callback: object = None,
    ) -> Message:
        """Take one message; it goes back to its place if the transaction aborts."""
        wanted = which(
            lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id,
            allow_peek=allow_peek, callback=callback,
        )  # fmt: skip
        plan = self._unit.receive(queue, count=1, timeout=timeout, wanted=wanted)
        return cast(Message, await self._run(plans.one(plan)))

    async def reject(self, message: Message, *, queue: str | None = None) -> None:
        """Refuse a message that this transaction has received."""
        await self._run(self._unit.reject(message, queue))

    async def move(self, message: Message | int, to: str, *, queue: str | None = None) -> None:
        """Move a message to a subqueue, or back, with the commit."""
        await self._run(self._unit.move(message, to, queue))

    async def receive_transaction(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        incomplete: str = "wait",
    ) -> SenderTransaction:
        """Take the messages of one transaction of a sender together, when all have arrived."""
        plan = self._unit.receive_transaction(
            queue, timeout=timeout, deadline=deadline, incomplete=incomplete
        )
        return cast(SenderTransaction, await self._run(plan))
