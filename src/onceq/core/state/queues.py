"""Queues with messages in them: those of this manager, and the outgoing queues for others.

Both are lanes of positions with a number that records refer to. The first part of each class is
durable, and only ``State.apply`` changes it; the rest belongs to the running process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from onceq.core.state.earlier_streams import OPEN_END, EarlierStreams, Stretch
from onceq.core.state.endings import Endings
from onceq.core.state.link_states import LINKS, Link, LinkEvent
from onceq.core.state.live_bytes import Space
from onceq.core.state.outgoing_attempts import Attempt, Ends, Inquiries, Pace, Repair, Trouble
from onceq.core.state.peer_table import Peer as Peer
from onceq.core.state.peer_table import Progress as Progress
from onceq.core.state.peer_table import Reset as Reset
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Lanes, Positions
from onceq.core.state.report_requests import NOBODY, ReportRequests
from onceq.model.connection import ConnectionStatus
from onceq.model.limits import CONNECTION_HISTORY_MAX
from onceq.model.names import FormatName, Kind
from onceq.model.queue import QueueProperties
from onceq.model.requests import Access, Receive, Share
from onceq.packet.settle import Memory

TRANSACTIONAL_LANE = 8
"""The lane of an outgoing queue's transactional messages; 0 to 7 are priorities of the others."""

LOOKUP_SHIFT = 56
COUNTER_MASK = (1 << LOOKUP_SHIFT) - 1


def lookup_id(lane: int, counter: int) -> int:
    """Lookup identifiers rise with position: 7 minus priority in the top byte (X-10)."""
    return ((7 - lane) & 0xFF) << LOOKUP_SHIFT | counter


def place_of(lookup: int) -> tuple[int, int]:
    """Lane and counter of a lookup identifier."""
    return (7 - (lookup >> LOOKUP_SHIFT)) & 0xFF, lookup & COUNTER_MASK


@dataclass(slots=True)
class Handle:
    """A queue held open (MQOpenQueue). ``by``: the actor that opened it."""

    owner: int
    queue: int
    access: Access
    share: Share
    deleted: bool = False
    """The queue was deleted under it: it can only be closed (Q-37)."""
    who: str = ""
    """What its owner says of himself."""
    said: FormatName | None = None
    """Of one for sending to one queue: the name that its owner has used."""
    since_s: int = 0
    until_us: int = 0
    """When (monotonic us) it ends, if it is in somebody's way and was not renewed; 0: never."""
    cursors: dict[int, None] = field(default_factory=dict)
    """Cursors that were made with it."""
    by: str = ""


class AnyQueue:
    """Something with lanes and a number."""

    __slots__ = ("lanes", "number", "wanting")

    def __init__(self, number: int, space: Space) -> None:
        self.number = number
        self.lanes = Lanes(space)
        self.wanting: dict[int, ReportRequests] = {}

    def wants(self, index: int) -> ReportRequests:
        """Who wants to know how the messages of a lane end."""
        return self.wanting.get(index, NOBODY)

    def __len__(self) -> int:
        return sum(map(len, self.lanes.values()))

    def __bool__(self) -> bool:
        """It is there, however empty."""
        return True

    @property
    def bytes(self) -> int:
        """Packets held, in bytes."""
        total = 0
        for lane in self.lanes.values():
            total += lane.bytes
        return total


class Queue(AnyQueue):
    """A queue of this manager: application queue or system queue."""

    __slots__ = (
        "denying", "handles", "journal", "looking", "parent", "properties", "shown", "sub", "subs",
        "system", "turns", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        space: Space,
        properties: QueueProperties,
        *,
        system: bool = False,
        parent: Queue | None = None,
        sub: str = "",
    ) -> None:
        super().__init__(number, space)
        self.parent = parent
        self.sub = sub
        """Name of a subqueue; its properties are those of its parent (Q-31)."""
        self.subs: dict[str, Queue] = {}
        self.properties = properties
        self.journal: Queue | None = None
        """Where copies of received messages go, if its property says so (Q-11)."""
        self.system = system
        self.waiting: dict[tuple[int, int], Receive] = {}
        self.looking: dict[tuple[int, int], Receive] = {}
        """Those of them that only look."""
        self.handles: dict[int, Handle] = {}
        self.denying: dict[int, Handle] = {}
        """Those of them that deny others to receive from it."""
        self.turns = 0
        """How many have denied others to receive from it."""
        self.shown: set[tuple[int, int]] = set()
        """Lane and counter of what is locked, and may be peeked at all the same (RCV-9)."""

    @property
    def title(self) -> str:
        """Its name, with its subqueue's."""
        return f"{self.properties.name};{self.sub}" if self.sub else self.properties.name

    @property
    def available(self) -> int:
        """Messages that a receive could take now."""
        total = 0
        for lane in self.lanes.values():
            total += lane.available
        return total


_AVAILABLE = attrgetter("available")


class OutgoingQueue(AnyQueue):
    """Messages that wait for one destination queue of another manager.

    In the transactional lane numbers follow counters: number = counter - base, within the stream
    that was begun last. ``old`` keeps the base of each earlier stream of which messages are still
    here. ``also`` are other names, by key, of which a directory said that they mean the same
    queue (EOD-3).
    """

    __slots__ = (
        "also",
        "answers",
        "base",
        "connected_s",
        "elsewhere",
        "endings",
        "ends",
        "fence",
        "for_strangers",
        "history",
        "homes",
        "inquiries",
        "key",
        "knows_delays",
        "last_ack",
        "last_ack_count",
        "last_ack_s",
        "left",
        "left_known",
        "link",
        "moved_to",
        "name",
        "old",
        "pace",
        "paused_s",
        "plain_sent",
        "purging",
        "repair",
        "repeated",
        "retry_us",
        "sent",
        "served_before",
        "served_from",
        "session",
        "stranded_s",
        "stream",
        "told",
        "transmitted",
        "tried_once",
        "trouble",
        "turned_away",
    )

    def __init__(self, number: int, space: Space, name: FormatName) -> None:
        super().__init__(number, space)
        self.name = name
        self.key = name.key()
        self.stream = 0
        self.base = 0
        self.old = EarlierStreams()
        self.also: dict[str, str] = {}
        self.paused_s = 0
        self.for_strangers = False
        """It exists only to answer strangers (``core/peers/strangers.py``)."""
        self.homes: frozenset[str] | None = None
        """Addresses that it may be connected to (``core/peers/homes.py``); None: any."""
        self.answers = False
        """It was opened for answers: others may be due that only it knows the way of."""
        self.served_from = 0
        """Of what stands behind this counter the manager that answers now may tell."""
        self.served_before: tuple[tuple[bytes, int, int], ...] = ()
        """Managers that answered before: GUID, first counter, and the one behind the last."""
        self.left: dict[int, int] = {}
        """By lane: no message behind that counter has ever been transmitted, as far as
        ``left_known``; those up to it may have been."""
        self.left_known = True
        self.elsewhere: dict[int, int] = {}
        """By lane: another manager with this identity may have transmitted what stands up to that
        counter (``core/peers/duplicate_identity.py``)."""
        self.fence = 0
        """A stream that was announced because the receiver has left those in which messages wait
        (``core/transfer/stranded.py``); 0: none."""
        self.endings = Endings()
        """How its messages have ended, unless its receiver has taken them over."""
        self.moved_to = 0
        """Up to this counter packets in the log have the numbers of another stream."""
        # of the running process
        self.last_ack = (0, 0)
        self.last_ack_s = 0
        self.last_ack_count = 0
        self.link = Link.NONE
        self.session = 0
        """The one that serves it: CONNECTED or CLOSING; 0 in other states."""
        self.retry_us = 0
        """When to connect again (monotonic): PUT_OFF; 0 in other states."""
        self.told: dict[int, Memory] = {}
        self.stranded_s = 0
        """Since when it is known that the receiver has left the stream that is transmitted."""
        self.inquiries = Inquiries()
        self.knows_delays: bool | None = None
        """Whether the manager that it was connected to last knows of delays (``core/delays.py``).
        None: it is not known."""
        self.history: deque[Attempt] = deque(maxlen=CONNECTION_HISTORY_MAX)
        self.sent = 0
        self.plain_sent: dict[int, int] = {}
        self.transmitted: dict[int, int] = {}
        """By lane: the largest counter that this process, or an earlier one, may have sent."""
        self.repeated: dict[int, int] = {}
        """By lane: the counter up to which messages have left before. A router that refuses one of
        them does not know what became of it then."""
        self.purging = 0
        """Works under way that end messages of it: nothing leaves before they are over."""
        self.tried_once: dict[int, int] = {}
        """By lane: before this counter, everything that was to be tried once was tried."""
        self.pace = Pace()
        self.repair = Repair()
        self.ends = Ends()
        self.trouble = Trouble()
        self.connected_s = 0
        self.turned_away: tuple[str, int, int] | None = None
        """Why its receiver turns its messages away, the stream that it is in, and since when."""

    def happens(self, event: LinkEvent, *, session: int = 0, retry_us: int = 0) -> None:
        """Something happens to its link; the table says what that leads to.

        Args:
            session: The one that serves it from now on; as it was where the table keeps that.
            retry_us: When to connect again, if that is put off.
        """
        before, after = self.link, LINKS[event].get(self.link)
        assert after is not None, f"{event.value}: the link of an outgoing queue is {before.value}"
        self.link = after
        if after is Link.CONNECTED or after is Link.CLOSING:
            self.session, self.retry_us = session or self.session, 0
        else:
            self.session, self.retry_us = 0, retry_us

    @property
    def over_http(self) -> bool:
        """Whether it is reached over HTTP."""
        return self.name.protocol.startswith("HTTP")

    @property
    def bound_name(self) -> str:
        """The name under which its manager is bound (``core/state/name_bindings.py``); "" if its
        name has the GUID of the manager, or nothing proves an identity."""
        name = self.name
        if name.kind is Kind.PUBLIC:
            return f"public:{name.guid.hex()}"
        if name.kind is not Kind.DIRECT or self.over_http:
            return ""
        return f"{name.protocol}:{name.host}".casefold()

    @property
    def ordered_lane(self) -> Positions:
        """The lane of transactional messages."""
        return self.lanes[TRANSACTIONAL_LANE]

    @property
    def ever_sent(self) -> int:
        """The largest counter of a transactional message that may have been transmitted."""
        return self.transmitted.get(TRANSACTIONAL_LANE, 0)

    def may_have_left(self, lane: int) -> int:
        """The largest counter of a lane that may have been transmitted, here or by another manager
        with this identity; what stands behind it is certainly not delivered."""
        return max(self.transmitted.get(lane, 0), self.elsewhere.get(lane, 0))

    @property
    def unacknowledged(self) -> int:
        """Transactional messages that no order acknowledgment covers."""
        lane = self.lanes.get(TRANSACTIONAL_LANE)
        return lane.available if lane is not None else 0

    def of_earlier_life(self, stamp: int) -> bool:
        """Whether what is transmitted now was begun by a life before the present one."""
        return self.unacknowledged > 0 and self.head.stream >> 32 != stamp

    def given(self, stamp: int) -> int:
        """Numbers given in the stream that the next message continues. 0: it begins another,
        because the last one is drained (EOD-12), or another life has begun it (I7).

        Args:
            stamp: The present one, the high half of the streams that begin now.
        """
        lane = self.lanes.get(TRANSACTIONAL_LANE)
        if lane is None or not lane.available or self.stream >> 32 != stamp:
            return 0
        return lane.next - 1 - self.base

    def base_of(self, stream: int) -> int | None:
        """The base of a stream of which messages are here."""
        return self.base if stream == self.stream else self.old.get(stream)

    def stretches(self) -> list[Stretch]:
        """The streams of which messages may be here, in the order in which they are sent."""
        return list(self.stretches_from(0))

    def stretches_from(self, counter: int) -> Iterator[Stretch]:
        """Those that end at a position or behind it, in order."""
        yield from self.old.behind(counter, self.base)
        yield Stretch(self.stream, self.base, OPEN_END)

    def stretch(self, counter: int) -> Stretch:
        """The stream that a position belongs to."""
        if counter > self.base:
            return Stretch(self.stream, self.base, OPEN_END)
        found = self.old.at(counter, self.base)
        assert found is not None, "no stream has that position"
        return found

    def stretch_of(self, stream: int) -> Stretch | None:
        """The positions of a stream of which messages are here."""
        if stream == self.stream:
            return Stretch(stream, self.base, OPEN_END)
        return self.old.of(stream, self.base)

    def place_of(self, counter: int) -> tuple[int, int]:
        """Stream and number of a position, which may belong to a stream left behind."""
        if counter > self.base:
            return self.stream, counter - self.base
        stretch = self.stretch(counter)
        return stretch.stream, counter - stretch.base

    def number_of(self, counter: int) -> int:
        """Sequence number of a position in its stream."""
        return self.place_of(counter)[1]

    def previous_of(self, counter: int) -> int:
        """Previous number of a position: 0 where nothing of its stream waits before it."""
        earlier = self.ordered_lane.last_before(counter)
        stretch = self.stretch(counter)
        return earlier - stretch.base if earlier > stretch.base else 0

    @property
    def head(self) -> Stretch:
        """The stream that is transmitted now: everything of those before it has gone (EOD-12)."""
        return self.stretch(self.ordered_lane.first_available())

    def reach(self, number: int, stamp: int) -> int:
        """The last position that an acknowledgment of that number covers, in the stream that is
        transmitted now.

        Nothing follows in a stream of an earlier life here. Where this store was copied, or put
        back, more may have followed in that life, and be acknowledged.
        """
        head = self.head
        last = min(head.base + number, head.end)
        return last if head.stream >> 32 == stamp else min(last, self.ordered_lane.next - 1)

    def left_before(self, lane: int, counter: int) -> bool:
        """Whether a message was transmitted before the present time, or by another manager with
        this identity: what a refusal says is not the whole truth then."""
        return counter <= max(self.repeated.get(lane, 0), self.elsewhere.get(lane, 0))

    def pending(self) -> bool:
        """Whether anything waits here that the peer has not acknowledged."""
        return any(map(_AVAILABLE, self.lanes.values()))

    def tried(self, status: ConnectionStatus, at_s: int, address: str, reason: str = "") -> None:
        """Remember how an attempt to connect goes; its end takes the place of its beginning."""
        history = self.history
        if history and history[-1].status is ConnectionStatus.IN_PROGRESS:
            begun = history.pop()
            address = address or begun.address
        elif not address and history:
            address = history[-1].address
        history.append(Attempt(status, at_s, address, reason))

    def rewind(self) -> None:
        """Everything unacknowledged is to be transmitted (again), from the head on."""
        if not self.over_http:
            self.repeated.update(self.transmitted)
        self.from_the_head()
        self.repair = Repair()
        self.plain_sent.clear()

    def from_the_head(self) -> None:
        """Its transactional messages are, and what lies in holes with them."""
        self.sent = 0
        self.repair.ranges.clear()
        self.repair.asked = (0, 0)

    def ask(self, count: int) -> None:
        """So many of those that were sent and are unacknowledged are transmitted again, from the
        head on, and what they are answered with says what else is missing."""
        lane, left, last = self.ordered_lane, count, 0
        head = lane.first_available()
        for first, size in lane.ranges(AVAILABLE, head, end=self.sent + 1):
            last = first + min(size, left) - 1
            left -= size
            if left <= 0:
                break
        self.repair.ranges[:] = [(head, last)] if last else []
        self.repair.asked = (count, last)
