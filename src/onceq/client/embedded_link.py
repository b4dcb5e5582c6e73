"""The way to a queue manager in the same process: no bytes, no sockets, the same requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onceq.client.link import Greeting, Request
from onceq.client.results import Batch
from onceq.core.decision import Opened, Sent
from onceq.errors import OnceqError
from onceq.service.api import plain
from onceq.service.engine import Delivered
from onceq.wire.app import frames

if TYPE_CHECKING:
    from onceq.service.embedded import EmbeddedHost


def _nothing(result: object) -> None:
    """Nobody looks at this answer."""


def translated(result: object) -> object:
    """A result of the core as a client sees it."""
    if isinstance(result, Delivered):
        return Batch(result.run, result.lookups, result.arrived, result.aborts)
    if isinstance(result, Sent):
        return frames.SentHead(result.first_message, result.messages, result.transaction)
    if isinstance(result, Opened):
        return frames.OpenedHead(result.handle, result.local, result.transactional)
    if result is None or isinstance(result, (OnceqError, int)):
        return result
    return plain(result)


class EmbeddedLink:
    """For threads."""

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self.greeting = Greeting(host.name, host.id, host.now_s())
        self._alive = True

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""
        return self._alive

    def call(self, request: Request) -> object:
        """Ask and wait for the result; errors are raised."""
        if not request.waits:
            self._host.submit(request.code, request.head, request.runs, _nothing)
            return None
        return translated(self._host.call(request.code, request.head, request.runs))

    def close(self) -> None:
        """Stop the manager in order."""
        self._alive = False
        self._host.close()


class AsyncEmbeddedLink:
    """For tasks: the waiting is the loop's, the pumping a worker thread's."""

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self.greeting = Greeting(host.name, host.id, host.now_s())
        self._alive = True

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""
        return self._alive

    async def call(self, request: Request) -> object:
        """Ask and wait for the result; errors are raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def answer(result: object) -> None:
            loop.call_soon_threadsafe(_set, future, result)

        self._host.submit(
            request.code, request.head, request.runs, answer if request.waits else _nothing
        )
        await loop.run_in_executor(None, self._host.pump)
        if not request.waits:
            return None
        result = translated(await future)
        if isinstance(result, OnceqError):
            raise result
        return result

    def close(self) -> None:
        """Stop the manager in order."""
        self._alive = False
        self._host.close()


def _set(future: asyncio.Future[object], result: object) -> None:
    if not future.done():
        future.set_result(result)
