"""A connection to a daemon for tasks of an event loop."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from typing import cast

from onceq.client.address import Address
from onceq.client.credentials import Credentials, Hello, check_protocol
from onceq.client.greetings import Greeting, greeting
from onceq.client.link import Request
from onceq.errors import (
    LinkLost,
    ManagerAway,
    OnceqError,
    ServiceNotAvailable,
    UnknownVersion,
)
from onceq.model import requests
from onceq.model.run import Buffer
from onceq.wire.app import frames
from onceq.wire.app.answers import decode
from onceq.wire.app.frames import ANSWER, FAILED, Code, failure
from onceq.wire.app.requests import written

CANCEL_S_MAX = 1.0
"""How long a cancelled receive waits for the manager to hear of it."""
LOOK_TURNS = 3
"""The loop reads the end of a connection in one turn and tells of it in the next."""
WRITE_BYTES_MAX = 4 << 20
"""Requests waiting in the transport; calls wait above."""


class AsyncLink(asyncio.Protocol):
    """See the module. Belongs to the loop that made it."""

    def __init__(self, address: Address, credentials: Credentials | None = None) -> None:
        self._address = address
        self._shown = credentials or Credentials()
        self._hello: Hello | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = frames.Parser()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, tuple[asyncio.Future[object], Request]] = {}
        self._held: list[Buffer] = []
        self._number = 0
        self._lost: OnceqError | None = None
        self._poll = select.poll()
        self._writable = asyncio.Event()
        self._writable.set()
        self._greeted: asyncio.Future[Greeting | OnceqError] = self._loop.create_future()
        self.greeting = Greeting("", b"", 0)

    @classmethod
    async def connect(
        cls, address: Address, timeout: float, *, credentials: Credentials | None = None
    ) -> AsyncLink:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion, AccessDenied.

        Args:
            credentials: What it shows; None: what the environment says.
        """
        link = cls(address, credentials)
        try:
            context = link._shown.context() if address.tls else None
            async with asyncio.timeout(timeout):
                if address.path:
                    await link._loop.create_unix_connection(lambda: link, address.path)
                else:
                    await link._loop.create_connection(
                        lambda: link, address.host, address.port, ssl=context
                    )
                said = await link._greeted
        except (OSError, TimeoutError) as error:
            link.close()
            why = "no answer" if isinstance(error, TimeoutError) else ""
            raise address.unreachable(error, why) from error
        except BaseException:
            link.close()
            raise
        if isinstance(said, OnceqError):
            link.close()
            raise said
        link.greeting = said
        return link

    # ---- whether it lives -----------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """See Link."""
        return self._lost is None

    async def look(self) -> bool:
        """See Link. If there is something to read, a few turns of the loop let it be noticed that
        the other side is gone, or says that it stops."""
        if self._lost is None and self._poll.poll(0):
            for _ in range(LOOK_TURNS):
                await asyncio.sleep(0)
        return self._lost is None

    def _lose(self, text: str, kind: type[ServiceNotAvailable] = LinkLost) -> None:
        """See SocketLink."""
        if self._lost is None:
            self._lost = kind(text)
        self._poll = select.poll()  # its descriptor may be another connection's soon
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_result(kind(text))
        if not self._greeted.done():
            self._greeted.set_result(ManagerAway(text))
        if self._transport is not None:
            self._transport.close()

    def _ungreeted(self, error: Exception | None) -> None:
        """The other side has ended the connection; perhaps before it said who it is."""
        if self._greeted.done():
            return
        said: OnceqError
        if isinstance(error, ssl.SSLError):
            said = self._address.unreachable(error)
        else:
            said = self._address.broke_at_once(error) if error else self._address.closed_at_once()
        self._greeted.set_result(said)

    def close(self) -> None:
        """See Link."""
        self._lose("this side closed the connection")

    # ---- calling --------------------------------------------------------------------------

    async def call(self, request: Request) -> object:
        """See Link."""
        if request.ticket is None:
            await self._writable.wait()
            if self._lost is not None or self._transport is None:
                raise ManagerAway(str(self._lost))
            self._write(request)
            if not request.waits:
                return None
        future: asyncio.Future[object] = request.ticket[1]
        given_up = request.to_give_up
        try:
            # Shielded: the answer may bring messages, which must not be lost with the task.
            result = await (asyncio.shield(future) if given_up is request else future)
        except asyncio.CancelledError:
            if given_up is not None:
                await self._give_up(given_up)
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, OnceqError):
            raise result
        return result

    def _write(self, request: Request) -> None:
        pieces = self._numbered(request)
        if request.behind is not None:
            pieces += self._numbered(request.behind)
        self._held += pieces
        if not request.lazy and self._transport is not None:
            held, self._held = self._held, []
            self._transport.writelines(held)

    def _numbered(self, request: Request) -> list[Buffer]:
        """A request as bytes; if it waits, its answer will be found by its ticket."""
        if not request.waits:
            return written(0, request.asked)
        number = self._number = self._number % 0xFFFF_FFFF + 1
        pieces = written(number, request.asked)
        future: asyncio.Future[object] = self._loop.create_future()
        request.ticket = number, future
        self._waiting[number] = (future, request)
        return pieces

    async def _give_up(self, request: Request) -> None:
        """The task that receives was cancelled: end the wait at the manager too.

        It is awaited, so that what had been taken by then is back in reach of the next receive
        when the cancelling is over. A manager that does not answer is not waited for.
        """
        number, future = request.ticket
        try:
            if not future.done() and self._lost is None:
                self._write(Request(requests.CancelReceive(number), waits=False))
                await asyncio.wait([future], timeout=CANCEL_S_MAX)
        finally:
            if future.done():
                request.missed(future.result())
            else:
                future.cancel()  # The answer will find nobody, and be kept when it comes.

    # ---- asyncio --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        own = self._transport = cast(asyncio.Transport, transport)
        if self._lost is not None:
            own.abort()
            return
        own.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        plain = own.get_extra_info("socket")
        self._poll.register(plain.fileno(), select.POLLIN)
        if not self._address.path:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self._hello = self._greets(own)
        except OnceqError as error:
            self._greeted.set_result(error)
            own.abort()
            return
        own.writelines(frames.frame(1, Code.HELLO, self._hello.head))

    def _greets(self, own: asyncio.Transport) -> Hello:
        """What to say first; raises OnceqError."""
        tls = own.get_extra_info("ssl_object")
        if tls is not None:
            check_protocol(self._address, tls.selected_alpn_protocol())
        proof = tls.getpeercert() if tls is not None else None
        peer = own.get_extra_info("peername")
        where = str(peer[0]) if isinstance(peer, tuple) else ""
        return self._shown.greeting(self._address, where, proof)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        try:
            for number, code, head, rest in self._parser.feed(data):
                self._take(number, code, head, rest)
        except OnceqError as error:
            self._lose(f"the connection to {self._address} broke: {error}")

    def _take(self, number: int, code: int, head: memoryview, rest: memoryview) -> None:
        if not self._greeted.done():
            if code & FAILED or code == Code.HELLO | ANSWER:
                self._greeted.set_result(self._heard(code, head))
            return
        if number == 0:
            error = failure(head)
            if isinstance(error, ServiceNotAvailable):
                self._lose(error.text, ManagerAway)  # behind the last answer
            else:
                self._lose(f"the queue manager ended the connection: {error}")
            return
        future, request = self._waiting.pop(number, (None, None))
        if future is None or request is None:
            return
        try:
            result = decode(request.kind, code, head, rest)
        except OnceqError as error:
            result = error
        if future.done():
            request.missed(result)
        else:
            future.set_result(result)

    def _heard(self, code: int, head: memoryview) -> Greeting | OnceqError:
        """What answers the hello; raises MalformedPacket."""
        assert self._hello is not None, "it was said"
        if code & FAILED:
            return self._hello.refused(failure(head))
        try:
            return self._hello.accepted(greeting(head))
        except UnknownVersion as error:
            return error

    def pause_writing(self) -> None:
        """See asyncio."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._writable.set()

    def eof_received(self) -> None:
        """See asyncio."""
        self._ungreeted(None)
        self._lose(f"the queue manager at {self._address} closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._ungreeted(exc)
        self._lose(f"the connection to {self._address} broke" + (f": {exc}" if exc else ""))
