"""Working off a queue, message by message, from tasks; how the loops go on is in ``loops``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from onceq.client.current import entered, left
from onceq.client.loops import NOTHING, Course
from onceq.client.plans import queues
from onceq.client.plans.outcome import outcome
from onceq.client.tasks.recovering import AsyncRecovering
from onceq.client.tasks.transaction import AsyncTransaction
from onceq.errors import InDoubt, OnceqError, ReceiveTimeout, ServiceNotAvailable
from onceq.model.message import Message
from onceq.packet.batch import Batch


class AsyncConsuming(AsyncRecovering):
    """Of ``AsyncQueueManager``."""

    def transaction(self) -> AsyncTransaction:
        """A unit of work: ``async with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return AsyncTransaction(self)

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
                taken = await _taken(tx, course)
                if taken is None:
                    return
                if taken:
                    yield tx, taken[0]
                    await self._finish(tx, course, None)
                    course.done(1)
            finally:
                await _undo(tx)

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
                taken = await _taken(tx, course)
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
                await _undo(tx)
        return course.handled

    async def _handle(
        self, handler: Callable[..., Awaitable[object]], tx: AsyncTransaction, argument: Any
    ) -> None:
        around = entered(tx, self, tx._state)
        try:
            await handler(tx, argument)
        finally:
            left(around)

    async def _finish(
        self, tx: AsyncTransaction, course: Course, stop: asyncio.Event | None
    ) -> None:
        """Commit, unless that is done; if the answer was lost, find out what became of it.

        Args:
            stop: Ask until the manager is back, or this is set; None: ask once.
        """
        if tx._state.over:
            return
        try:
            await tx.commit()
        except InDoubt as error:
            while True:
                try:
                    became = await self.run(outcome(self._state, error.transaction))
                except ServiceNotAvailable as away:
                    if stop is None or await _pause(stop, course.away_s(away)):
                        raise error from None
                else:
                    course.settled(error, became)
                    return

    async def _policy(self, queue: str) -> object:
        with contextlib.suppress(OnceqError):
            return (await self.run(queues.queue(self._state, queue))).poison_attempts
        return False


async def _taken(tx: AsyncTransaction, course: Course) -> Batch | None:
    """Messages; none of them: look whether to stop; None: the time is over."""
    try:
        return await tx._hold(course.queue, course.batch, timeout=course.slice_s())
    except ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


async def _undo(tx: AsyncTransaction) -> None:
    """Give back what a transaction holds, if it is open still."""
    if not tx._state.over:
        with contextlib.suppress(OnceqError):
            await tx.abort()


async def _pause(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the event is set; whether it is."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
