"""Workers in tasks, on one queue or on several; what each does: see ``loops`` and ``ordered``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from onceq.client.handlers import Breaker, awaiting, check_handler
from onceq.client.loops import LOOK_S, OutageLog, consume
from onceq.client.ordered import WAIT, ConsumerOptions, Failing, Turns, in_order
from onceq.client.retry import CallingManager
from onceq.partners.procedures import drive_in_task


class Stop(Protocol):
    """The end of workers around these, or what stands for an event."""

    def is_set(self) -> bool: ...

    async def pause(self, seconds: float, /) -> bool: ...


class Event:
    """An event of the application."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    async def pause(self, seconds: float, /) -> bool:
        """Wait so long, or until it is set; whether it is."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        return self._event.is_set()


class Ending(Failing):
    """When workers end: when the application says so, or one of them has failed."""

    def __init__(self, stop: Stop | asyncio.Event) -> None:
        self._stop = _waiting(stop)
        super().__init__(self._stop)

    async def pause(self, seconds: float, /) -> bool:
        """Wait so long, or until the application says so; whether they end."""
        await self._stop.pause(seconds)
        return self.is_set()


class Workers:
    """Gives workers their turns; see ``ordered.Workers``."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._changed = asyncio.Event()

    async def turn(self) -> int:
        """Return what to do, as ``Turns.now``, but never WAIT: it waits."""
        while (now := self._turns.now()) == WAIT:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_S)
        return now

    def tell(self, what: Callable[[], None]) -> None:
        """Change the turns, and let the others know."""
        try:
            what()
        finally:
            self._changed.set()


async def work_off(
    qm: CallingManager,
    wish: ConsumerOptions,
    handler: Callable[..., object],
    ends: Stop | asyncio.Event,
) -> int:
    """Let workers handle a queue until they are to stop; how many messages they have handled."""
    check_handler(handler, wish.given, tasks=True)
    handler, stop = awaiting(handler), _waiting(ends)
    absence, breaker = OutageLog(wish.queue), Breaker(wish.queue, wish.pauses)
    if wish.concurrency == 1:
        course = wish.course(absence, wish.timeout, breaker)
        return await drive_in_task(consume(qm, course, handler, stop, stop.pause))
    ending = Ending(stop)
    if wish.key is None:

        async def loop() -> int:
            course = wish.course(absence, wish.timeout, breaker)
            return await drive_in_task(consume(qm, course, handler, ending, ending.pause))

        return await side_by_side([loop] * wish.concurrency, ending)
    turns = Turns(wish, ending, qm._state.clock)
    workers = Workers(turns)

    async def worker() -> int:
        course = wish.course(absence, None, breaker)
        return await drive_in_task(in_order(qm, course, handler, turns, workers, ending.pause))

    # One more: while one looks at the queue, all others may be at work.
    return await side_by_side([worker] * (wish.concurrency + 1), ending)


def _waiting(stop: Stop | asyncio.Event) -> Stop:
    """What workers wait for, of what the application gave or workers around these."""
    return Event(stop) if isinstance(stop, asyncio.Event) else stop


async def side_by_side(
    works: Sequence[Callable[[], Coroutine[Any, Any, int]]], ending: Ending
) -> int:
    """Do all of these, each in a task; the sum of what they return.

    The first exception of one lets the others finish what they have at hand, and is raised then.
    To cancel it cancels all of them.
    """
    done: list[int] = []

    async def carry_out(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
        try:
            done.append(await work())
        except Exception as error:  # noqa: BLE001 - raised by the one that waits
            ending.fail(error)

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(carry_out(work))
    if ending.failure is not None:
        raise ending.failure
    return sum(done)
