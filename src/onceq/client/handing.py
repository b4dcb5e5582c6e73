"""How a task gets what another thread has for it.

A signal handler may raise at any line that the event loop runs, also at the first one of what
brings a result. The loop reports that error and goes on, and forgets what it was to bring. So the
thread that has a result puts it down itself, and schedules twice what brings it: one of them may be
lost.

Upholds: what has come for a task is not lost, and ends its wait (findings K5 and R20).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
TIMES = 2
"""So often it is scheduled that a result is brought."""


class Handover:
    """A place for one result. It belongs to the loop in which it is made."""

    __slots__ = ("_came", "_future", "_given_up", "_loop", "_missed")

    def __init__(self, missed: Callable[[object], None]) -> None:
        """
        Args:
            missed: Is called in the loop with what comes after it was given up.
        """
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._came: list[object] = []
        self._given_up = False
        self._missed = missed

    def put(self, result: object) -> None:
        """It has come, in any thread; the first one counts."""
        if self._came:
            return
        self._came.append(result)
        with contextlib.suppress(RuntimeError):  # The loop may be gone; the others' are not.
            for _ in range(TIMES):
                self._loop.call_soon_threadsafe(self._bring)

    def put_here(self, result: object) -> None:
        """The same in the thread of its loop."""
        if not self._came:
            self._came.append(result)
        self._bring()  # once more if it was interrupted

    @property
    def awaited(self) -> bool:
        """Whether nothing has come, and it was not given up."""
        return not (self._came or self._given_up)

    def _bring(self) -> None:
        """In the loop: end the wait. It does nothing the second time."""
        if not self._given_up:
            if not self._future.done():
                self._future.set_result(None)
        elif self._came:
            self._missed(self._came[0])
            self._came.clear()

    async def take(self) -> object:
        """Wait for it."""
        await self._future
        return self._came[0]

    async def give_up(self, cancel: Callable[[], None], seconds: float) -> None:
        """Nobody takes it any more: end the wait, and let it count as missed when it comes.

        Args:
            cancel: Asks the other side to end it; not called if it has come.
            seconds: So long it is awaited, so that it is missed before this returns.
        """
        try:
            if not self._came:
                cancel()
                self._future = self._loop.create_future()
                await asyncio.wait([self._future], timeout=seconds)
        finally:
            self._given_up = True
            self._loop.call_soon(self._bring)
            self._bring()


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """``asyncio.to_thread``, whose result is not lost."""
    done: list[T] = []
    place = Handover(lambda result: None)

    def carry_out() -> None:
        try:
            done.append(work(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001
            place.put(error)
        else:
            place.put(None)

    asyncio.get_running_loop().run_in_executor(None, carry_out)
    failed = await place.take()
    if isinstance(failed, BaseException):
        raise failed
    return done[0]
