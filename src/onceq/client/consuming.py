"""Working off a queue, message by message, without losing any: loops for threads and for tasks.

Each message is received in a transaction of its own. It is committed when the loop asks for the
next message, or the handler has returned, and before anything else is handed out; whatever ends
the loop before that (an exception, ``break``, the death of the process or of the queue manager)
puts the message back in its place, and nothing else is ever held. What is handed out again says so
by ``abort_count``.

The loops decide with ``Course``; what is left to each kind is to wait and to call.

Upholds: I4 (at most one committed receive), I17 (who is lost gives everything back).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from onceq.client import plans
from onceq.client.current import entered, left
from onceq.client.sync_unit import Transaction
from onceq.client.task_unit import AsyncTransaction
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    OnceqError,
    ReceiveTimeout,
    ServiceNotAvailable,
    TransactionLost,
)
from onceq.model.message import Message
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch

LOOK_S: Final = 0.5
"""Where a stop may come, a wait for a message is asked for in slices of so many seconds."""
AWAY_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits of ``consume`` while the queue manager is away; the last one is repeated."""

NOTHING: Final = Batch(Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"))

log = logging.getLogger("onceq")


class Course:
    """How one loop goes on.

    Attributes:
        batch: Messages of one transaction, at most.
        handled: Messages that were handed on and committed.
    """

    def __init__(self, queue: str, timeout: float | None, batch: int, *, stoppable: bool) -> None:
        if batch < 1:
            raise InvalidParameter(f"a batch has at least one message, not {batch}")
        plans.wait_ms(timeout)  # raises InvalidParameter
        self.queue = queue
        self.batch = batch
        self.handled = 0
        self._timeout = self._left = timeout
        self._stoppable = stoppable
        self._failed = 0

    def slice_s(self) -> float | None:
        """How long to wait for a message now."""
        if not self._stoppable:
            return self._left
        return LOOK_S if self._left is None else min(LOOK_S, self._left)

    def nothing_came(self) -> bool:
        """No message came in that time: whether all of the time is over."""
        waited = self.slice_s()
        if self._left is None or waited is None:
            return False
        self._left -= waited
        return self._left <= 0

    def argument(self, taken: Batch) -> Any:
        """What a handler is called with."""
        return taken if self.batch > 1 else taken[0]

    def done(self, count: int) -> None:
        """Messages are committed."""
        self.handled += count
        self._left = self._timeout
        self._failed = 0

    def away_s(self, error: OnceqError) -> float:
        """The queue manager is away: how long to wait before it is asked again."""
        wait = AWAY_S[min(self._failed, len(AWAY_S) - 1)]
        self._failed += 1
        log.warning("queue=%s: %s; trying again in %s s", self.queue, error.text, wait)
        return wait

    def settled(self, error: InDoubt, outcome: str) -> None:
        """What became of a commit whose answer was lost; raises if it is not done."""
        if outcome == "aborted":
            raise TransactionLost(
                f"the commit did not happen ({error.text}); what was received from {self.queue} "
                "is in its place again, and will be handed out again"
            ) from error
        if outcome != "committed":
            raise error

    def failed(self, error: Exception, policy: object) -> None:
        """A handler has raised; raises it again unless the queue says what then becomes of a
        message: without that the same one would come for ever."""
        if not policy:
            raise error
        log.warning(
            "queue=%s: a handler failed, what it was given goes back: %s: %s", self.queue,
            type(error).__name__, error,
        )  # fmt: skip


class Consuming:
    """Of ``QueueManager``."""

    if TYPE_CHECKING:

        def transaction(self) -> Transaction:
            """See ``QueueManager``."""

        def outcome(self, transaction: str) -> str:
            """See ``QueueManager``."""

        def queue(self, name: str) -> QueueView:
            """See ``QueueManager``."""

    def messages(self, queue: str, *, timeout: float | None = 0.0) -> Iterator[Message]:
        """Receive one message after another, until none comes for ``timeout`` seconds.

        A message is received for good when the loop asks for the next one: that is handed out only
        after the removal is durable. If the loop ends before (an exception, ``break``, the death
        of this process), the message at hand goes back to its place, with its ``abort_count``
        raised; all others are in the queue anyway. This holds for every queue of this manager,
        transactional or not.

        For many at once: ``receive_many``, at once and for good; the one of ``transaction()``; or
        ``consume`` with ``batch``.

        Raises:
            ServiceNotAvailable: The manager was lost; the message at hand goes back.
            InDoubt: It is lost, and nobody can tell whether the message at hand is removed.
        """
        for _, message in self.work(queue, timeout=timeout):
            yield message

    def work(
        self, queue: str, *, timeout: float | None = None, stop: threading.Event | None = None
    ) -> Iterator[tuple[Transaction, Message]]:
        """Hand out each message together with the transaction that holds it.

        What the body of the loop sends with ``tx`` is committed with the removal of the message
        when the body has ended, all or nothing. If it raises, or leaves the loop, the transaction
        is aborted; a poison policy of the queue counts that. The body may commit or abort itself.

        Args:
            timeout: Seconds to wait for a message before the loop ends; None: for ever.
            stop: Ends the loop before the next message once it is set (``onceq.stopping``).

        Raises:
            ServiceNotAvailable, InDoubt: As in ``messages``.
            SendFailed: A send of the body was refused; the transaction was undone.
        """
        course = Course(queue, timeout, 1, stoppable=stop is not None)
        while not (stop is not None and stop.is_set()):
            tx = self.transaction()
            try:
                taken = _taken(tx, course)
                if taken is None:
                    return
                if taken:
                    yield tx, taken[0]
                    self._finish(tx, course, None)
                    course.done(1)
            finally:
                _undo(tx)

    def consume(
        self,
        queue: str,
        handler: Callable[[Transaction, Any], object],
        *,
        batch: int = 1,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Call ``handler(tx, message)`` for each message, or ``handler(tx, messages)`` for batches.

        Each call has a transaction of its own, which is current while it runs (``send_current``),
        is committed when it returns and aborted when it raises. If it raises and the queue has a
        poison policy, that decides what becomes of the message, and the loop goes on; without one
        the exception leaves here. While the queue manager is away this waits, and says so in the
        log; a call whose commit did not happen is then repeated.

        Args:
            batch: More than 1: so many at most in one call and one transaction (a ``Batch``).
            timeout, stop: As in ``work``. A call that runs is never cut short.

        Returns:
            How many messages were handled when ``stop`` was set or the time was over.
        """
        course = Course(queue, timeout, batch, stoppable=stop is not None)
        waiting = stop if stop is not None else threading.Event()
        while not waiting.is_set():
            tx, taken = self.transaction(), None
            try:
                taken = _taken(tx, course)
                if taken is None:
                    break
                if taken:
                    self._handle(handler, tx, course.argument(taken))
                    self._finish(tx, course, waiting)
                    course.done(len(taken))
            except ServiceNotAvailable as error:
                waiting.wait(course.away_s(error))
            except Exception as error:
                if not taken or (isinstance(error, InDoubt) and error.transaction == tx.id):
                    raise
                course.failed(error, self._policy(queue))
            finally:
                _undo(tx)
        return course.handled

    def _handle(self, handler: Callable[..., object], tx: Transaction, argument: Any) -> None:
        around = entered(tx, self, tx._unit)
        try:
            handler(tx, argument)
        finally:
            left(around)

    def _finish(self, tx: Transaction, course: Course, stop: threading.Event | None) -> None:
        """Commit, unless that is done; if the answer was lost, find out what became of it.

        Args:
            stop: Ask until the manager is back, or this is set; None: ask once.
        """
        if tx._unit.over:
            return
        try:
            tx.commit()
        except InDoubt as error:
            while True:
                try:
                    outcome = self.outcome(error.transaction)
                except ServiceNotAvailable as away:
                    if stop is None or stop.wait(course.away_s(away)):
                        raise error from None
                else:
                    course.settled(error, outcome)
                    return

    def _policy(self, queue: str) -> object:
        with contextlib.suppress(OnceqError):
            return self.queue(queue).poison_attempts
        return False


def _taken(tx: Transaction, course: Course) -> Batch | None:
    """Messages; none of them: look whether to stop; None: the time is over."""
    try:
        return tx._hold(course.queue, course.batch, timeout=course.slice_s())
    except ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


def _undo(tx: Transaction) -> None:
    """Give back what a transaction holds, if it is open still."""
    if not tx._unit.over:
        with contextlib.suppress(OnceqError):
            tx.abort()


class AsyncConsuming:
    """Of ``AsyncQueueManager``."""

    if TYPE_CHECKING:

        def transaction(self) -> AsyncTransaction:
            """See ``AsyncQueueManager``."""

        async def outcome(self, transaction: str) -> str:
            """See ``AsyncQueueManager``."""

        async def queue(self, name: str) -> QueueView:
            """See ``AsyncQueueManager``."""

    async def messages(self, queue: str, *, timeout: float | None = 0.0) -> AsyncIterator[Message]:
        """Receive one message after another, until none comes for ``timeout`` seconds.

        See ``QueueManager.messages``. An ``async for`` that is left early gives the message at
        hand back when the loop of events comes to it; ``contextlib.aclosing`` does so at once.
        """
        async with contextlib.aclosing(self.work(queue, timeout=timeout)) as work:
            async for _, message in work:
                yield message

    async def work(
        self, queue: str, *, timeout: float | None = None, stop: asyncio.Event | None = None
    ) -> AsyncGenerator[tuple[AsyncTransaction, Message], None]:
        """Hand out each message together with the transaction that holds it.

        See ``QueueManager.work``; left early as ``messages`` is.
        """
        course = Course(queue, timeout, 1, stoppable=stop is not None)
        while not (stop is not None and stop.is_set()):
            tx = self.transaction()
            try:
                taken = await _taken_async(tx, course)
                if taken is None:
                    return
                if taken:
                    yield tx, taken[0]
                    await self._finish(tx, course, None)
                    course.done(1)
            finally:
                await _undo_async(tx)

    async def consume(
        self,
        queue: str,
        handler: Callable[[AsyncTransaction, Any], Awaitable[object]],
        *,
        batch: int = 1,
        timeout: float | None = None,
        stop: asyncio.Event | None = None,
    ) -> int:
        """Await ``handler(tx, message)`` for each message, or for batches; see
        ``QueueManager.consume``. To cancel it undoes the call that runs."""
        course = Course(queue, timeout, batch, stoppable=stop is not None)
        waiting = stop if stop is not None else asyncio.Event()
        while not waiting.is_set():
            tx, taken = self.transaction(), None
            try:
                taken = await _taken_async(tx, course)
                if taken is None:
                    break
                if taken:
                    await self._handle(handler, tx, course.argument(taken))
                    await self._finish(tx, course, waiting)
                    course.done(len(taken))
            except ServiceNotAvailable as error:
                await _pause(waiting, course.away_s(error))
            except Exception as error:
                if not taken or (isinstance(error, InDoubt) and error.transaction == tx.id):
                    raise
                course.failed(error, await self._policy(queue))
            finally:
                await _undo_async(tx)
        return course.handled

    async def _handle(
        self, handler: Callable[..., Awaitable[object]], tx: AsyncTransaction, argument: Any
    ) -> None:
        around = entered(tx, self, tx._unit)
        try:
            await handler(tx, argument)
        finally:
            left(around)

    async def _finish(
        self, tx: AsyncTransaction, course: Course, stop: asyncio.Event | None
    ) -> None:
        """See ``Consuming``."""
        if tx._unit.over:
            return
        try:
            await tx.commit()
        except InDoubt as error:
            while True:
                try:
                    outcome = await self.outcome(error.transaction)
                except ServiceNotAvailable as away:
                    if stop is None or await _pause(stop, course.away_s(away)):
                        raise error from None
                else:
                    course.settled(error, outcome)
                    return

    async def _policy(self, queue: str) -> object:
        with contextlib.suppress(OnceqError):
            return (await self.queue(queue)).poison_attempts
        return False


async def _taken_async(tx: AsyncTransaction, course: Course) -> Batch | None:
    """See ``_taken``."""
    try:
        return await tx._hold(course.queue, course.batch, timeout=course.slice_s())
    except ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


async def _undo_async(tx: AsyncTransaction) -> None:
    """See ``_undo``."""
    if not tx._unit.over:
        with contextlib.suppress(OnceqError):
            await tx.abort()


async def _pause(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the event is set; whether it is."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
