"""A connection to a queue manager for tasks, made again when it breaks.

A call that finds the connection broken connects again; what was open on the old one is over
(transactions abort), and a commit whose answer was lost says so with ``InDoubt``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from onceq.client import link as settings
from onceq.client.async_link import in_thread
from onceq.client.link import AsyncAsking, ForTasks, Session, own
from onceq.client.plans.plan import Plan
from onceq.client.tasks.running import Pinned, Runner
from onceq.errors import ServiceNotAvailable
from onceq.model.identity import guid_text

T = TypeVar("T")


class AsyncConnected(ForTasks):
    """What carries plans out (``Runner``)."""

    def __init__(
        self, link: AsyncAsking, connect: Callable[[], Awaitable[AsyncAsking]] | None
    ) -> None:
        """Take a connection.

        Args:
            connect: Connects again when it broke; None: that is not possible.
        """
        self._link = link
        self._connect = connect
        self._lock = asyncio.Lock()
        self._closed = False
        self._state = Session(self._link.greeting)
        own(self)

    def forked(self) -> None:
        """Give up what is the parent's: this is a child now.

        This application of a child is another one than its parent's.
        """
        self._lock = asyncio.Lock()
        self._state.forked()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        """Computer name of the queue manager, as format names have it."""
        return self._state.name

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._state.source)

    @property
    def _manager(self) -> Runner:
        """Itself, as what it makes knows it."""
        return self

    async def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        self._closed = True
        if self._connect is None:
            await in_thread(self._link.close)
        else:
            self._link.close()

    async def _live(self) -> AsyncAsking:
        """The link, connected again if it broke."""
        link = self._link
        link.check_loop()
        if await link.check_alive():
            return link
        async with self._lock:
            if self._closed:
                raise ServiceNotAvailable("this queue manager was closed")
            if not self._link.alive:
                if self._connect is None:
                    raise ServiceNotAvailable(
                        "the embedded queue manager has stopped, or the connection was lost"
                    )
                self._link = await self._reconnect(self._connect)
            return self._link

    async def _reconnect(self, connect: Callable[[], Awaitable[AsyncAsking]]) -> AsyncAsking:
        waits = iter(settings.RECONNECT_S)
        until = time.monotonic() + sum(settings.RECONNECT_S)
        while True:
            try:
                link = await connect()
                break
            except ServiceNotAvailable:
                wait = next(waits, None)
                if wait is None or self._closed or time.monotonic() > until:
                    raise  # One that is silent takes all of the time for connecting each time.
                await asyncio.sleep(wait)
        try:
            self._state.note_greeting(link.greeting)
        except ServiceNotAvailable:
            link.close()
            raise
        if self._closed:
            link.close()
        return link

    async def _run(self, plan: Plan[T], on: Pinned | None = None) -> T:
        """Carry a plan out (for the classes of this package). It needs no connection until it
        asks something, and hears of it if there is none.

        Args:
            on: On this connection and no other; None: on any, and on another one if that breaks.
        """
        self._link.check_loop()
        repeats = 0 if on is not None else settings.REPEATS_MAX
        link: AsyncAsking | None = None
        try:
            request = next(plan)
            while True:
                try:
                    if link is None:
                        link = on.link if on is not None else None
                    if link is None:
                        link = self._link if await self._link.check_alive() else await self._live()
                        if on is not None:
                            on.link = link
                except ServiceNotAvailable as error:
                    request = plan.throw(error)
                    continue
                try:
                    result = await link.call(request)
                except ServiceNotAvailable as error:
                    if repeats and request.repeatable(error):
                        repeats -= 1
                        link = None
                    else:
                        request = plan.throw(error)
                except BaseException as error:  # noqa: BLE001 - a plan sees every error
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value
