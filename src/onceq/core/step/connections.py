"""Sessions with other managers, and what is watched to notice that an identity is used twice.

Running tables, written by the rooms ``transfer`` and ``peers``. What must outlive a restart, such
as which manager answers under which name, is durable instead (``core/state/peer_table.py``). The
rules of the watch are in ``core/peers/duplicate_identity.py`` and ``core/peers/strangers.py``: two
managers, or another and this one, have one identity, or a name leads to another computer than it
says.

Also here:

* Runs that came before one that is missing: kept in memory until the hole before them is filled.
* Addresses of other managers: one attempt to connect for all outgoing queues that wait for one.
* Where sends go: what names mean, routes found before, and batches on their way to packets.

Upholds: I24 (bounded), I25, I9 (nothing kept is acknowledged).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from typing import Final

from onceq.core.state.branch_table import StoredPackets
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Accepted, Peer
from onceq.core.state.queues import Queue
from onceq.core.state.records import Put
from onceq.model import limits
from onceq.model.addresses import HERE, AddressBook, means_itself, name_for_others
from onceq.model.directory import Snapshot
from onceq.model.identity import Identity
from onceq.model.names import FormatName
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.packet.arrived import ArrivedRun
from onceq.packet.encode import Template

# ---- early runs ----------------------------------------------------------------------------------


NO_ROOM: Final = "no room"
STREAM_LEFT: Final = "stream left"
SET_BACK: Final = "stream set back"
QUEUE_DELETED: Final = "queue deleted"
SESSION_CLOSED: Final = "session closed"

Key = tuple[bytes, str]
"""Source and key of the queue, as those of an incoming stream's progress."""
_NUMBER = attrgetter("first_number")


@dataclass(slots=True)
class EarlyStream:
    """What is early in one stream.

    A network that loses one packet, or lets one overtake another, brings what follows too early.
    The filter takes nothing behind a hole (EOD-34), and to throw it away costs its sender
    everything that was under way. So it is kept here, and shown to the same filter again, in order,
    when what was missing has come. For every rule this is a network that has delivered it later:
    nothing of it is judged, counted, recorded or acknowledged before. What is durable stays one
    number for each stream (EOD-21).

    A run is kept only in the stream that its receiver is in, or in a newer one that it cannot enter
    because the beginning is missing (EOD-24), and only as long as the session that brought it: what
    dies with the session is sent again on the next one, as ever (EOD-9). It dies also when the
    stream is left, when its queue is deleted, and when an operator sets the stream back.

    Attributes:
        session: The one that brought it.
        stream: Its stream.
        queue: Number of the queue that it is for; 0 if there is none.
        runs: What is kept, by number.
        bytes: What that takes.
        missing_to: The last number of the first hole.
        told_to: The last number of the hole that was named last; 0: none was.
        told: How often the acknowledgment that names it has left since anything came.
        last: Up to where the stream had come when it was looked at before.
        due_us: When the beginning is named again, if it is that which is missing; 0: no such timer.
    """

    session: int
    stream: int
    queue: int
    runs: deque[ArrivedRun] = field(default_factory=deque)
    bytes: int = 0
    missing_to: int = 0
    told_to: int = 0
    told: int = 0
    last: int = 0
    due_us: int = 0


class EarlyRuns:
    """Runs that came before one that is missing.

    Attributes:
        streams: Streams in which something has come too early, and the hole is not filled.
        bytes: What is kept of all of them.
        dropped: Runs that were not kept to their end, by the reason.
        shown: Runs that were.
    """

    def __init__(self) -> None:
        self.streams: dict[Key, EarlyStream] = {}
        self.bytes = 0
        self.dropped: Counter[str] = Counter()
        self.shown = 0
        self._of_session: Counter[int] = Counter()

    def keep_run(self, key: Key, session: int, queue: int, run: ArrivedRun) -> bool:
        """A run is ahead in the stream that its receiver is in, or in one that it cannot enter yet;
        whether it could be kept."""
        found = self.streams.get(key)
        if found is not None and found.stream > run.stream:
            return False
        if found is not None and (found.session, found.stream) != (session, run.stream):
            self.forget(key, STREAM_LEFT if found.stream != run.stream else SESSION_CLOSED)
            found = None
        if found is None:
            found = self.streams[key] = EarlyStream(session, run.stream, queue)
        found.told = 0
        previous = run.first_previous
        found.missing_to = min(found.missing_to, previous) if found.missing_to else previous
        return self._keep(found, run)

    def _keep(self, found: EarlyStream, run: ArrivedRun) -> bool:
        runs, number = found.runs, run.first_number
        at = len(runs)
        if runs and number <= runs[-1].first_number:
            at = bisect_left(runs, number, key=_NUMBER)
            again = runs[at]
            if again.first_number == number and again.message_numbers == run.message_numbers:
                return True
        size = _size(run)
        if (
            self.bytes + size > limits.EARLY_BYTES_MAX
            or self._of_session[found.session] + size > limits.EARLY_SESSION_BYTES_MAX
        ):
            self.dropped[NO_ROOM] += 1
            return False
        # A copy: the run is a view of all that one read has brought.
        runs.insert(at, replace(run, packets=Run(bytes(run.packets.data), run.packets.lengths[:]),
                                message_numbers=array("I", run.message_numbers)))  # fmt: skip
        self._count(found, size)
        return True

    def waits_to_enter(self, key: Key, stream: int, last: int) -> bool:
        """Whether a stream is waited for whose beginning is missing, by a receiver that is in
        another one, or has accepted nothing."""
        found = self.streams.get(key)
        if found is None:
            return False
        return found.stream > stream or (found.stream == stream and not last)

    def next(self, key: Key, session: int, stream: int, last: int) -> ArrivedRun | None:
        """A run that is not ahead any more, and is not kept from here on; None: there is none."""
        found = self.streams.get(key)
        if found is None:
            return None
        if (found.session, found.stream) != (session, stream):
            self.forget(key, STREAM_LEFT if found.stream != stream else SESSION_CLOSED)
            return None
        if not found.runs or not _reached(found.runs[0], last):
            return None
        run = found.runs.popleft()
        self.shown += 1
        self._count(found, -_size(run))
        return run

    def advanced(self, key: Key, last: int) -> bool:
        """What could be shown was shown: whether another hole than the one that was named is the
        first now, or a part of it has come."""
        found = self.streams.get(key)
        if found is None:
            return False
        if found.runs:
            found.missing_to = found.runs[0].first_previous
        elif found.missing_to <= last:
            del self.streams[key]
            return False
        moved, found.last = last > found.last, last
        if moved:
            found.told = 0
        return moved or found.missing_to != found.told_to

    def missing(self, key: Key, stream: int, last: int) -> tuple[int, int]:
        """First and last number of the first hole; zeros: none is known."""
        found = self.streams.get(key)
        if found is None or found.stream != stream or found.missing_to <= last:
            return 0, 0
        return last + 1, found.missing_to

    def forget(self, key: Key, reason: str) -> None:
        """Nothing early of a stream counts any more."""
        found = self.streams.pop(key, None)
        if found is not None:
            self.dropped[reason] += len(found.runs)
            self._count(found, -found.bytes)

    def of_session(self, session: int) -> list[Key]:
        """Streams in which a session has brought something too early."""
        return [key for key, stream in self.streams.items() if stream.session == session]

    def closed(self, session: int) -> None:
        """A session is over, and what it has brought too early with it."""
        for key in self.of_session(session):
            self.forget(key, SESSION_CLOSED)

    def deleted(self, queue: int) -> None:
        """A queue is deleted, and what has come too early for it with it."""
        for key in [key for key, s in self.streams.items() if s.queue == queue]:
            self.forget(key, QUEUE_DELETED)

    def _count(self, found: EarlyStream, size: int) -> None:
        found.bytes += size
        self.bytes += size
        held = self._of_session[found.session] = self._of_session[found.session] + size
        if not held:
            del self._of_session[found.session]


def _size(run: ArrivedRun) -> int:
    return len(run.packets.data) + limits.EARLY_RUN_BYTES


def _reached(run: ArrivedRun, last: int) -> bool:
    """Whether the filter would call it anything but ahead."""
    return run.first_previous <= last or run.first_number <= last


# ---- connect attempts ----------------------------------------------------------------------------


Way = tuple[str, str, bytes, str, str, tuple[str, ...] | None]
"""Protocol, host, GUID and URL of ``Connect``, the name whose manager is pinned, if it is, and the
addresses of ``Connect``: what may go anywhere shares no connection with answers that may not."""


@dataclass(slots=True)
class ConnectAttempt:
    """An address that was, is, or is to be connected to.

    Running tables, written by the room ``transfer``. However many queues lead to an address, it is
    connected to once; the result is applied to all of them (``core/transfer/connecting.py``).

    Attributes:
        caller: The outgoing queue for which a session was asked for; 0: none is under way.
        session: The session that was made last, as long as it exists; 0 else.
        retry_us: No attempt begins before that time (monotonic); 0: any queue may begin one.
        reason: Why the last attempt has failed.
        waiting: Numbers of the outgoing queues that wait for the attempt under way, or the next.
            It may hold queues that no longer wait.
    """

    way: Way
    caller: int = 0
    session: int = 0
    retry_us: int = 0
    reason: str = ""
    waiting: dict[int, None] = field(default_factory=dict)

    def taken(self) -> list[int]:
        """Return the queues that wait, and forget them; later queues wait for the next attempt."""
        numbers, self.waiting = list(self.waiting), {}
        return numbers


class ConnectAttempts:
    """All of them; those that nobody needs are forgotten."""

    def __init__(self) -> None:
        self._by_way: dict[Way, ConnectAttempt] = {}
        self._by_caller: dict[int, ConnectAttempt] = {}
        self._by_session: dict[int, ConnectAttempt] = {}

    def __len__(self) -> int:
        return len(self._by_way)

    def get(self, way: Way) -> ConnectAttempt | None:
        """What is known of an address."""
        return self._by_way.get(way)

    def of(self, way: Way) -> ConnectAttempt:
        """The same; from now on something is."""
        return self._by_way.get(way) or self._by_way.setdefault(way, ConnectAttempt(way))

    def calls(self, number: int) -> bool:
        """Whether a session was asked for on behalf of an outgoing queue."""
        return number in self._by_caller

    def call(self, contact: ConnectAttempt, number: int) -> None:
        """A session is asked for on behalf of an outgoing queue."""
        contact.caller, contact.retry_us = number, 0
        self._by_caller[number] = contact

    def answered(self, number: int, session: int = 0, reason: str = "") -> ConnectAttempt | None:
        """There is a session, or none came about; None: nobody has asked for it."""
        contact = self._by_caller.pop(number, None)
        if contact is not None:
            contact.caller, contact.reason = 0, reason
            if session:
                self._by_session.pop(contact.session, None)
                contact.session = session
                self._by_session[session] = contact
        return contact

    def closed(self, session: int) -> ConnectAttempt | None:
        """A session is over: return its contact, if it has one."""
        contact = self._by_session.pop(session, None)
        if contact is not None:
            contact.session = 0
        return contact

    def release(self, contact: ConnectAttempt | None) -> None:
        """Forget a contact that nobody needs."""
        if contact is None or contact.caller or contact.session or contact.waiting:
            return
        if self._by_way.get(contact.way) is contact:
            del self._by_way[contact.way]

    def disconnected(self) -> None:
        """An operator lets nobody connect: only attempts under way go on."""
        for contact in list(self._by_way.values()):
            contact.retry_us = 0
            if not contact.caller:
                contact.waiting.clear()
                self.release(contact)


# ---- sessions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Met:
    """The latest life that another manager has told of itself, and the first session with it."""

    life: bytes
    stamp: int
    session: int
    firsts: tuple[tuple[bytes, int], ...] = ()
    """The lives of it that were met last, and the first session with each."""
    copies: tuple[bytes, ...] = ()
    """Those of them that were met when two were found at work."""


@dataclass(slots=True)
class Clash:
    """One identity is used by two queue managers (``core/peers/duplicate_identity.py``)."""

    since_s: int
    last_s: int = 0
    count: int = 0
    what: str = ""


@dataclass(slots=True)
class WrongName:
    """A name that leads to another computer than it says (``core/peers/strangers.py``)."""

    text: str
    count: int = 0


@dataclass(slots=True)
class Watch:
    """What is watched to notice that an identity is used twice."""

    accepted: Accepted = field(default_factory=Accepted)
    """Message numbers of what was accepted last, by stream."""
    met: dict[bytes, Met] = field(default_factory=dict)
    """By GUID: the latest life of another manager."""
    told_of: dict[bytes, None] = field(default_factory=dict)
    """Other lives with our identity that others have told of."""
    clashes: dict[bytes, Clash] = field(default_factory=dict)
    """By GUID: identities that two managers use."""
    wrong_names: dict[tuple[str, str], WrongName] = field(default_factory=dict)
    """What is known to be wrong with names of computers, by what and the name."""
    heard: set[str] = field(default_factory=set)
    """Computers of destinations in packets that are this one, or none: to ask once."""
    refused_ahead: dict[bytes, int] = field(default_factory=dict)
    """By GUID: its latest stream that was refused for being from the future
    (``core/peers/trust.py``)."""

    def taken(self, guid: bytes) -> None:
        """Streams of a manager are not refused for being from the future any more."""
        del self.refused_ahead[guid]


class PeerSessions:
    """The sessions with other managers."""

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        """By number of the session."""
        self.of: dict[bytes, set[int]] = {}
        """Numbers of the sessions with a manager."""
        self.full_windows: set[int] = set()
        """Numbers of the outgoing queues with more waiting messages than may be under way."""
        self.computer_names: dict[bytes, str] = {}
        """Computer names of other managers, as far as a session has shown them."""
        self.return_to: dict[bytes, str] = {}
        """Address of the session with a manager whose messages came under direct names."""
        self.passed_on: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        """By source, message number and second of sending: outgoing queue and counter of what came
        over HTTP and waits here for another host."""
        self.disbelieved: Counter[str] = Counter()
        """What peers said that does not count, and how often (``core/peers/trust.py``)."""
        self.contacts = ConnectAttempts()
        """Addresses that are connected to."""
        self.served: dict[int, None] = {}
        """Numbers of the outgoing queues that have got a session which was there before."""
        self.watch = Watch()
        self.settling: set[int] = set()
        """Streams whose accepted messages a receiver has reported; the work takes several steps."""
        self.early = EarlyRuns()
        """What came before something that is missing."""

    def called(self, guid: bytes, name: str) -> None:
        """A session has shown the computer name of a manager."""
        _remember(self.computer_names, guid, name)

    def came_from(self, source: bytes, address: str) -> None:
        """Note where acknowledgments to a manager go: an address, or "" for its identity only."""
        known = self.return_to
        if known.get(source, "") == address:
            return
        if address:
            _remember(known, source, address)
        else:
            del known[source]


def _remember(known: dict[bytes, str], guid: bytes, text: str) -> None:
    """Note something of a manager; of too many the oldest goes (I24)."""
    if guid not in known and len(known) >= limits.PEERS_REMEMBERED_MAX:
        del known[next(iter(known))]
    known[guid] = text


# ---- routes --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Target:
    """One destination of a send.

    Running tables, written by the rooms ``names`` and ``management``. The result for a name holds
    until queues, routes or the directory change: code that changes one of them calls
    ``NameTable.changed``.

    Attributes:
        queue: Of this manager, or an outgoing queue.
        name: The name that packets have. Names of one place share an outgoing queue, and have the
            name under which that was opened.
        said: The name that the sender has used, by which its rights are judged.
    """

    queue: Queue | OutgoingQueue
    name: FormatName
    said: FormatName

    @property
    def text(self) -> str:
        """The name, printed."""
        return str(self.name)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that is in the log already, as packets (``core/send.py``).

    Attributes:
        message: Number of the first message.
        transaction: Number of the transaction that its packets name.
        bytes: Of the bodies.
        runs: For each destination its packets.
    """

    message: int
    transaction: int
    bytes: int
    runs: tuple[StoredPackets, ...]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When messages are over, in seconds since 1970.

    Attributes:
        expires: They must have reached their queue, and be received.
        receive_by: They must be received.
        confirm_by: Their sender has waited long enough for the news of their end (EOD-42).
        once: One attempt to deliver them, no second (CNF-4).
    """

    expires: int
    receive_by: int
    confirm_by: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """What batches of one second with the same properties have in common: where they go, the
    packet headers for each place, and when they are over."""

    targets: tuple[Target, ...]
    templates: tuple[Template, ...]
    deadlines: Deadlines
    one_rest: bool = False
    """Whether all packets of a message are the same from their properties on."""


@dataclass(slots=True)
class CheckedBatch:
    """A batch that was checked and resolved, ready to become packets, or written as such."""

    item: SendItem
    targets: tuple[Target, ...]
    templates: tuple[Template, ...]
    deadlines: Deadlines
    size: int
    dead_letter_queue: int = 0
    """Number of the sender's own dead-letter queue; 0: the system's."""
    written: StoredBatch | None = None
    """Of ``item`` only the number of messages counts then."""
    one_rest: bool = False
    """Whether all packets of a message are the same from their properties on (``Route``)."""
    whole: Put | None = None
    """Of a batch with one rest: the put for its first target, as soon as there is one."""
    whole_at: int = 0
    """Index of that put in the change."""
    whole_index: int = 0
    """Index of its target."""

    def size_at(self, index: int) -> int:
        """Bytes for one destination: packets differ in the names in their headers."""
        if len(self.targets) == 1:
            return self.size
        count = len(self.item.bodies)
        headers = [count * (made.overhead + 3) for made in self.templates]
        return (self.size - sum(headers)) // len(headers) + headers[index]


ROUTES_MAX = 1_024
"""Routes of sends that are remembered; when there are more, all are found again."""


class Mode(IntEnum):
    """What there is of a directory (DL-14)."""

    WORKGROUP = 0
    """None was configured."""
    OFFLINE = 1
    """It cannot be read now."""
    ONLINE = 2


class NameTable:
    """What names mean, and routes that were found before."""

    def __init__(
        self, identity: Identity, addresses: frozenset[str], routes: Mapping[bytes, str],
        peers: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.own_names = HERE | {name.casefold() for name in (identity.name, *addresses)}
        """Names and addresses under which this computer is known, folded."""
        self.called = name_for_others(identity.name, addresses)
        """How this computer is named where others read it."""
        self.everybody = HERE | (
            {identity.name.casefold()} if means_itself(identity.name) else set()
        )
        """Names of this computer that mean another one where others read them."""
        self.addresses = tuple(sorted(addresses))
        self.book = AddressBook.of(peers, {})
        """Addresses of other managers, to show them; the service makes the connections."""
        self.routes_to = routes
        """GUID of a manager to the computer name of the one that passes messages on to it."""
        self.mode = Mode.WORKGROUP
        self.directory: Snapshot | None = None
        """What the directory said when it was last read."""
        self.directory_trouble = ""
        """Why it cannot be read now."""
        self.rights_trouble = ""
        """Why what the directory says of rights is not followed."""
        self.computer_guids: frozenset[bytes] = frozenset()
        """Managers that the directory lists."""
        self.places: dict[str, OutgoingQueue] = {}
        """The outgoing queue of each place: all names that lead there share it (EOD-3)."""
        self.by_guid: dict[bytes, list[OutgoingQueue]] = {}
        """Outgoing queues whose manager is known by GUID: any session with it serves them."""
        self.ending: set[int] = set()
        """Outgoing queues whose messages are being ended, because their queues have left the
        directory."""
        self.targets: dict[str, tuple[Target, ...]] = {}
        """What was found for a name to send to."""
        self.sources: dict[str, Queue] = {}
        """What was found for a name to receive from."""
        self.routes: dict[object, Route] = {}
        """What was found for sends with the same properties."""

    def changed(self) -> None:
        """Queues, routes or the directory have changed: find every name again."""
        self.targets.clear()
        self.sources.clear()
        self.routes.clear()

    def keep_route(self, key: object, route: Route) -> None:
        """Remember where sends with the same properties go."""
        if len(self.routes) >= ROUTES_MAX:
            self.routes.clear()
        self.routes[key] = route
