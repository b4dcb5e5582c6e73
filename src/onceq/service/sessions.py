"""Connections with other managers: bytes to sessions, sessions to the core, and back.

The protocol is in ``wire/mqqb/session.py``, the decisions are the core's; here the two meet. What
is to be transmitted is asked for only when the session and its connection have room, so nothing
piles up in memory for a slow peer (I24).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from onceq.core.decision import CloseSession, Connect, Persisted, Ready, Transmit
from onceq.core.inputs import (
    Arrived,
    ConnectFailed,
    Room,
    SessionAcked,
    SessionClosed,
    SessionOpened,
)
from onceq.model.identity import NO_GUID
from onceq.model.run import Buffer
from onceq.model.time import Now
from onceq.packet import layout
from onceq.packet.decode import set_previous
from onceq.wire.mqqb import session as protocol

if TYPE_CHECKING:
    from onceq.service.engine import Engine

ROOM_BYTES = 1 << 20
"""Bytes of packets asked for at a time."""
UNPERSISTED_BYTES_MAX = 64 << 20
"""Bytes read from a peer that are not on disk yet; reading pauses above."""


class Connection(Protocol):
    """A connection, as the engine uses it."""

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes; never blocks."""

    def close(self) -> None:
        """Send what was written, then close."""

    @property
    def writable(self) -> bool:
        """Whether little enough is still to be sent."""


class Network(Protocol):
    """Makes connections."""

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        """Begin to connect; ``engine.connected`` or ``engine.connect_failed`` follows."""


@dataclass(slots=True)
class _Link:
    """One session and what carries it."""

    number: int
    session: protocol.Session
    connection: Connection
    address: str
    outgoing: int
    told: bool = False
    wants: bool = False


@dataclass(slots=True)
class Sessions:
    """All sessions of one manager."""

    engine: Engine
    network: Network
    _links: dict[int, _Link] = field(default_factory=dict)
    _next: int = 1
    _wanting: dict[int, None] = field(default_factory=dict)
    _peers_wanted: dict[int, bytes] = field(default_factory=dict)

    # ---- from the network -----------------------------------------------------------------

    def accepted(self, connection: Connection, address: str) -> int:
        """Another manager has connected."""
        return self._begin(connection, address, 0, NO_GUID, initiator=False)

    def connected(self, outgoing: int, connection: Connection, address: str) -> int:
        """A connection asked for is there."""
        peer = self._peers_wanted.pop(outgoing, NO_GUID)
        return self._begin(connection, address, outgoing, peer, initiator=True)

    def connect_failed(self, outgoing: int, reason: str) -> None:
        """A connection asked for cannot be made."""
        self._peers_wanted.pop(outgoing, None)
        self.engine.submit(ConnectFailed(outgoing, reason))

    def _begin(
        self, connection: Connection, address: str, outgoing: int, peer: bytes, *, initiator: bool
    ) -> int:
        session = protocol.Session(
            initiator=initiator,
            own_id=self.engine.manager.identity.guid,
            expected_peer=peer,
            direct=peer == NO_GUID,
            settings=self.engine.settings,
            now_us=self.engine.clock.read().mono_us,
        )
        link = _Link(self._next, session, connection, address, outgoing)
        self._next += 1
        self._links[link.number] = link
        if initiator:
            session.start()
            self._flush(link)
        return link.number

    def data(self, number: int, data: Buffer) -> None:
        """Bytes have come."""
        link = self._links.get(number)
        if link is not None:
            events = link.session.receive(data, self.engine.clock.read().mono_us)
            self._flush(link)
            self._handle(link, events)

    def gone(self, number: int, reason: str) -> None:
        """The connection is gone."""
        link = self._links.pop(number, None)
        if link is not None:
            self._over(link, reason)

    def writable(self, number: int) -> None:
        """The connection can take bytes again."""
        link = self._links.get(number)
        if link is not None and link.wants:
            self._wanting[number] = None
            self.engine.submit(Room(number, 0, 0))

    def _handle(self, link: _Link, events: Sequence[protocol.Event]) -> None:
        submit = self.engine.submit
        for event in events:
            if isinstance(event, protocol.Arrived):
                for run in event.runs:
                    submit(Arrived(link.number, run))
            elif isinstance(event, protocol.Acked):
                if link.wants:
                    self._wanting[link.number] = None
                submit(SessionAcked(link.number, event.messages, event.recoverable))
            elif isinstance(event, protocol.Opened):
                link.told = True
                submit(SessionOpened(link.number, event.peer_id, link.address, link.outgoing))
            else:
                self._links.pop(link.number, None)
                self._over(link, event.reason)
                link.connection.close()

    def _over(self, link: _Link, reason: str) -> None:
        self._wanting.pop(link.number, None)
        link.session.close(reason)
        if link.told:
            idle = link.session.idle(self.engine.clock.read().mono_us)
            self.engine.submit(SessionClosed(link.number, reason, idle))
        elif link.outgoing:
            self.engine.submit(ConnectFailed(link.outgoing, reason))

    # ---- from the core --------------------------------------------------------------------

    def connect(self, action: Connect) -> None:
        """Begin to connect."""
        self._peers_wanted[action.outgoing] = action.peer
        self.network.connect(action.outgoing, action.protocol, action.host, action.peer)

    def ready(self, action: Ready) -> None:
        """There is something to transmit."""
        link = self._links.get(action.session)
        if link is not None:
            link.wants = True
            self._wanting[link.number] = None

    def persisted(self, action: Persisted) -> None:
        """Messages received are durable."""
        link = self._links.get(action.session)
        if link is not None:
            link.session.persisted(action.recoverable, self.engine.clock.read().mono_us)
            self._flush(link)

    def close(self, action: CloseSession) -> None:
        """End a session."""
        link = self._links.pop(action.session, None)
        if link is not None:
            self._over(link, action.reason)
            link.connection.close()

    def close_all(self, reason: str) -> None:
        """End every session; the core is not asked any more."""
        for link in list(self._links.values()):
            link.session.close(reason)
            link.connection.close()
        self._links.clear()

    def drain(self, now: Now) -> None:
        """Ask the core what to transmit on every session that wants and has room."""
        for number in list(self._wanting):
            link = self._links.get(number)
            if link is None:
                self._wanting.pop(number, None)
                continue
            if not link.session.room or not link.connection.writable:
                del self._wanting[number]
                continue
            link.wants = False
            self.engine.decide(Room(number, link.session.room, ROOM_BYTES))
            if not link.wants:
                self._wanting.pop(number, None)
        if any(self._can(number) for number in self._wanting):
            number = next(iter(self._wanting))
            self.engine.submit(Room(number, 0, 0))

    def _can(self, number: int) -> bool:
        link = self._links.get(number)
        return link is not None and link.session.room > 0 and link.connection.writable

    def transmit(self, action: Transmit) -> None:
        """Send packets, with the previous numbers that hold now."""
        link = self._links.get(action.session)
        if link is None or not link.session.opened:
            return
        data = self.engine.fetch(action.pieces)
        if action.relink:
            changed = bytearray(data)
            for at, previous in action.relink:
                set_previous(changed, at, layout.packet_size(changed, at), previous)
            data = changed
        link.session.send(
            data,
            count=action.count,
            recoverable=action.recoverable,
            now_us=self.engine.clock.read().mono_us,
        )
        if action.more:
            link.wants = True
            self._wanting[link.number] = None
        self._flush(link)

    def _flush(self, link: _Link) -> None:
        output = link.session.take_output()
        if output:
            link.connection.write(output)

    # ---- time -----------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """When ``tick`` is wanted."""
        times = [link.session.next_timer() for link in self._links.values()]
        return min((at for at in times if at is not None), default=None)

    def tick(self, now: Now) -> None:
        """Let sessions look at the time."""
        for link in list(self._links.values()):
            due = link.session.next_timer()
            if due is not None and due <= now.mono_us:
                events = link.session.tick(now.mono_us)
                self._flush(link)
                self._handle(link, events)
