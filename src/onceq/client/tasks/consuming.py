"""Working off a queue, message by message, from tasks; how the loops go on is in ``loops``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from onceq.client import again
from onceq.client.breaker import Pauses
from onceq.client.handlers import awaiting, check_handler
from onceq.client.link import AsyncAsking
from onceq.client.loops import Course, finish, goes_on, stopped, take
from onceq.client.ordered import Options, Order, Shared, Wish
from onceq.client.stopping import asked_to_stop_in_task
from onceq.client.tasks.recovering import AsyncRecovering
from onceq.client.tasks.transaction import AsyncTransaction
from onceq.client.tasks.workers import Ending, Event, side_by_side, work_off
from onceq.errors import InvalidParameter
from onceq.model.message import Message
from onceq.packet.batch import Batch
from onceq.partners.driving import drive_in_task

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[[AsyncTransaction, Message], Awaitable[object]]
BatchHandler = Callable[[AsyncTransaction, Batch], Awaitable[object]]
DatabaseHandler = Callable[[AsyncTransaction, Message, Any], Awaitable[object]]
DatabaseBatchHandler = Callable[[AsyncTransaction, Batch, Any], Awaitable[object]]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BatchHandler)
D = TypeVar("D", bound=DatabaseHandler)
DB = TypeVar("DB", bound=DatabaseBatchHandler)


class LoopOptions(Shared, total=False):
    """What every ``consume`` may ask for; see there."""

    timeout: float | None
    stop: asyncio.Event | None


class AsyncConsuming(AsyncRecovering):
    """Of ``AsyncQueueManager``."""

    def __init__(
        self, link: AsyncAsking, connect: Callable[[], Awaitable[AsyncAsking]] | None
    ) -> None:
        super().__init__(link, connect)
        self._consumers: list[tuple[Wish, Callable[..., object]]] = []

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
        check_handler(work, 1, tasks=True)
        doing = again.run(self, awaiting(work), tries=tries, also=also, wait=asyncio.sleep)
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
        self,
        queue: str,
        *,
        timeout: float | None = None,
        limit: float | None = None,
        stop: asyncio.Event | None = None,
    ) -> AsyncGenerator[tuple[AsyncTransaction, Message], None]:
        """Hand out each message together with the transaction that holds it.

        See ``QueueManager.work``; left early as ``messages`` is.
        """
        course = Course(queue, timeout, 1, stoppable=stop is not None, limit=limit)
        tx = course.limited(self.transaction())
        while goes_on(tx, stop):
            now, tx = tx, course.limited(self.transaction())
            try:
                taken = await drive_in_task(take(now, course))
                if taken is None:
                    return
                if taken:
                    yield now, taken[0]
                    await drive_in_task(finish(self, now, course, None if stopped(stop) else tx))
                    course.done(taken)
            except BaseException:
                await tx._leave()
                raise
            finally:
                await now._leave()

    @overload
    async def consume(
        self, queue: str, handler: Handler, **options: Unpack[LoopOptions]
    ) -> int: ...  # fmt: skip

    @overload
    async def consume(
        self, queue: str, handler: BatchHandler, *, batch: int, **options: Unpack[LoopOptions]
    ) -> int: ...  # fmt: skip

    @overload
    async def consume(
        self, queue: str, handler: DatabaseHandler, *, database: Callable[[], object],
        **options: Unpack[LoopOptions],
    ) -> int: ...  # fmt: skip

    @overload
    async def consume(
        self, queue: str, handler: DatabaseBatchHandler, *, batch: int,
        database: Callable[[], object], **options: Unpack[LoopOptions],
    ) -> int: ...  # fmt: skip

    async def consume(
        self,
        queue: str,
        handler: Callable[..., Awaitable[Any]],
        *,
        concurrency: int = 1,
        batch: int = 1,
        order: Order = None,
        database: Callable[[], object] | None = None,
        limit: float | None = None,
        pauses: Pauses | None = None,
        timeout: float | None = None,
        stop: asyncio.Event | None = None,
    ) -> int:
        """Await ``handler(tx, message)`` for each message, or for batches; see
        ``QueueManager.consume``. Several workers are tasks; ``database`` may be awaited. To cancel
        it undoes the calls that run."""
        wish = Wish(queue, timeout, concurrency, batch, order, database, limit, pauses)
        around = contextlib.nullcontext(stop) if stop is not None else asked_to_stop_in_task()
        with around as event:
            return await work_off(self, wish, handler, Event(event))

    @overload
    def consumer(self, queue: str, **options: Unpack[Shared]) -> Callable[[H], H]: ...

    @overload
    def consumer(
        self, queue: str, *, batch: int, **options: Unpack[Shared]
    ) -> Callable[[B], B]: ...  # fmt: skip

    @overload
    def consumer(
        self, queue: str, *, database: Callable[[], object], **options: Unpack[Shared]
    ) -> Callable[[D], D]: ...  # fmt: skip

    @overload
    def consumer(
        self, queue: str, *, batch: int, database: Callable[[], object],
        **options: Unpack[Shared],
    ) -> Callable[[DB], DB]: ...  # fmt: skip

    def consumer(self, queue: str, **options: Unpack[Options]) -> Callable[[F], F]:
        """Let ``serve`` await the decorated function for the messages of a queue; see
        ``QueueManager.consumer``."""
        wish = Wish(queue, **options)

        def decorate(handler: F) -> F:
            check_handler(handler, wish.given, tasks=True)
            self._consumers.append((wish, handler))
            return handler

        return decorate

    async def serve(
        self, *, timeout: float | None = None, stop: asyncio.Event | None = None
    ) -> int:
        """Run all decorated consumers side by side until they stop; see ``QueueManager.serve``."""
        works = [
            partial(work_off, self, replace(wish, timeout=timeout), handler)
            for wish, handler in self._consumers
        ]
        if not works:
            raise InvalidParameter("there is nothing to serve; decorate functions with `consumer`")
        around = contextlib.nullcontext(stop) if stop is not None else asked_to_stop_in_task()
        with around as event:
            ending = Ending(Event(event))
            return await side_by_side([partial(work, ending) for work in works], ending)
