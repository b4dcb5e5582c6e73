"""Connections over TCP and Unix sockets, on asyncio; for peers and for applications.

Protocols, not streams: bytes go from the socket to the session with no task between. What the
callbacks do goes through a *gate*, because the engine may belong to other threads (embedded) or
to this loop alone (daemon).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from onceq.errors import ConfigurationError, PortInUse
from onceq.model.identity import guid_text
from onceq.model.limits import CONNECTIONS_MAX
from onceq.model.run import Buffer
from onceq.service.api import ApiConnection

if TYPE_CHECKING:
    from onceq.service.engine import Engine

PORT = 1801
HIGH_WATER_BYTES = 4 << 20
"""Bytes waiting to be sent to one peer; no more is asked for above."""
CONNECT_S_MAX = 10.0
"""A connection that is not there by then counts as failed."""


class Gate(Protocol):
    """How callbacks get to the engine."""

    def run(self, work: Callable[[], None]) -> None:
        """Let ``work`` use the engine, then see to it that the engine is pumped."""


class PeerProtocol(asyncio.Protocol):
    """One connection with another queue manager."""

    def __init__(self, network: AsyncNetwork, outgoing: int) -> None:
        self._network = network
        self._outgoing = outgoing
        self._transport: asyncio.Transport | None = None
        self._session = 0
        self._blocked = False
        self._closing = False

    @property
    def writable(self) -> bool:
        """See Connection."""
        return not self._blocked and not self._closing

    def write(self, pieces: Sequence[Buffer]) -> None:
        """See Connection. May be called from the thread that pumps."""
        self._network.in_loop(lambda: self._write(pieces))

    def _write(self, pieces: Sequence[Buffer]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def close(self) -> None:
        """See Connection."""
        self._closing = True
        self._network.in_loop(self._close)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else "local"
        if not self._network.admit(self):
            self._transport.abort()
            return

        def begin() -> None:
            engine = self._network.engine
            if self._outgoing:
                self._session = engine.connected(self._outgoing, self, address)
            else:
                self._session = engine.accepted(self, address)

        self._network.gate.run(begin)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._network.gate.run(lambda: self._network.engine.data(self._session, data))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._network.dismiss(self)
        reason = f"connection lost: {exc}" if exc else "the other side closed the connection"
        if self._session:
            self._network.gate.run(lambda: self._network.engine.closed(self._session, reason))

    def pause_writing(self) -> None:
        """See asyncio."""
        self._blocked = True

    def resume_writing(self) -> None:
        """See asyncio."""
        self._blocked = False
        self._network.gate.run(lambda: self._network.engine.writable(self._session))


class ClientProtocol(asyncio.Protocol):
    """One connection of an application."""

    def __init__(self, network: AsyncNetwork) -> None:
        self._network = network
        self._api: ApiConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        own = cast(asyncio.Transport, transport)
        if not self._network.admit(self):
            own.abort()
            return
        self._api = ApiConnection(self._network.engine, own, random=os.urandom)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        api = self._api
        if api is not None:
            self._network.gate.run(lambda: api.data_received(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._network.dismiss(self)
        api = self._api
        if api is not None:
            self._network.gate.run(api.connection_lost)

    def pause_writing(self) -> None:
        """See asyncio."""
        if self._api is not None:
            self._api.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._api is not None:
            self._api.resume_writing()


class AsyncNetwork:
    """Listens and connects for one engine."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, gate: Gate, peers: Mapping[str, str]
    ) -> None:
        """Prepare.

        Args:
            peers: Address book: computer name, address or GUID (any case) to "host:port".
        """
        self.loop = loop
        self.gate = gate
        self.engine: Engine
        self._peers = {name.casefold(): where for name, where in peers.items()}
        self._servers: list[asyncio.AbstractServer] = []
        self._open: set[object] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def in_loop(self, work: Callable[[], None]) -> None:
        """Do something in the loop's thread: now if this is it."""
        try:
            here = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            here = False
        if here:
            work()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(work)

    def admit(self, connection: object) -> bool:
        """Count a connection; False if there are too many."""
        if len(self._open) >= 2 * CONNECTIONS_MAX:
            return False
        self._open.add(connection)
        return True

    def dismiss(self, connection: object) -> None:
        """A connection is gone."""
        self._open.discard(connection)

    # ---- listening ------------------------------------------------------------------------

    async def listen_peers(self, where: str) -> str:
        """Accept other managers at "host:port"; returns the address with its real port."""
        host, port = split_address(where, PORT)
        return await self._listen(lambda: PeerProtocol(self, 0), host, port)

    async def listen_clients(self, where: str) -> str:
        """Accept applications over TCP at "host:port"."""
        host, port = split_address(where, None)
        return await self._listen(lambda: ClientProtocol(self), host, port)

    async def _listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> str:
        try:
            server = await self.loop.create_server(factory, host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"{host}:{port} is in use by another process; stop that one or choose "
                    "another address with 'listen'"
                ) from error
            raise ConfigurationError(f"cannot listen at {host}:{port}: {error}") from error
        self._servers.append(server)
        real = server.sockets[0].getsockname()
        return f"{real[0]}:{real[1]}"

    async def listen_socket(self, path: str) -> None:
        """Accept applications at a Unix socket that only its owner may use."""
        if os.path.exists(path):
            os.unlink(path)
        old = os.umask(0o177)
        try:
            server = await self.loop.create_unix_server(lambda: ClientProtocol(self), path)
        except OSError as error:
            raise ConfigurationError(f"cannot make the socket {path}: {error}") from error
        finally:
            os.umask(old)
        self._servers.append(server)

    def stop_listening(self) -> None:
        """Accept nobody any more."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    # ---- connecting -----------------------------------------------------------------------

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        """See Network."""
        self.in_loop(lambda: self._connect(outgoing, protocol, host, peer))

    def _connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        task = self.loop.create_task(self._connecting(outgoing, protocol, host, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connecting(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        name = host if protocol else guid_text(peer)
        where = self._peers.get(name.casefold())
        if where is None and not protocol:
            self._failed(outgoing, f"no address is known for queue manager {name}")
            return
        address, port = split_address(where, PORT) if where is not None else (host, PORT)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self.loop.create_connection(
                    lambda: PeerProtocol(self, outgoing), address, port
                )
        except (OSError, TimeoutError) as error:
            said = "no answer" if isinstance(error, TimeoutError) else _said(error)
            self._failed(outgoing, f"{name} at {address}:{port}: {said}")

    def _failed(self, outgoing: int, reason: str) -> None:
        self.gate.run(lambda: self.engine.connect_failed(outgoing, reason))


def _said(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)).lower()


def split_address(where: str, port: int | None) -> tuple[str, int]:
    """Host and port of "host:port", "host" or "[v6]:port"; raises ConfigurationError."""
    host, separator, tail = where.rpartition(":")
    if not separator or tail.endswith("]"):
        host, tail = where, "" if port is None else str(port)
    if not tail.isdigit() or int(tail) > 65535 or not host:
        raise ConfigurationError(f"{where!r} is not an address such as 127.0.0.1:1801")
    return host.strip("[]"), int(tail)
