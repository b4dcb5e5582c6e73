"""The network of one queue manager, on an event loop: it listens, connects and admits.

It finds where other managers are, connects to them, and reports why an attempt has failed.

Other managers and applications connect over TCP, applications also over a Unix socket. Callbacks
use the engine through a *gate*, because the engine may belong to other threads (embedded) or to
this loop alone (daemon).

Upholds: I24 (connections are counted, and those above the limits are turned away).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import logging
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from onceq.errors import ConfigurationError, OnceqError, PortInUse
from onceq.model.addresses import AddressBook, address_of, leads_home
from onceq.model.directory import Snapshot
from onceq.model.http import DEFAULT_PORTS
from onceq.model.identity import guid_text
from onceq.model.limits import HANDSHAKE_S_MAX, SPARE_DESCRIPTORS
from onceq.model.resultcodes import ConnectionStatus
from onceq.service import config, wires
from onceq.service.admission import LOCAL, Admission, Budget, Kind
from onceq.service.config import split_address
from onceq.service.engine import Engine
from onceq.service.listening import Listener, addresses, bound, bound_for_owner
from onceq.service.membership import Membership
from onceq.service.peer_transports import Doors, Entrance, at_socket, describe_error, status_of
from onceq.service.wires import CLOSE_S_MAX, ClientWire, PeerWire, Wire
from onceq.store.files import SPARES
from onceq.tls.invitations import Granting, Signed

# ---- outbound ------------------------------------------------------------------------------------
#
# Connections to other queue managers: where each is, by which door, and the result.


PORT = 1801
CONNECT_S_MAX = 10.0
"""Seconds after which a connection attempt counts as failed."""


Homes = tuple[str, ...] | None
"""The homes of ``core/decision.Connect``."""
ASTRAY = (
    "is not where the sender is: what waits here are answers, which go home, or where their sender "
    "was granted send (onceq grant peer:GUID send 'direct=...')"
)


class OutgoingNetwork(wires.WireNetwork, Protocol):
    """The part of the network that outgoing connections use."""

    doors: Doors
    admission: Admission


class Reaching:
    """Makes the connections of one network."""

    def __init__(self, host: OutgoingNetwork, peers: Mapping[str, str]) -> None:
        """Prepare, with the arguments of ``AsyncNetwork``."""
        self._host = host
        self._book = AddressBook()
        self.reconfigure(peers)
        self._tasks: set[asyncio.Task[None]] = set()

    def reconfigure(self, peers: Mapping[str, str]) -> None:
        """Use this address book for connections from now on."""
        self._book = AddressBook.of(peers, self._book.known)
        self.hosts = {split_address(where, PORT)[0] for where in peers.values()}
        """Hosts that the address book names."""

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
        """Make a connection; a failure is reported."""
        http, port = protocol in ("HTTP", "HTTPS"), PORT
        name = host if protocol else guid_text(peer)
        if http and not config.available():
            reason = "messages over HTTP need the library h11: pip install 'onceq[http]'"
            self._failed(outgoing, reason, ConnectionStatus.CONNECT_FAILURE)
            return
        if http:
            host, port = split_address(host, int(DEFAULT_PORTS[protocol.lower()]))
            where = self._book.peers.get(f"{protocol}://{name}".casefold(), "")
        else:
            where, _ = self._book.find(name)
        if not where and not protocol:
            reason = f"no address is known for queue manager {name}"
            self._failed(outgoing, reason, ConnectionStatus.NO_ROUTING_DATA)
            return
        address, port = split_address(where, port) if where else (host, port)
        wire = PeerWire(self._host, outgoing, http=http)
        # Number 0: there is no descriptor yet, and connections that we make count by their number
        # alone.
        found = self._host.admission.enter(Kind.MADE, address, 0, wire.abort)
        if isinstance(found, str):
            self._failed(outgoing, f"{name}: {found}", ConnectionStatus.LOW_RESOURCES)
            return
        wire.place = found
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._reach(wire, (address, port), protocol, host, homes)
        except (OSError, TimeoutError, UnicodeError, OnceqError) as error:
            reason = describe_error(error)
            self._failed(outgoing, f"{name} at {address}:{port}: {reason}", status_of(error))
        finally:
            if not wire.seen:
                self._host.admission.leave(found)

    async def _reach(
        self, wire: PeerWire, where: tuple[str, int], protocol: str, site: str, homes: Homes
    ) -> None:
        """Connect to the first address of a host that takes us; raises OSError, UnicodeError,
        OnceqError. It is the address that was judged: the name is not looked up again, so that
        nobody changes its meaning in between.

        Args:
            site: The name that the certificate must have over HTTPS.
        """
        last: OSError | None = None
        for _, to in await addresses(self._host.loop, *where):
            try:
                if not leads_home(homes, to[0]) or (homes is not None and _is_own(to[0], homes)):
                    raise OSError(f"{to[0]} {ASTRAY}")
                context = self._host.doors.way_out(to[0].partition("%")[0], protocol)
                if isinstance(context, str):
                    raise OSError(context)
                named = None if context is None else site if protocol == "HTTPS" else ""
                await self._host.loop.create_connection(
                    lambda: wire, *to[:2], ssl=context, server_hostname=named
                )
                return
            except OSError as error:
                last = error
                if wire.seen:
                    break
        raise last or OSError("it has no address")

    def _failed(self, outgoing: int, reason: str, status: ConnectionStatus) -> None:
        sessions = self._host.engine.sessions
        self._host.use(None, lambda: sessions.connect_failed(outgoing, reason, status))


def log_unless_cut(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception that nothing awaits, unless a stop has cut a connection: an attempt that is
    cancelled before its TLS handshake leaves a future of uvloop's behind."""
    if not isinstance(context.get("exception"), ConnectionError):
        loop.default_exception_handler(context)


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


# ---- network -------------------------------------------------------------------------------------


log = logging.getLogger("onceq")


Door = Callable[[str], ssl.SSLContext | str | None]
"""For an address: its TLS context, None (no TLS), or the reason to refuse it."""


class Gate(Protocol):
    """The way of callbacks to the engine."""

    def run(self, work: Callable[[], None]) -> None:
        """Let ``work`` use the engine, then make sure that the engine is pumped."""

    def failed(self, error: BaseException) -> None:
        """Stop the manager because the engine has failed with this error."""


class AsyncNetwork:
    """Listens and connects for one engine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        gate: Gate,
        peers: Mapping[str, str],
        *,
        budget: Budget,
        doors: Doors | None = None,
    ) -> None:
        """Prepare.

        Args:
            doors: How other queue managers come in; None: there is no identity.
            budget: How many connections there may be.
            peers: Address book: computer name, address or GUID (any case), or ``http://host``, to
                "host:port".
        """
        self.loop = loop
        self.gate = gate
        self.engine: Engine
        self.doors = doors or Doors()
        self._reaching = Reaching(self, peers)
        self._listeners: list[Listener] = []
        self._open: dict[Wire, None] = {}
        self.admission = Admission(
            budget,
            lambda address: (
                address in self._reaching.hosts or address in self.engine.sessions.known
            ),
        )
        self._to_write: deque[Wire] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Event | None = None
        self._tell: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.membership = Membership(self)

    def attach(self, engine: Engine) -> None:
        """Attach the engine that this network works for."""
        self.engine = engine
        engine.rates.later = self._tell_later
        self.doors.note = engine.rates.event
        engine.answers.later = self._look_later
        SPARES.call_when_short(self._short)

    def reconfigure(self, peers: Mapping[str, str]) -> None:
        """Use this address book, and what the doors hold, for connections from now on."""
        self._reaching.reconfigure(peers)
        self.in_loop(self.judge_again)
        self.in_loop(self.membership.refresh)

    # ---- for wires --------------------------------------------------------------------------

    def in_loop(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the loop's thread: now if this is that thread."""
        if asyncio._get_running_loop() is self.loop:
            work()
            return
        try:
            self.loop.call_soon_threadsafe(work)
        except RuntimeError:
            pass  # a loop that was closed meanwhile has no connections that would miss it

    def use(self, wire: Wire | None, work: Callable[[], None]) -> None:
        """Let the handler of an event (on a wire) use the engine."""
        try:
            self.gate.run(work)
        except Exception as error:
            log.exception("a mistake of ours; the connection that it concerns is cut")
            if self.engine.stopped:
                self.gate.failed(error)
            elif wire is not None:
                wire.abort()

    def will_write(self, wire: Wire) -> None:
        """Mark a wire for the next ``say``. Any thread may call."""
        if not wire.queued:
            wire.queued = True
            self._to_write.append(wire)
            self.engine.unsaid = True

    def say(self) -> None:
        """Make the loop write everything that is queued on any wire. Any thread may call."""
        self.engine.unsaid = False
        self.in_loop(self._flush)

    def _flush(self) -> None:
        while self._to_write:
            self._to_write.popleft().flush()

    def admit(self, wire: Wire) -> bool:
        """Admit a new connection; return False if it must not stay."""
        place = wire.place
        if place is None:
            found = self.admission.enter(wire.kind, LOCAL, 0, wire.abort)
            if isinstance(found, str):
                return False
            place = wire.place = found
        # It may have been chosen to make room while its handshake was under way.
        if self.engine.stopped or wire.unwanted:
            self.admission.leave(place)
            return False
        self._open[wire] = None
        return True

    def disbelieved(self, transport: asyncio.BaseTransport | None) -> str:
        """Return the reason to reject the other side's certificate; "" if it counts or there is
        none."""
        return self.membership.disbelieved(transport)

    def judge_again(self) -> None:
        """Cut the connections whose certificates do not count any more."""
        for wire in list(self._open):
            wire.judge()

    def granting(self, transport: asyncio.BaseTransport | None, address: str) -> Granting | None:
        """Return the dialog with a client that wants a certificate; None if the client is a
        peer."""
        return self.membership.granting(transport, address)

    def granted(self, signed: Signed, address: str, say: Callable[[], None]) -> None:
        """Record a new certificate; call ``say`` once it is durable in the trail."""
        self.membership.granted(signed, address, say)
        self.engine.submit(self.doors.report())

    def dismiss(self, wire: Wire) -> None:
        """Release an admitted connection that has ended."""
        del self._open[wire]
        assert wire.place is not None, "it was admitted"
        self.admission.leave(wire.place)
        if self._empty is not None and not self._open:
            self._empty.set()

    def spoken(self, wire: Wire, *, known: bool) -> None:
        """Note that the other side has identified itself; refuse it if there is no place."""
        if wire.place is not None:
            reason = self.admission.speaks(wire.place, known=known)
            if reason:
                self.turn_away(wire, reason)

    def turn_away(self, wire: Wire, reason: str) -> None:
        """Refuse a connection."""
        if not (isinstance(wire, PeerWire) and wire.has_session):  # else the session logs it
            self._turned_away(wire.kind, wire.place.address if wire.place else "", reason)
        wire.refuse(reason)

    def _turned_away(self, kind: Kind, address: str, reason: str) -> None:
        self.engine.measuring.turned_away[kind.value] += 1
        self.engine.rates.event(
            "connection turned away", level=logging.WARNING, of=kind.value, kind=kind.value,
            address=address, reason=reason,
        )  # fmt: skip

    def _short(self) -> None:
        """Make connections give up descriptors: a spare one was used up, in any thread."""

        def relieve() -> None:
            cut = sum(self.admission.relieve() for _ in range(SPARE_DESCRIPTORS))
            self.engine.rates.event(
                "file descriptors are short", level=logging.WARNING, spares_left=len(SPARES),
                connections_cut=cut,
            )  # fmt: skip

        self.in_loop(relieve)

    def _tell_later(self, seconds: float) -> None:
        """Schedule the log line with the number of suppressed lines. Any thread may call."""

        def tell() -> None:
            self._tell = None
            self.use(None, self.engine.rates.tell)

        def begin() -> None:
            if self._tell is None:
                self._tell = self.loop.call_later(seconds, tell)

        self.in_loop(begin)

    def _look_later(self, seconds: float) -> None:
        """Schedule a check whether applications have read their answers, because others wait for
        that memory. Any thread may call."""

        def begin() -> None:
            self.loop.call_later(seconds, self._check)

        self.in_loop(begin)

    def _check(self) -> None:
        engine = self.engine
        if not engine.stopped:
            self.use(None, lambda: engine.answers.check_reading(engine.clock.read().mono_us))

    def watch_doors(self) -> None:
        """Log how others come in; each day, warn of a certificate that ends soon, or has ended."""
        if self.engine.stopped:
            return
        self.use(None, lambda: self.engine.submit(self.doors.report()))
        now_s = self.engine.clock.read().wall_s
        self.doors.tell(now_s)
        self._watch = self.loop.call_later(self.doors.again_s(now_s), self.watch_doors)

    # ---- listening --------------------------------------------------------------------------

    async def listen(self, entrance: Entrance, where: str) -> str:
        """Accept connections at "host:port"; return the address with its real port."""
        host, port = split_address(where, PORT if entrance is Entrance.PEERS else None)
        factory: Callable[[], Wire] = partial(ClientWire, self)
        if entrance in (Entrance.PEERS, Entrance.POSTS):
            factory = partial(PeerWire, self, 0, http=entrance is Entrance.POSTS)
        elif entrance is Entrance.WATCHERS:
            # Found by name: it needs a library that a plain install lacks.
            watching = importlib.import_module("onceq.service.http")
            factory = partial(watching.WatchWire, self, watching.WatchServer(self))

        def door(address: str) -> ssl.SSLContext | str | None:
            return self.doors.way_in(entrance, address, self.engine.clock.read().wall_s)

        try:
            listeners = [
                self._listener(bound(family, address), factory, door)
                for family, address in await addresses(self.loop, host, port)
            ]
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"{host}:{port} is in use by another process; stop that one or choose "
                    "another address with 'listen'"
                ) from error
            raise ConfigurationError(
                f"cannot listen at {host}:{port}: {describe_error(error)}"
            ) from error
        return listeners[0].where

    async def listen_socket(self, path: str, group: int | None = None) -> None:
        """Accept applications at a Unix socket that only its owner, and this group, may use."""
        try:
            made = bound_for_owner(path, group)
            self._listener(made, lambda: ClientWire(self, local=True), lambda address: None)
        except OSError as error:
            raise ConfigurationError(
                f"cannot make the socket {path}: {describe_error(error)}"
            ) from error

    def _listener(self, own: socket.socket, factory: Callable[[], Wire], door: Door) -> Listener:
        def take(made: socket.socket, address: str) -> None:
            self._take(made, address or at_socket(made), factory(), door(address))

        def short(error: OSError) -> None:
            self.admission.relieve()
            reason = os.strerror(error.errno or 0).lower()
            self.engine.rates.event("accepting pauses", level=logging.WARNING, reason=reason)

        try:
            listener = Listener(self.loop, own, take, short)
        except BaseException:
            own.close()
            raise
        self._listeners.append(listener)
        return listener

    def _take(
        self, made: socket.socket, address: str, wire: Wire, context: ssl.SSLContext | str | None
    ) -> None:
        """Admit an accepted connection, or refuse it before anything is made for it.

        Args:
            context: The TLS context, None (no TLS), or the reason to refuse.
        """
        if isinstance(context, str):
            made.close()
            self._turned_away(wire.kind, address, context)
            return
        found = self.admission.enter(wire.kind, address, made.fileno(), wire.make_room)
        if isinstance(found, str):
            made.close()
            self._turned_away(wire.kind, address, found)
            return
        wire.place, wire.came_s = found, self.loop.time()
        wire.coming = self.loop.create_task(self._bring(made, wire, context))
        self._tasks.add(wire.coming)
        wire.coming.add_done_callback(lambda task: self._brought(task, made, wire))

    async def _bring(self, made: socket.socket, wire: Wire, context: ssl.SSLContext | None) -> None:
        """Set up an accepted connection: ``admit`` follows."""
        # asyncio refuses a timeout where there is no TLS.
        wait_s = float(HANDSHAKE_S_MAX) if context is not None else None
        await self.loop.connect_accepted_socket(
            lambda: wire, made, ssl=context, ssl_handshake_timeout=wait_s
        )

    def _brought(self, task: asyncio.Task[None], made: socket.socket, wire: Wire) -> None:
        """Clean up if the setup of a connection failed."""
        self._tasks.discard(task)
        wire.coming = None
        error = None if task.cancelled() else task.exception()
        # Once the protocol has seen the connection, `connection_lost` gives the place back.
        if (task.cancelled() or error is not None) and not wire.seen:
            made.close()
            assert wire.place is not None, "it was let in"
            self.admission.leave(wire.place)
            if isinstance(error, OSError):
                self._turned_away(wire.kind, wire.place.address, describe_error(error))
            elif error is not None:
                log.error("a mistake of ours in accepting a connection", exc_info=error)

    # ---- the end ------------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        """Return the descriptors of all listeners and established connections."""
        return [one.descriptor for one in self._listeners] + [one.descriptor for one in self._open]

    def stop_listening(self) -> None:
        """Stop accepting and making connections."""
        SPARES.forget(self._short)
        self.loop.set_exception_handler(log_unless_cut)
        while self._listeners:
            self._listeners.pop().close()
        self._reaching.stop()
        if self._watch is not None:
            self._watch.cancel()
        self.membership.stop()
        for task in self._tasks:
            task.cancel()

    def cancel_waiting(self) -> None:
        """Tell applications whose receives still wait that this manager stops in order."""
        for wire in list(self._open):  # an embedded manager is closed from another thread
            if isinstance(wire, ClientWire) and wire.api is not None:
                wire.api.stop()

    async def shut(self, *, farewell: bool = False) -> None:
        """Send the queued output, and close every connection; those that hang are cut.

        Args:
            farewell: The manager has stopped in order: every accepted request is answered, so the
                applications can be told that nothing else has happened.
        """
        self.stop_listening()
        for wire in list(self._open):
            if isinstance(wire, ClientWire) and wire.api is not None and farewell:
                wire.api.farewell()
            wire.close()
        self._flush()
        self._empty = asyncio.Event()
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._empty.wait()
        for wire in list(self._open):
            wire.abort()
        # One more turn, in which the transports that were cut inform their protocols.
        await asyncio.sleep(0)

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes, homes: Homes = None
    ) -> None:
        """Connect to another queue manager for an outgoing queue."""
        self.in_loop(lambda: self._reaching.connect(outgoing, protocol, host, peer, homes))

    def learn(self, snapshot: Snapshot) -> None:
        """Take addresses of queue managers from the directory; the configured address book goes
        before."""
        self.membership.directory = snapshot
        self._reaching.learn(snapshot)
