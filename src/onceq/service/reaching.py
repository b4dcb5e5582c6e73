"""Connections to other queue managers: where each is, by which door, and what comes of it.

An address is looked up in the address book of the configuration, then in the directory, then by the
system. Whatever keeps a connection from being made is reported, with a reason for people; the core
tries again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Protocol

from onceq.errors import OnceqError
from onceq.model.connection import ConnectionStatus
from onceq.model.directory import Snapshot
from onceq.model.http import DEFAULT_PORTS
from onceq.model.identity import guid_text
from onceq.service import web, wires
from onceq.service.admission import Admission, Kind
from onceq.service.config import split_address
from onceq.service.doors import Doors
from onceq.service.listening import addresses
from onceq.service.reasons import said, status_of
from onceq.service.wires import PeerWire

PORT = 1801
CONNECT_S_MAX = 10.0
"""A connection that is not there by then counts as failed."""


Reach = Coroutine[None, None, None]


class Host(wires.Host, Protocol):
    """The network, as it is used here."""

    doors: Doors
    admission: Admission


class Reaching:
    """Makes the connections of one network."""

    def __init__(self, host: Host, peers: Mapping[str, str], authorities: str) -> None:
        """Prepare; see ``AsyncNetwork``."""
        self._host = host
        self.reconfigure(peers, authorities)
        self._known: dict[str, str] = {}
        """What the directory says of where queue managers take connections."""
        self._tasks: set[asyncio.Task[None]] = set()

    def reconfigure(self, peers: Mapping[str, str], authorities: str) -> None:
        """Use this address book, and these certificates, for connections from now on."""
        # GUIDs are written with and without braces, names in any case.
        self._peers = {name.strip("{}").casefold(): where for name, where in peers.items()}
        self.hosts = {split_address(where, PORT)[0] for where in peers.values()}
        """Those that the address book names."""
        self._authorities = authorities

    def stop(self) -> None:
        """Connect to nobody any more."""
        for task in self._tasks:
            task.cancel()

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        """See Network; in the loop."""
        task = self._host.loop.create_task(self._connecting(outgoing, protocol, host, peer))
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
        wire = PeerWire(self._host, outgoing)
        await self._make(wire, name, (address, port), lambda: self._reach(wire, address, port))

    async def _connecting_http(self, outgoing: int, protocol: str, host: str) -> None:
        if not web.available():
            reason = "messages over HTTP need the library h11: pip install 'onceq[http]'"
            self._failed(outgoing, reason, ConnectionStatus.CONNECT_FAILURE)
            return
        name, port = split_address(host, int(DEFAULT_PORTS[protocol.lower()]))
        where = self._peers.get(f"{protocol}://{host}".casefold())
        address, at = split_address(where, port) if where is not None else (name, port)
        wire = PeerWire(self._host, outgoing, http=True)
        secure = name if protocol == "HTTPS" else None
        await self._make(wire, host, (address, at), lambda: self._post(wire, address, at, secure))

    async def _make(
        self, wire: PeerWire, name: str, where: tuple[str, int], reach: Callable[[], Reach]
    ) -> None:
        """Make a connection; one that cannot be made is reported.

        Args:
            name: What the reason calls the other side.
        """
        outgoing, (address, port) = wire.outgoing, where
        # Number 0: there is no descriptor yet, and connections that we make count by their number
        # alone.
        found = self._host.admission.enter(Kind.MADE, address, 0, wire.abort)
        if isinstance(found, str):
            self._failed(outgoing, f"{name}: {found}", ConnectionStatus.LOW_RESOURCES)
            return
        wire.place = found
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await reach()
        except (OSError, TimeoutError, UnicodeError, OnceqError) as error:
            self._failed(outgoing, f"{name} at {address}:{port}: {said(error)}", status_of(error))
        finally:
            if not wire.seen:
                self._host.admission.leave(found)

    async def _post(self, wire: PeerWire, host: str, port: int, secure: str | None) -> None:
        """Connect for HTTP; ``secure``: whose certificate it must be, in TLS."""
        context = None
        if secure is not None:
            context = web.client_context(self._authorities, self._host.doors.files)
        await self._host.loop.create_connection(
            lambda: wire, host, port, ssl=context, server_hostname=secure
        )

    async def _reach(self, wire: PeerWire, host: str, port: int) -> None:
        """Connect by the first address that takes us; raises OSError, UnicodeError."""
        make = self._host.loop.create_connection
        last: OSError | None = None
        for _, to in await addresses(self._host.loop, host, port):
            door = self._host.doors.way_out(to[0].partition("%")[0])
            try:
                if isinstance(door, str):
                    raise OSError(door)
                named = None if door is None else ""
                await make(lambda: wire, *to[:2], ssl=door, server_hostname=named)
                return
            except OSError as error:
                last = error
                if wire.seen:
                    break
        raise last or OSError("it has no address")

    def _failed(self, outgoing: int, reason: str, status: ConnectionStatus) -> None:
        sessions = self._host.engine.sessions
        self._host.use(None, lambda: sessions.connect_failed(outgoing, reason, status))
