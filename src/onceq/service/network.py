"""The network of one queue manager, on an event loop: who listens, who connects, who is let in.

Other managers and applications over TCP, applications over a Unix socket. What the callbacks do
with the engine goes through a *gate*, because the engine may belong to other threads (embedded)
or to this loop alone (daemon).

Upholds: I24 (connections are counted, and those above the limit are turned away).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from onceq.errors import ConfigurationError, PortInUse
from onceq.model.connection import ConnectionStatus
from onceq.model.directory import Snapshot
from onceq.model.http import DEFAULT_PORTS
from onceq.model.identity import guid_text
from onceq.model.limits import CONNECTIONS_MAX
from onceq.service import web
from onceq.service.config import split_address
from onceq.service.logs import event
from onceq.service.wires import CLOSE_S_MAX, ClientWire, PeerWire, Wire

if TYPE_CHECKING:
    from onceq.service.engine import Engine

log = logging.getLogger("onceq")

__all__ = ["AsyncNetwork", "Gate", "split_address"]

PORT = 1801
CONNECT_S_MAX = 10.0
"""A connection that is not there by then counts as failed."""
BACKLOG = 1_024
"""Connections that may wait to be accepted."""
SOCKET_PATH_BYTES_MAX = 107
"""The system's limit for the path of a Unix socket."""


class Gate(Protocol):
    """How callbacks get to the engine."""

    def run(self, work: Callable[[], None]) -> None:
        """Let ``work`` use the engine, then see to it that the engine is pumped."""

    def failed(self, error: BaseException) -> None:
        """The engine has stopped because of this."""


class AsyncNetwork:
    """Listens and connects for one engine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        gate: Gate,
        peers: Mapping[str, str],
        authorities: str = "",
    ) -> None:
        """Prepare.

        Args:
            peers: Address book: computer name, address or GUID (any case), or ``http://host``, to
                "host:port".
            authorities: File of certificates against which HTTPS servers are checked.
        """
        self.loop = loop
        self.gate = gate
        self.engine: Engine
        self._peers = {name.strip("{}").casefold(): where for name, where in peers.items()}
        self._authorities = authorities
        self._known: dict[str, str] = {}
        """What the directory says of where queue managers take connections."""
        self._servers: list[asyncio.AbstractServer] = []
        self._open: dict[Wire, None] = {}
        self._accepted: Counter[str] = Counter()
        self._full: set[str] = set()
        self._to_write: deque[Wire] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Event | None = None

    # ---- for wires --------------------------------------------------------------------------

    def in_loop(self, work: Callable[[], None]) -> None:
        """Do something in the loop's thread: now if this is it."""
        try:
            here = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            here = False
        if here:
            work()
        else:
            # A loop that was closed meanwhile has no connections that would miss it.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(work)

    def use(self, wire: Wire | None, work: Callable[[], None]) -> None:
        """Let something that happened (on a wire) use the engine."""
        try:
            self.gate.run(work)
        except Exception as error:
            log.exception("a mistake of ours; the connection that it concerns is cut")
            if self.engine.stopped:
                self.gate.failed(error)
            elif wire is not None:
                wire.abort()

    def will_write(self, wire: Wire) -> None:
        """Something is to be written on a wire when ``say`` is called. Any thread may call."""
        if not wire.queued:
            wire.queued = True
            self._to_write.append(wire)

    def say(self) -> None:
        """Write, in the loop, what was queued on any wire. Any thread may call."""
        if self._to_write:
            self.in_loop(self._flush)

    def _flush(self) -> None:
        while self._to_write:
            self._to_write.popleft().flush()

    def admit(self, wire: Wire) -> bool:
        """Count a connection that was accepted; False if there are too many of its kind."""
        if self.engine.stopped:
            return False
        if not (isinstance(wire, PeerWire) and wire.outgoing):
            if self._accepted[wire.kind] >= CONNECTIONS_MAX:
                if wire.kind not in self._full:
                    self._full.add(wire.kind)
                    event(
                        "too many connections: turned away", level=logging.WARNING,
                        of=wire.kind, most=CONNECTIONS_MAX,
                    )  # fmt: skip
                return False
            self._accepted[wire.kind] += 1
        self._open[wire] = None
        return True

    def dismiss(self, wire: Wire) -> None:
        """A connection that was admitted is gone."""
        del self._open[wire]
        if not (isinstance(wire, PeerWire) and wire.outgoing):
            self._accepted[wire.kind] -= 1
            self._full.discard(wire.kind)
        if self._empty is not None and not self._open:
            self._empty.set()

    # ---- listening --------------------------------------------------------------------------

    async def listen_peers(self, where: str) -> str:
        """Accept other managers at "host:port"; returns the address with its real port."""
        host, port = split_address(where, PORT)
        return await self._listen(lambda: PeerWire(self, 0), host, port)

    async def listen_http(self, where: str, context: ssl.SSLContext | None) -> str:
        """Accept messages over HTTP at "host:port"; returns the address with its real port."""
        host, port = split_address(where, None)
        return await self._listen(lambda: PeerWire(self, 0, http=True), host, port, context)

    async def listen_clients(self, where: str) -> str:
        """Accept applications over TCP at "host:port"; returns the address with its real port."""
        host, port = split_address(where, None)
        return await self._listen(lambda: ClientWire(self), host, port)

    async def _listen(
        self, factory: Callable[[], Wire], host: str, port: int,
        context: ssl.SSLContext | None = None,
    ) -> str:  # fmt: skip
        try:
            server = await self.loop.create_server(
                factory, host, port, backlog=BACKLOG, ssl=context
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"{host}:{port} is in use by another process; stop that one or choose "
                    "another address with 'listen'"
                ) from error
            raise ConfigurationError(f"cannot listen at {host}:{port}: {_said(error)}") from error
        self._servers.append(server)
        real = server.sockets[0].getsockname()
        return f"[{real[0]}]:{real[1]}" if ":" in real[0] else f"{real[0]}:{real[1]}"

    async def listen_socket(self, path: str) -> None:
        """Accept applications at a Unix socket that only its owner may use."""
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            raise ConfigurationError(
                f"{path} is longer than the {SOCKET_PATH_BYTES_MAX} bytes that the system allows "
                "for a socket; move the data directory to a shorter path"
            )
        old = os.umask(0o177)
        try:
            if os.path.exists(path):
                os.unlink(path)
            server = await self.loop.create_unix_server(
                lambda: ClientWire(self), path, backlog=BACKLOG
            )
        except OSError as error:
            raise ConfigurationError(f"cannot make the socket {path}: {_said(error)}") from error
        finally:
            os.umask(old)
        self._servers.append(server)

    # ---- the end ------------------------------------------------------------------------------

    def stop_listening(self) -> None:
        """Accept nobody any more, and connect to nobody."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for task in self._tasks:
            task.cancel()

    def cancel_waiting(self) -> None:
        """Tell applications whose receives still wait that this manager stops in order."""
        for wire in self._open:
            if isinstance(wire, ClientWire) and wire.api is not None:
                wire.api.stop()

    async def shut(self) -> None:
        """Send what was said, and close every connection; those that hang are cut."""
        self.stop_listening()
        for wire in list(self._open):
            wire.close()
        self._flush()
        self._empty = asyncio.Event()
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._empty.wait()
        for wire in list(self._open):
            wire.abort()
        await asyncio.sleep(0)

    # ---- connecting ---------------------------------------------------------------------------

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        """See Network."""
        self.in_loop(lambda: self._connect(outgoing, protocol, host, peer))

    def _connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        task = self.loop.create_task(self._connecting(outgoing, protocol, host, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def learn(self, snapshot: Snapshot) -> None:
        """The directory says where queue managers are; the configured address book goes before."""
        self._known = {
            name.casefold(): computer.endpoint
            for computer in snapshot.computers
            if computer.endpoint
            for name in (computer.name, guid_text(computer.guid), *computer.addresses)
        }

    async def _connecting(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        if protocol in ("HTTP", "HTTPS"):
            await self._connecting_http(outgoing, protocol, host)
            return
        name = host if protocol else guid_text(peer)
        where = self._peers.get(name.casefold()) or self._known.get(name.casefold())
        if where is None and not protocol:
            self._failed(
                outgoing,
                f"no address is known for queue manager {name}",
                ConnectionStatus.NO_ROUTING_DATA,
            )
            return
        address, port = split_address(where, PORT) if where is not None else (host, PORT)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self.loop.create_connection(lambda: PeerWire(self, outgoing), address, port)
        except (OSError, TimeoutError, UnicodeError) as error:
            self._failed(outgoing, f"{name} at {address}:{port}: {_said(error)}", _status(error))

    async def _connecting_http(self, outgoing: int, protocol: str, host: str) -> None:
        if not web.available():
            reason = "messages over HTTP need the library h11: pip install 'onceq[http]'"
            self._failed(outgoing, reason, ConnectionStatus.CONNECT_FAILURE)
            return
        name, port = split_address(host, int(DEFAULT_PORTS[protocol.lower()]))
        where = self._peers.get(f"{protocol}://{host}".casefold())
        address, at = split_address(where, port) if where is not None else (name, port)
        try:
            context = web.client_context(self._authorities) if protocol == "HTTPS" else None
            async with asyncio.timeout(CONNECT_S_MAX):
                await self.loop.create_connection(
                    lambda: PeerWire(self, outgoing), address, at, ssl=context,
                    server_hostname=name if context is not None else None,
                )  # fmt: skip
        except (OSError, TimeoutError, UnicodeError) as error:
            self._failed(outgoing, f"{host} at {address}:{at}: {_said(error)}", _status(error))

    def _failed(self, outgoing: int, reason: str, status: ConnectionStatus) -> None:
        self.use(None, lambda: self.engine.connect_failed(outgoing, reason, status))


def _status(error: Exception) -> ConnectionStatus:
    """How an attempt to connect failed (Q-10)."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionStatus.REFUSED
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return ConnectionStatus.NAME_RESOLUTION_FAILURE
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
        return ConnectionStatus.LOW_RESOURCES
    return ConnectionStatus.CONNECT_FAILURE


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error)
