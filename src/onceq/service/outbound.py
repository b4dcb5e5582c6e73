"""Connections to other queue managers: where each is, by which door, and the result.

An address is looked up in the address book of the configuration, then in the directory, then by the
system. A failure to connect is reported, with a reason for people; the core tries again by itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Protocol

from onceq.errors import OnceqError
from onceq.model.addresses import AddressBook, address_of, leads_home
from onceq.model.directory import Snapshot
from onceq.model.http import DEFAULT_PORTS
from onceq.model.identity import guid_text
from onceq.model.resultcodes import ConnectionStatus
from onceq.service import config, wires
from onceq.service.admission import Admission, Kind
from onceq.service.config import split_address
from onceq.service.listening import addresses
from onceq.service.peer_transports import Doors, said, status_of
from onceq.service.wires import PeerWire

PORT = 1801
CONNECT_S_MAX = 10.0
"""Seconds after which a connection attempt counts as failed."""


Reach = Coroutine[None, None, None]
Homes = tuple[str, ...] | None
"""The homes of ``core/decision.Connect``."""
ASTRAY = (
    "is not where the sender is: what waits here are answers, which go home, or where their sender "
    "was granted send (onceq grant peer:GUID send 'direct=...')"
)


class Host(wires.Host, Protocol):
    """The part of the network that outgoing connections use."""

    doors: Doors
    admission: Admission


class Reaching:
    """Makes the connections of one network."""

    def __init__(self, host: Host, peers: Mapping[str, str], authorities: str) -> None:
        """Prepare, with the arguments of ``AsyncNetwork``."""
        self._host = host
        self._book = AddressBook()
        self.reconfigure(peers, authorities)
        self._tasks: set[asyncio.Task[None]] = set()

    def reconfigure(self, peers: Mapping[str, str], authorities: str) -> None:
        """Use this address book, and these certificates, for connections from now on."""
        self._book = AddressBook.of(peers, self._book.known)
        self.hosts = {split_address(where, PORT)[0] for where in peers.values()}
        """Hosts that the address book names."""
        self._authorities = authorities

    def stop(self) -> None:
        """Stop connecting."""
        for task in self._tasks:
            task.cancel()

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Connect to another queue manager for an outgoing queue. Runs in the loop."""
        task = self._host.loop.create_task(self._connecting(outgoing, protocol, host, peer, homes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def learn(self, snapshot: Snapshot) -> None:
        """Take addresses of queue managers from the directory; the configured address book goes
        before."""
        self._book.known = snapshot.endpoints()

    async def _connecting(
        self, outgoing: int, protocol: str, host: str, peer: bytes, homes: Homes
    ) -> None:  # fmt: skip
        if protocol in ("HTTP", "HTTPS"):
            await self._connecting_http(outgoing, protocol, host, homes)
            return
        name = host if protocol else guid_text(peer)
        where, _ = self._book.find(name)
        if not where and not protocol:
            self._failed(
                outgoing,
                f"no address is known for queue manager {name}",
                ConnectionStatus.NO_ROUTING_DATA,
            )
            return
        address, port = split_address(where, PORT) if where else (host, PORT)
        wire = PeerWire(self._host, outgoing)
        await self._make(
            wire, name, (address, port), lambda: self._reach(wire, address, port, homes)
        )

    async def _connecting_http(
        self, outgoing: int, protocol: str, host: str, homes: Homes
    ) -> None:  # fmt: skip
        if not config.available():
            reason = "messages over HTTP need the library h11: pip install 'onceq[http]'"
            self._failed(outgoing, reason, ConnectionStatus.CONNECT_FAILURE)
            return
        name, port = split_address(host, int(DEFAULT_PORTS[protocol.lower()]))
        where = self._book.peers.get(f"{protocol}://{host}".casefold())
        address, at = split_address(where, port) if where is not None else (name, port)
        wire = PeerWire(self._host, outgoing, http=True)
        secure = name if protocol == "HTTPS" else None
        post = partial(self._post, wire, address, at, secure, homes)
        await self._make(wire, host, (address, at), post)

    async def _make(
        self, wire: PeerWire, name: str, where: tuple[str, int], reach: Callable[[], Reach]
    ) -> None:
        """Make a connection; a failure is reported.

        Args:
            name: The name of the other side in the reason.
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

    async def _post(
        self, wire: PeerWire, host: str, port: int, secure: str | None, homes: Homes
    ) -> None:  # fmt: skip
        """Connect for HTTP; ``secure`` is the name that the certificate must have, in TLS."""
        context = None
        if secure is not None:
            context = config.client_context(self._authorities, self._host.doors.files)
        await self._first(wire, host, port, homes, lambda address: (context, secure))

    async def _reach(self, wire: PeerWire, host: str, port: int, homes: Homes) -> None:
        """Connect by the first address that takes us; raises OSError, UnicodeError."""

        def door(address: str) -> tuple[ssl.SSLContext | None, str | None]:
            found = self._host.doors.way_out(address)
            if isinstance(found, str):
                raise OSError(found)
            return found, None if found is None else ""

        await self._first(wire, host, port, homes, door)

    async def _first(
        self, wire: PeerWire, host: str, port: int, homes: Homes,
        door: Callable[[str], tuple[ssl.SSLContext | None, str | None]],
    ) -> None:  # fmt: skip
        """Connect to the first address of a host that takes us. It is the address that was judged:
        the name is not looked up again, so that nobody changes its meaning in between.

        Args:
            door: Returns TLS and the name in the certificate for an address; raises OSError.
        """
        make = self._host.loop.create_connection
        last: OSError | None = None
        for _, to in await addresses(self._host.loop, host, port):
            try:
                if not leads_home(homes, to[0]) or (homes is not None and _is_own(to[0], homes)):
                    raise OSError(f"{to[0]} {ASTRAY}")
                context, named = door(to[0].partition("%")[0])
                await make(lambda: wire, *to[:2], ssl=context, server_hostname=named)
                return
            except OSError as error:
                last = error
                if wire.seen:
                    break
        raise last or OSError("it has no address")

    def _failed(self, outgoing: int, reason: str, status: ConnectionStatus) -> None:
        sessions = self._host.engine.sessions
        self._host.use(None, lambda: sessions.connect_failed(outgoing, reason, status))


def _is_own(address: str, homes: tuple[str, ...]) -> bool:
    """Return True if an address belongs to this computer and no sender has come from it."""
    if address_of(address) in homes:
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
