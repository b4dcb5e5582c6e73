"""Working off a queue, message by message, from tasks; how the loops go on is in ``loops``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from onceq.client import again
from onceq.client.loops import Course, consume, finish, goes_on, stopped, take
from onceq.client.tasks.recovering import AsyncRecovering
from onceq.client.tasks.transaction import AsyncTransaction
from onceq.model.message import Message
from onceq.partners.driving import drive_in_task

T = TypeVar("T")


class AsyncConsuming(AsyncRecovering):
    """Of ``AsyncQueueManager``."""

    def transaction(self) -> AsyncTransaction:
        """A unit of work: ``async with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return AsyncTransaction(self)

    async def run(
        self,
        work: Callable[[AsyncTransaction], Awaitable[T]],
        *,
        tries: int = again.TRIES,
        also: tuple[type[Exception], ...] = (),
    ) -> T:
        """Do a whole transaction, and do it again as long as that is safe and may help.

        See ``QueueManager.run``; ``work(tx)`` is awaited. To cancel it undoes the transaction.
        """
        doing = again.run(self, work, tries=tries, also=also, wait=asyncio.sleep)
        found: T = await drive_in_task(doing)
        return found

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
        tx = self.transaction()
        while goes_on(tx, stop):
            now, tx = tx, self.transaction()
            try:
                taken = await drive_in_task(take(now, course))
                if taken is None:
                    return
                if taken:
                    yield now, taken[0]
                    await drive_in_task(finish(self, now, course, None if stopped(stop) else tx))
                    course.done(1)
            except BaseException:
                await tx._leave()
                raise
            finally:
                await now._leave()

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
        ``QueueManager.consume``. The handler is awaited; to cancel this undoes the call that
        runs."""
        course = Course(queue, timeout, batch, stoppable=stop is not None)
        waiting = stop if stop is not None else asyncio.Event()
        return await drive_in_task(
            consume(self, course, handler, waiting, partial(_pause, waiting))
        )


async def _pause(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the event is set; whether it is."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
