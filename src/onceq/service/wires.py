"""One connection each, on asyncio: with another queue manager, or with an application.

They are protocols, not streams: bytes go from the socket to the session with no task between. The
output of the engine may come from any thread (in an application with an embedded manager, any
thread that waits pumps), so it is queued here. The loop's thread writes the output of one pump at
once. Callbacks use the engine through the network's gate.

A mistake of ours in handling the input of one connection ends that connection, not the manager.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast

from onceq.model.identification import SOMEBODY, Identification, is_private
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HANDSHAKE_S_MAX, LOCAL_HANDSHAKE_S_MAX
from onceq.model.run import Buffer
from onceq.service.admission import AdmittedConnection, Kind
from onceq.service.api import ApiConnection
from onceq.service.engine import Engine
from onceq.service.peer_transports import Doors, Entrance, describe_error, process_of, shown_on
from onceq.sockets.both_ends import bound_at, watch
from onceq.tls.contexts import TOO_MUCH, count_handshake_bytes
from onceq.tls.invitations import Granting, Signed

CLOSED = "the other side closed the connection"
HIGH_WATER_BYTES = 4 << 20
"""Bytes waiting to be sent on one connection; above this, no more is requested."""
CLOSE_S_MAX = 5.0
"""Seconds after which a connection is cut if the other side does not take the last bytes."""
LOCAL = "local"
"""Address of clients that connect by a Unix socket."""


class WireNetwork(Protocol):
    """The network that a wire belongs to, as far as the wire uses it."""

    loop: asyncio.AbstractEventLoop
    engine: Engine
    doors: Doors

    def admit(self, wire: Wire) -> bool:
        """Admit a new connection; return False if it must not stay."""

    def disbelieved(self, transport: asyncio.BaseTransport | None) -> str:
        """Return the reason to reject the other side's certificate; "" if it counts or there is
        none."""

    def granting(self, transport: asyncio.BaseTransport | None, address: str) -> Granting | None:
        """Return the dialog with a client that wants a certificate; None if the client is a
        peer."""

    def granted(self, signed: Signed, address: str, say: Callable[[], None]) -> None:
        """Note that a certificate was made for an address; call ``say`` once that is durable."""

    def dismiss(self, wire: Wire) -> None:
        """Release an admitted connection that has ended."""

    def spoken(self, wire: Wire, *, known: bool) -> None:
        """Note that the other side has identified itself."""

    def turn_away(self, wire: Wire, reason: str) -> None:
        """Refuse a connection."""

    def use(self, wire: Wire | None, work: Callable[[], None]) -> None:
        """Let the handler of an event on a wire use the engine."""

    def will_write(self, wire: Wire) -> None:
        """Schedule a write on a wire. Any thread may call."""

    def in_loop(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the loop's thread: now if this is that thread."""


class Wire(ABC, asyncio.Protocol):
    """The common part of both kinds: collected writing, and an orderly end."""

    def __init__(self, network: WireNetwork, kind: Kind) -> None:
        self._network = network
        self.kind = kind
        self.place: AdmittedConnection | None = None
        """Its place in the count of connections."""
        self.coming: asyncio.Task[None] | None = None
        """The task that sets it up."""
        self.came_s = 0.0
        """When it was accepted, by the loop's clock; 0 if this side opened it."""
        self.seen = False
        """True once the connection was established."""
        self._refused = ""
        self.unwanted = False
        """True if it is cut once it is established."""
        self._deadline: asyncio.TimerHandle | None = None
        self._heard_bytes = 0
        self.spoken = False
        """True once the other side has identified itself."""
        self._transport: asyncio.Transport | None = None
        self._pieces: deque[Buffer] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._closing = False
        self._full = False
        """True while a writer waits for the queue to shrink."""
        self.queued = False
        """True if the network knows that there is something to write."""

    # ---- for writers, in any thread ---------------------------------------------------------

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes, soon."""
        self._pieces.extend(pieces)
        self._queued_bytes += sum(map(len, pieces))
        self._network.will_write(self)

    def judge(self) -> bool:
        """Return True if the other side's certificate counts, or there is none; else cut the
        connection."""
        if reason := self._network.disbelieved(self._transport):
            self._network.turn_away(self, reason)
        return not reason

    @property
    def descriptor(self) -> int:
        """Return the descriptor of its socket; -1 if it has none."""
        plain = self._transport.get_extra_info("socket") if self._transport is not None else None
        return plain.fileno() if plain is not None else -1

    def close(self) -> None:
        """Send the bytes that were written, then close."""
        self._closing = True
        self._network.will_write(self)

    @property
    def queued_bytes(self) -> int:
        """Return the number of bytes that wait to be written. Each of the two counters has one
        writer at a time."""
        return self._queued_bytes - self._written_bytes

    # ---- in the loop --------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the queued bytes. ``queued`` is cleared first, so that nothing is missed."""
        self.queued = False
        pieces = []
        for _ in range(len(self._pieces)):
            pieces.append(self._pieces.popleft())
        self._written_bytes += sum(map(len, pieces))
        if self._full:
            self._full = False
            self._drained()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if pieces:
            transport.writelines(pieces)
        if self._closing:
            transport.close()
            # `close` waits until the other side takes the rest, which may never happen.
            self._network.loop.call_later(CLOSE_S_MAX, transport.abort)

    def _drained(self) -> None:
        """React to a queue that has shrunk."""

    def refuse(self, reason: str) -> None:
        """Cut the connection, and publish the reason."""
        self._refused = reason
        self.abort()

    def abort(self) -> None:
        """Cut the connection; unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    def make_room(self) -> None:
        """Cut an unidentified connection to make room for others."""
        self.unwanted = True
        if self.coming is not None and not self.seen:
            self.coming.cancel()
        self._network.turn_away(self, "it had not said who it is, and others came")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with an open transport (asyncio)."""
        own, self.seen = cast(asyncio.Transport, transport), True
        if not self._network.admit(self):
            own.abort()
            return
        self._transport = own
        self._heard_bytes = count_handshake_bytes(own)
        own.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer, plain = own.get_extra_info("peername"), own.get_extra_info("socket")
        if isinstance(peer, tuple) and plain is not None:
            watch(plain)
        if self.judge():
            self.begin(str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else LOCAL)

    @abstractmethod
    def begin(self, address: str) -> None:
        """Begin work on the established connection."""

    def identify(self, entrance: Entrance) -> Identification | None:
        """Return who is at the other side; None: it is turned away."""
        who = self._network.doors.who(self._transport, entrance)
        if isinstance(who, str):
            self._network.turn_away(self, who)
            return None
        return who

    # ---- until it is known who this is ----------------------------------------------------

    def _await_name(self, seconds: float) -> None:
        """Set the deadline for identification, counted from the accept: TLS setup is a part of
        it."""
        loop = self._network.loop
        self._deadline = loop.call_at((self.came_s or loop.time()) + seconds, self._too_late)

    @property
    def _awaited(self) -> bool:
        """Return True while the other side has to identify itself; False for a refused
        connection."""
        return self._deadline is not None and not self._closing

    def _too_late(self) -> None:
        awaited, self._deadline = self._awaited, None
        if not awaited:
            return
        self._network.turn_away(self, "it did not say in time who it is")

    def _count_bytes(self, size: int, *, spoken: bool, known: bool = False) -> None:
        """Note that ``size`` bytes have come; ``spoken`` ends the wait for identification."""
        self._heard_bytes += size
        if spoken:
            self.spoken = True
            if self._deadline is not None:
                self._deadline.cancel()
            self._network.spoken(self, known=known)
        elif self._awaited and self._heard_bytes > HANDSHAKE_BYTES_MAX:
            self._network.turn_away(self, TOO_MUCH)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wire when the transport has closed (asyncio)."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._transport = None
            self._network.dismiss(self)
            lost = f"connection lost: {describe_error(exc)}" if exc else CLOSED
            self.end(self._refused or lost)

    @abstractmethod
    def end(self, reason: str) -> None:
        """Handle the loss of the connection."""


class PeerWire(Wire):
    """A connection with another queue manager."""

    def __init__(self, network: WireNetwork, outgoing: int, *, http: bool = False) -> None:
        super().__init__(network, Kind.MADE if outgoing else Kind.PEER)
        self._http = http
        self.outgoing = outgoing
        """The outgoing queue that it was made for; 0 if the other side opened it."""
        self._session = 0
        self._blocked = False
        self._grant: Callable[[bytes], None] | None = None
        """The handler of bytes from a client that wants a certificate; None for a peer."""
        self._silent = True
        """True until the first bytes come."""

    @property
    def has_session(self) -> bool:
        """True if there is a session, which logs its own end."""
        return self._session != 0

    @property
    def writable(self) -> bool:
        """Return True if there is room for more output."""
        if self._blocked or self._closing:
            return False
        if self._queued_bytes - self._written_bytes < HIGH_WATER_BYTES:
            return True
        # Set before the check that counts: the loop may be writing everything just now.
        self._full = True
        return self.queued_bytes < HIGH_WATER_BYTES

    def _drained(self) -> None:
        if not self._blocked:
            self.resume_writing()

    def begin(self, address: str) -> None:
        """Open the session, or the dialog about a certificate."""
        engine, transport = self._network.engine, self._transport
        if not self.outgoing:
            self._await_name(HANDSHAKE_S_MAX)
        if not self.outgoing and not self._http:
            granting = self._network.granting(transport, address)
            if granting is not None:
                self._grant = partial(self._granted, granting, address)
                return
        # A target of our posts is asked for nothing but the outcome of the post.
        posting = self._http and self.outgoing
        entrance = Entrance.POSTS if self._http else Entrance.PEERS
        who = SOMEBODY if posting else self.identify(entrance)
        if who is None:
            return

        def work() -> None:
            if self.outgoing:
                self._session = engine.sessions.connected(self.outgoing, self, address, who)
            elif self._http:
                self._session = engine.sessions.accepted_http(self, address, who)
            else:
                self._session = engine.sessions.accepted(self, address, who)

        self._network.use(self, work)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the session (asyncio)."""
        self._silent = False
        if self._grant is not None:
            self._network.use(self, partial(self._grant, data))
            return
        sessions = self._network.engine.sessions
        self._network.use(self, partial(sessions.data, self._session, data))
        if not (self.spoken or self.outgoing):
            spoken = sessions.spoken(self._session)
            self._count_bytes(len(data), spoken=spoken, known=sessions.is_known(self._session))

    def _granted(self, granting: Granting, address: str, data: bytes) -> None:
        """Pass bytes to the certificate dialog; the deadline of strangers holds until it asks."""
        answer = granting.data(data)
        self._count_bytes(len(data), spoken=False)
        if not answer:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None  # from here on the client waits for us
        if granting.signed is None:
            self._tell(answer)
        else:
            self._network.granted(granting.signed, address, partial(self._tell, answer))

    def _tell(self, answer: bytes) -> None:
        self.write([answer])
        self.close()

    def pause_writing(self) -> None:
        """Stop the session's output (asyncio)."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Continue the session's output (asyncio); under TLS this may be called in the middle of a
        write."""
        self._blocked = False
        self._network.loop.call_soon(
            self._network.use, self,
            lambda: self._network.engine.sessions.writable(self._session),
        )  # fmt: skip

    def end(self, reason: str) -> None:
        """Close the session."""
        sessions = self._network.engine.sessions
        if self._session:
            if self.outgoing and self._silent and reason == CLOSED:
                reason += " without a word: it may ask for TLS, or not know this computer"
            self._network.use(self, partial(sessions.gone, self._session, reason))
        elif self.outgoing:
            failed = partial(sessions.connect_failed, self.outgoing, reason)
            self._network.use(self, failed)


class ClientWire(Wire):
    """A connection of an application; also the Transport of its ApiConnection."""

    def __init__(self, network: WireNetwork, *, local: bool = False) -> None:
        super().__init__(network, Kind.LOCAL_APPLICATION if local else Kind.APPLICATION)
        self.api: ApiConnection | None = None
        self._reading = True

    # ---- the transport, as an ApiConnection sees it -------------------------------------------

    def writelines(self, pieces: Sequence[Buffer], /) -> None:
        """Send frames."""
        self.write(pieces)

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes that the application has not read yet."""
        own = self._transport
        return self.queued_bytes + (own.get_write_buffer_size() if own is not None else 0)

    def reading_changed(self) -> None:
        """Pause or resume reading, as the connection's ``full`` says now."""
        self._network.in_loop(self._throttle)

    def _throttle(self) -> None:
        own, api = self._transport, self.api
        # It may be called late, from another thread's pump, and the state may have changed back
        # since.
        if own is None or api is None or own.is_closing() or api.full != self._reading:
            return
        self._reading = not api.full
        if self._reading:
            own.resume_reading()
        else:
            own.pause_reading()

    # ---- asyncio ------------------------------------------------------------------------------

    def begin(self, address: str) -> None:
        """Create the application's ApiConnection."""
        network, transport = self._network, self._transport
        who = self.identify(Entrance.APPLICATIONS)
        if who is None:
            return
        here, private = address == LOCAL, is_private(shown_on(transport))

        def work() -> None:
            self.api = ApiConnection(
                network.engine, self, random=os.urandom, local=here, actor=who.actor,
                address="" if here else address, private=private,
                process=process_of(transport) if here else 0, bound=bound_at(transport),
            )  # fmt: skip

        network.use(self, work)
        local = self.kind is Kind.LOCAL_APPLICATION
        self._await_name(LOCAL_HANDSHAKE_S_MAX if local else HANDSHAKE_S_MAX)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the ApiConnection (asyncio)."""
        api = self.api
        if api is not None:
            self._network.use(self, partial(api.data_received, data))
            if not self.spoken:
                self._count_bytes(len(data), spoken=api.greeted)

    def pause_writing(self) -> None:
        """Note that the output is full (asyncio). It may be called in the middle of a write, while
        the engine is in use."""
        if self.api is not None:
            self._network.loop.call_soon(self._network.use, self, self.api.pause_writing)

    def resume_writing(self) -> None:
        """Note that the output has room again (asyncio)."""
        if self.api is not None:
            self._network.loop.call_soon(self._network.use, self, self.api.resume_writing)

    def end(self, reason: str) -> None:
        """Release the ApiConnection."""
        if self.api is not None:
            self._network.use(self, self.api.connection_lost)
