"""Connections with other managers: bytes to sessions, sessions to the core, and back.

A manager also has a session with itself, and prefers managers that it knows to strangers.

The protocol is in ``wire/mqqb/session.py``, the decisions are the core's; here the two meet.
Messages to transmit are requested only when the session and its connection have room, so nothing
piles up in memory for a slow peer. More than UNPERSISTED_BYTES_MAX from peers is put on disk before
anything else is read (I24). All output of one pump on a connection is one write.

Upholds: I24.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

from onceq.core.decision import CloseSession, Connect, Declined, Persisted, Ready, Transmit
from onceq.core.inputs import (
    Arrived,
    ConnectFailed,
    Room,
    SessionAcked,
    SessionClosed,
    SessionOpened,
)
from onceq.core.rights import may_post
from onceq.model.http import HttpNames
from onceq.model.identification import ITSELF, ON_THIS_COMPUTER, Identification, Proof
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import KNOWN_PEERS_MAX
from onceq.model.marks import Now
from onceq.model.policy import Door
from onceq.model.resultcodes import ConnectionStatus
from onceq.model.run import Buffer
from onceq.packet import address as layout
from onceq.packet.decode import set_places, set_previous
from onceq.service.committer import Committer
from onceq.wire.mqqb import session as protocol
from onceq.wire.mqqb.internal import Life

if TYPE_CHECKING:
    from onceq.wire.srmp.session import Posting, Stranger, Taking


# ---- links ---------------------------------------------------------------------------------------
#
# One session with another queue manager, and the connection that carries it, as both are used.


if TYPE_CHECKING:
    AnySession = protocol.Session | Posting | Taking | Stranger


class SessionConnection(Protocol):
    """A connection, as the engine uses it."""

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes; never blocks."""

    def close(self) -> None:
        """Send the bytes that were written, then close."""

    @property
    def writable(self) -> bool:
        """Return True if there is room for more output."""


class Network(Protocol):
    """Makes connections."""

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Begin to connect; ``Sessions.connected`` or ``connect_failed`` follows.

        Args:
            homes: As in ``core/decision.Connect``.
        """


@dataclass(slots=True)
class SessionLink:
    """One session and what carries it.

    Attributes:
        who: The identity of the other side, and what that rests on.
        told: Whether the core knows of the session.
        wants: Whether the core has something to transmit on it.
        armed: When its timer was last set to ring; 0: not at all.
        peer: The GUID of the other side, once it is open.
        exchanged: Whether messages went across it.
    """

    number: int
    session: AnySession
    connection: SessionConnection
    address: str
    outgoing: int
    who: Identification
    told: bool = False
    wants: bool = False
    armed: int = 0
    peer: bytes = NO_GUID
    exchanged: bool = False


# ---- loopback ------------------------------------------------------------------------------------
#
# A session of a queue manager with itself: each side hears in a later pump what the other has said.


ADDRESS: Final = "this queue manager"


@dataclass(eq=False, slots=True)
class End:
    """One side, as sessions use a connection.

    Attributes:
        said: What was said, and to whom; None: that side has closed.
        number: Of its session.
        other: The other side; None: it is closed.
    """

    said: deque[tuple[End, bytes | None]]
    number: int = 0
    other: End | None = None

    @property
    def writable(self) -> bool:
        """Return True if there is room for more output."""
        return not self.said

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Queue bytes for the other side."""
        if self.other is not None:
            self.said.append((self.other, b"".join(pieces)))

    def close(self) -> None:
        """Close both sides; the other one hears of it in a later pump."""
        other, self.other = self.other, None
        if other is not None:
            other.other = None
            self.said.append((other, None))


def hand_on(
    said: deque[tuple[End, bytes | None]],
    hear: Callable[[int, bytes], None],
    gone: Callable[[int, str], None],
) -> None:
    """Deliver what was said until now; the answers wait for the next call."""
    for _ in range(len(said)):
        end, data = said.popleft()
        if data is None:
            gone(end.number, "the other side has closed")
        else:
            hear(end.number, data)


def ends(said: deque[tuple[End, bytes | None]]) -> tuple[End, End]:
    """Return both sides of a session."""
    one, other = End(said), End(said)
    one.other, other.other = other, one
    return one, other


# ---- known ---------------------------------------------------------------------------------------
#
# Managers with which messages were exchanged: they go before strangers.


class KnownPeers:
    """The known managers, by GUID and address."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes | str, None] = OrderedDict()

    def __contains__(self, who: bytes | str) -> bool:
        return who in self._known

    def exchanged(self, *who: bytes | str) -> None:
        """Note that messages went to, or came from, this GUID or address."""
        for one in who:
            self._known[one] = None
            # The least recent ones are at the front, where they are forgotten.
            self._known.move_to_end(one)
        while len(self._known) > KNOWN_PEERS_MAX:
            self._known.popitem(last=False)

    def remember(self, guids: Iterable[bytes]) -> None:
        """Add the managers that are known from an earlier life."""
        for guid in guids:
            self.exchanged(guid)


# ---- sessions ------------------------------------------------------------------------------------


ROOM_BYTES = 1 << 20
"""Bytes of packets requested at a time."""
UNPERSISTED_BYTES_MAX = 64 << 20
"""Bytes read from peers that no pump has seen; above, one is made before more is read."""


@dataclass(slots=True)
class Sessions:
    """All sessions of one manager."""

    committer: Committer
    network: Network
    http: Callable[[], HttpNames]
    """Returns the current addresses of this manager for others over HTTP."""
    pump: Callable[[], bool]
    """Lets the engine process its inbox."""
    _links: dict[int, SessionLink] = field(default_factory=dict)
    _next: int = 1
    wanting: dict[int, None] = field(default_factory=dict)
    """Sessions for which the core has something to transmit, by number."""
    dirty: dict[int, SessionLink] = field(default_factory=dict)
    """Sessions that have something to write, by number."""
    _now_us: int = 0  # when bytes came, or a pump that transmits began
    _timers: list[tuple[int, int]] = field(default_factory=list)
    looped: deque[tuple[End, bytes | None]] = field(default_factory=deque)
    """What sessions of this manager with itself have said."""
    _peers_wanted: dict[int, bytes] = field(default_factory=dict)
    _hosts_wanted: dict[int, str] = field(default_factory=dict)
    _urls: dict[int, str] = field(default_factory=dict)
    _failures: dict[int, str] = field(default_factory=dict)
    _unpersisted: int = 0
    known: KnownPeers = field(default_factory=KnownPeers)

    # ---- from the network -----------------------------------------------------------------

    def accepted_http(
        self, connection: SessionConnection, address: str, who: Identification = ON_THIS_COMPUTER
    ) -> int:
        """Begin a session on a connection to the HTTP address."""
        from onceq.wire.srmp.session import Stranger, Taking

        committer, policy = self.committer, self.committer.manager.state.policy
        if who.proof is Proof.NOTHING and not policy.admits_nobody(Door.POSTS):
            return self._add(Stranger(), connection, address, 0, who)
        session = Taking(
            own_id=committer.manager.identity.guid, names=self.http,
            settings=committer.settings, now_us=committer.clock.read().mono_us,
            granted=lambda: may_post(policy, who.actor),
        )  # fmt: skip
        return self._add(session, connection, address, 0, who)

    def accepted(
        self, connection: SessionConnection, address: str, who: Identification = ON_THIS_COMPUTER
    ) -> int:
        """Begin a session on a connection of another manager."""
        return self._begin(connection, address, 0, NO_GUID, who)

    def connected(
        self, outgoing: int, connection: SessionConnection, address: str,
        who: Identification = ON_THIS_COMPUTER,
    ) -> int:  # fmt: skip
        """Begin a session on a connection that the core has requested."""
        peer = self._peers_wanted.pop(outgoing, NO_GUID)
        host, url = self._hosts_wanted.pop(outgoing, ""), self._urls.pop(outgoing, "")
        if url:
            from onceq.wire.srmp.session import Posting

            committer = self.committer
            session = Posting(
                url=url, own_id=committer.manager.identity.guid, names=self.http,
                settings=committer.settings, now_us=committer.clock.read().mono_us,
                announced=committer.manager.state.receipts.of_stream,
            )  # fmt: skip
            session.start()
            return self._add(session, connection, address, outgoing, who)
        return self._begin(connection, address, outgoing, peer, who, host)

    def connect_failed(
        self,
        outgoing: int,
        reason: str,
        status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
    ) -> None:
        """Report the failure of a connection that the core has requested."""
        self._peers_wanted.pop(outgoing, None)
        self._hosts_wanted.pop(outgoing, None)
        self._urls.pop(outgoing, None)
        known = self._failures.get(outgoing) == reason
        self._failures[outgoing] = reason
        level = logging.DEBUG if known else logging.WARNING
        rates = self.committer.rates
        rates.event("peer not reached", level=level, outgoing=outgoing, reason=reason)
        self.committer.submit(ConnectFailed(outgoing, reason, status))

    def _add(
        self, session: AnySession, connection: SessionConnection, address: str, outgoing: int,
        who: Identification,
    ) -> int:  # fmt: skip
        link = SessionLink(self._next, session, connection, address, outgoing, who)
        self._next += 1
        self._links[link.number] = link
        self._write(link)
        return link.number

    def _begin(
        self, connection: SessionConnection, address: str, outgoing: int, peer: bytes,
        who: Identification, host: str = "",
    ) -> int:  # fmt: skip
        session = protocol.Session(
            initiator=bool(outgoing), own_id=self.committer.manager.identity.guid,
            expected_peer=peer, who=who, direct=peer == NO_GUID,
            settings=self.committer.settings, now_us=self.committer.clock.read().mono_us,
            life=Life(*self.committer.manager.life), host=host,
            answers_to=self.committer.manager.answers_to,
        )  # fmt: skip
        if outgoing:
            session.start()
        return self._add(session, connection, address, outgoing, who)

    def data(self, number: int, data: Buffer, *, inside: bool = False) -> None:
        """Process bytes of a session; inside a pump, on a session with itself, the next one goes
        on."""
        link = self._links.get(number)
        if link is None:
            return
        self._now_us = self.committer.clock.read().mono_us
        events = link.session.receive(data, self._now_us)
        if link.session.output or link.session.timer_set:
            self._write(link)
        if events:
            self._handle(link, events)
        self._unpersisted += len(data)
        if self._unpersisted > UNPERSISTED_BYTES_MAX and not inside:
            self._unpersisted = 0
            if self.pump():
                self.committer.nudge()

    def gone(self, number: int, reason: str) -> None:
        """End a session whose connection is gone."""
        link = self._links.pop(number, None)
        if link is not None:
            self._over(link, reason)

    def writable(self, number: int) -> None:
        """Note that the connection can take bytes again."""
        link = self._links.get(number)
        if link is not None and link.wants:
            self.wanting[number] = None
            self.committer.nudge()

    def spoken(self, number: int) -> bool:
        """Return True if the other side of a session has identified itself."""
        link = self._links.get(number)
        return link is not None and link.told

    def is_known(self, number: int) -> bool:
        """Return True if messages were ever exchanged with the manager at the other side, or its
        address was one of such a manager."""
        link = self._links.get(number)
        return link is not None and (link.peer in self.known or link.address in self.known)

    def _exchanged(self, link: SessionLink) -> None:
        """Note that messages went across: clients from that address are no strangers any more."""
        link.exchanged = True
        self.known.exchanged(link.address, *([link.peer] if link.peer != NO_GUID else ()))

    def _handle(self, link: SessionLink, events: Sequence[protocol.Event]) -> None:
        submit = self.committer.submit
        for happened in events:
            if isinstance(happened, protocol.Arrived):
                for run in happened.runs:
                    submit(Arrived(link.number, run))
            elif isinstance(happened, protocol.Acked):
                if link.wants:
                    self.wanting[link.number] = None
                if not link.exchanged:
                    self._exchanged(link)
                counts = happened.messages, happened.recoverable
                submit(SessionAcked(link.number, *counts, happened.refused))
            elif isinstance(happened, protocol.Opened):
                link.told = True
                link.peer = happened.peer_id
                self._failures.pop(link.outgoing, None)
                self.committer.rates.event(
                    "session opened", of=self._of(link), session=link.number,
                    peer=guid_text(happened.peer_id), address=link.address,
                    outgoing=link.outgoing,
                )  # fmt: skip
                submit(
                    SessionOpened(
                        link.number, happened.peer_id, link.address, link.outgoing,
                        happened.extended, happened.http, happened.life.id, happened.life.stamp,
                        link.who, happened.delays, happened.publics, happened.called,
                        happened.life.acts, happened.life.digest,
                    )
                )  # fmt: skip
            else:
                self._links.pop(link.number, None)
                self._over(link, happened.reason)
                link.connection.close()

    def _over(self, link: SessionLink, reason: str) -> None:
        self.wanting.pop(link.number, None)
        self.dirty.pop(link.number, None)
        link.session.close(reason)
        if link.told:
            self.committer.rates.event(
                "session closed", of=self._of(link), session=link.number, address=link.address,
                reason=reason,
            )  # fmt: skip
            idle = link.session.idle(self.committer.clock.read().mono_us)
            self.committer.submit(SessionClosed(link.number, reason, idle))
        elif link.outgoing:
            self.connect_failed(link.outgoing, reason, ConnectionStatus.NOT_READY)
        else:
            self.committer.rates.event(
                "peer turned away", session=link.number, address=link.address, reason=reason
            )

    def _of(self, link: SessionLink) -> str:
        """Return a key that keeps lines about known managers apart from those about strangers."""
        known = link.outgoing or link.peer in self.known or link.address in self.known
        return "known" if known else "strangers"

    # ---- from the core --------------------------------------------------------------------

    def connect(self, action: Connect) -> None:
        """Begin to connect."""
        if not action.protocol and action.peer == self.committer.manager.identity.guid:
            # Messages whose name is one of this computer by now.
            here, there = ends(self.looped)
            for end, outgoing in ((here, action.outgoing), (there, 0)):
                end.number = self._begin(end, ADDRESS, outgoing, NO_GUID, ITSELF)
            return
        self._peers_wanted[action.outgoing] = action.peer
        if action.protocol == "OS":
            self._hosts_wanted[action.outgoing] = action.host
        protocol, host = action.protocol, action.host
        if action.url:
            self._urls[action.outgoing] = action.url
            scheme, _, rest = self.http().way(action.url).partition("://")
            protocol, host = scheme.upper(), rest.partition("/")[0]
        self.network.connect(action.outgoing, protocol, host, action.peer, action.homes)

    def ready(self, action: Ready) -> None:
        """Note that there is something to transmit."""
        link = self._links.get(action.session)
        if link is not None:
            link.wants = True
            self.wanting[link.number] = None

    def persisted(self, action: Persisted) -> None:
        """Acknowledge received messages that are durable now."""
        link = self._links.get(action.session)
        if link is not None:
            if not link.exchanged:
                self._exchanged(link)
            session = link.session
            session.persisted(action.recoverable, self._now_us)
            if session.output or session.timer_set:
                self.dirty[link.number] = link
            if not isinstance(session, protocol.Session):
                self._handle(link, session.more())

    def declined(self, action: Declined) -> None:
        """Report that a message that came over HTTP was refused."""
        link = self._links.get(action.session)
        if link is not None and not isinstance(link.session, protocol.Session):
            link.session.declined(action.status, action.reason)
            self.dirty[link.number] = link
            self._handle(link, link.session.more())

    def close(self, action: CloseSession) -> None:
        """End a session."""
        link = self._links.pop(action.session, None)
        if link is not None:
            self._write(link)
            self._over(link, action.reason)
            link.connection.close()

    def close_all(self, reason: str) -> None:
        """End every session; the core is not asked any more."""
        for link in list(self._links.values()):
            self._write(link)
            link.session.close(reason)
            link.connection.close()
        self._links.clear()
        self.wanting.clear()
        self.dirty.clear()

    def drain(self, now: Now) -> None:
        """Ask the core what to transmit on every session that wants and has room, and write.

        The transmissions of several sessions share one sync, if they need one.
        """
        if self.looped:
            hand_on(self.looped, partial(self.data, inside=True), self.gone)
        if self.wanting:
            self._now_us = now.mono_us
            wanting, self.wanting = self.wanting, {}
            step = self.committer.manager.step
            decisions = []
            for number in wanting:
                link = self._links.get(number)
                if link is not None and link.connection.writable and (room := link.session.room):
                    link.wants = False
                    decisions.append(step(now, Room(number, room, ROOM_BYTES)))
            self.committer.settle(decisions)
        dirty, self.dirty = self.dirty, {}
        for link in dirty.values():
            self._write(link)

    @property
    def waiting(self) -> bool:
        """Return True if a pump would transmit something although the inbox may be empty.

        Threads of an application ask this while another one pumps.
        """
        if self.looped:
            return True
        for number in list(self.wanting):
            link = self._links.get(number)
            if link is not None and link.session.room and link.connection.writable:
                return True
        return False

    def transmit(self, action: Transmit) -> None:
        """Send packets, with the previous numbers that hold now."""
        link = self._links.get(action.session)
        if link is None:
            return
        data = self.committer.fetch(action.pieces)
        if action.relink or action.renumber:
            # A copy: the bytes may be those of the log in memory.
            changed = bytearray(data)
            for at, previous in action.relink:
                set_previous(changed, at, layout.packet_size(changed, at), previous)
            for at, count, stream, number, previous in action.renumber:
                set_places(changed, at, count, stream, number, previous)
            data = changed
        link.session.send(
            data, count=action.count, recoverable=action.recoverable, now_us=self._now_us
        )
        if action.more:
            link.wants = True
            self.wanting[link.number] = None
        self.dirty[link.number] = link

    def _write(self, link: SessionLink) -> None:
        """Hand on the output of a session, and note its next due time."""
        session = link.session
        if session.output:
            link.connection.write(session.take_output())
        if session.timer_set:
            self._arm(link)

    # ---- time -----------------------------------------------------------------------------

    def _arm(self, link: SessionLink) -> None:
        due = link.session.next_timer()
        if due is not None and (not link.armed or due < link.armed):
            link.armed = due
            heappush(self._timers, (due, link.number))
            self.committer.due.by(due)
            # A timer that was set again leaves its old entry in the heap.
            if len(self._timers) > 4 * len(self._links) + 64:
                links = self._links.values()
                self._timers = [(one.armed, one.number) for one in links if one.armed]
                heapify(self._timers)

    def next_timer(self) -> int | None:
        """Return when ``tick`` is due; it may be early, but not late."""
        timers = self._timers
        while timers:
            due, number = timers[0]
            link = self._links.get(number)
            if link is not None and link.armed == due:
                return due
            heappop(timers)
        return None

    def tick(self, now: Now) -> None:
        """Let due sessions check the time."""
        rung: list[SessionLink] = []
        while (due := self.next_timer()) is not None and due <= now.mono_us:
            link = self._links[heappop(self._timers)[1]]
            link.armed = 0
            rung.append(link)
        for link in rung:
            wanted = link.session.next_timer()
            if wanted is not None and wanted <= now.mono_us:
                events = link.session.tick(now.mono_us)
                self._write(link)
                self._handle(link, events)
            self._arm(link)
