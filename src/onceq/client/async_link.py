"""A connection to a daemon for tasks of an event loop."""

from __future__ import annotations

import asyncio
from typing import cast

from onceq.client.address import Address
from onceq.client.link import Greeting, LinkLost, Request, failure, result_of
from onceq.errors import OnceqError, ServiceNotAvailable
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, Code


class AsyncLink(asyncio.Protocol):
    """See the module. Belongs to the loop that made it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._parser = frames.Parser()
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, asyncio.Future[object]] = {}
        self._request = 1
        self._lost: OnceqError | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._greeted: asyncio.Future[Greeting] = self._loop.create_future()
        self.greeting = Greeting("", b"", 0)

    @classmethod
    async def connect(cls, address: Address, timeout: float) -> AsyncLink:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion."""
        link = cls(address)
        try:
            async with asyncio.timeout(timeout):
                if address.path:
                    await link._loop.create_unix_connection(lambda: link, address.path)
                else:
                    await link._loop.create_connection(lambda: link, address.host, address.port)
                hello = frames.frame(1, Code.HELLO, frames.Hello(frames.VERSION, "onceq"))
                assert link._transport is not None
                link._transport.writelines(hello)
                link.greeting = await link._greeted
        except (OSError, TimeoutError) as error:
            link.close()
            raise ServiceNotAvailable(
                f"no queue manager answers at {address} ({error}); is it running?"
            ) from error
        return link

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""
        return self._lost is None

    async def call(self, request: Request) -> object:
        """Ask and wait for the result; errors are raised, LinkLost if nobody knows."""
        await self._writable.wait()
        if self._lost is not None or self._transport is None:
            raise ServiceNotAvailable(str(self._lost))
        number = self._request = self._request % 0xFFFF_FFFF + 1
        data = frames.pack_runs(list(request.runs)) if request.runs else []
        self._transport.writelines(frames.frame(number, request.code, request.head, *data))
        if not request.waits:
            return None
        future: asyncio.Future[object] = self._loop.create_future()
        self._answers[number] = future
        try:
            result = await future
        except asyncio.CancelledError:
            self._answers.pop(number, None)
            if request.code == Code.RECEIVE and self._lost is None:
                cancel = frames.Number(number)
                self._request = self._request % 0xFFFF_FFFF + 1
                self._transport.writelines(frames.frame(self._request, Code.CANCEL, cancel))
            raise
        if isinstance(result, OnceqError):
            raise result
        return result

    # ---- asyncio --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        try:
            for number, code, head, rest in self._parser.feed(data):
                self._take(number, code, head, rest)
        except OnceqError as error:
            self._lose(error.text)

    def _take(self, number: int, code: int, head: memoryview, rest: memoryview) -> None:
        if not self._greeted.done():
            if code & FAILED:
                self._greeted.set_exception(failure(head))
            elif code == Code.HELLO | ANSWER:
                said = frames.decode_head(head, frames.Welcome)
                self._greeted.set_result(Greeting(said.name, said.id, said.now_s))
            return
        if number == 0:
            self._lose(f"the queue manager ended the connection: {failure(head)}")
            return
        future = self._answers.pop(number, None)
        if future is not None and not future.done():
            try:
                future.set_result(result_of(code, head, rest))
            except OnceqError as error:
                future.set_result(error)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._lose(f"the connection to {self._address} broke" + (f": {exc}" if exc else ""))

    def _lose(self, text: str) -> None:
        if self._lost is None:
            self._lost = LinkLost(text)
        self._writable.set()
        answers, self._answers = self._answers, {}
        for future in answers.values():
            if not future.done():
                future.set_result(LinkLost(text))
        if not self._greeted.done():
            self._greeted.set_exception(ServiceNotAvailable(text))
        if self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """Leave; open transactions abort."""
        self._lose("this side closed the connection")
