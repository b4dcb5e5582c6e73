"""Outgoing queues: their streams, attempts to transmit, and counts of how messages ended.

An outgoing queue begins a stream whenever it has drained (EOD-12). Messages of earlier streams may
still be here: they await their end, or wait to be transmitted, in streams of earlier lives of this
manager. A queue can have as many streams as messages, so ``EarlierStreams`` finds them by bisection
and forgets them from the front. Their bases rise in the order in which the streams were begun, and
no stream is here twice.

``Endings`` counts how messages ended, by class, since the queue was opened: a sender that asks for
nothing hears of no refusal, so operators read it here (finding U1). The counts are durable without
a record of their own: they follow from the records that end the messages, so a record that was lost
in a crash counts for nothing. Attempts belong to the running process.

Upholds: I22 (recovery counts what running has counted), I24 (each table is bounded, and a message
does not cost more where many streams are remembered), I26.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from onceq.core.state.log_space import Space
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import LINKS, Link, LinkEvent, Positions
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue
from onceq.core.state.setups import read_row, row_of
from onceq.model.limits import CONNECTION_HISTORY_MAX, HOLE_MESSAGES, LATE_REFUSALS_KEPT
from onceq.model.names import FormatName, Kind
from onceq.model.record import MutableRecord, Record
from onceq.model.resultcodes import ConnectionStatus, MessageClass
from onceq.packet.acks import StreamMemory

COMPACT_AT: Final = 1_024
"""Entries let go of before the list is made shorter."""
OPEN_END: Final = 1 << 62


class Stretch(Record, frozen=True):
    """Positions of an outgoing queue that belong to one stream: those behind ``base``, up to
    ``end``. Their numbers follow: number = counter - base."""

    stream: int
    base: int
    end: int


class EarlierStreams:
    """The earlier streams of an outgoing queue, with their bases."""

    __slots__ = ("_bases", "_order", "_start")

    def __init__(self) -> None:
        self._bases: dict[int, int] = {}
        self._order: list[tuple[int, int]] = []
        """Base and stream, in order."""
        self._start = 0

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[int]:
        return iter(self._bases)

    def items(self) -> list[tuple[int, int]]:
        """Streams and bases, the one that was begun first at the beginning."""
        return [(stream, base) for base, stream in self._order[self._start :]]

    def get(self, stream: int) -> int | None:
        """The base of a stream; None if it is not here."""
        return self._bases.get(stream)

    def add(self, stream: int, base: int) -> None:
        """A stream is not the present one any more."""
        self.drop(stream)
        self._bases[stream] = base
        insort(self._order, (base, stream), lo=self._start)

    def drop(self, stream: int) -> None:
        """Forget a stream, wherever it stands."""
        base = self._bases.pop(stream, None)
        if base is not None:
            del self._order[bisect_left(self._order, (base, stream), lo=self._start)]

    def forget(self, head: int, end: int) -> list[int]:
        """Forget the streams without messages here; return them.

        Args:
            head: No message has a smaller counter.
            end: The last counter of the stream that was left last.
        """
        gone: list[int] = []
        while self._bases:
            base, stream = self._order[self._start]
            stop = self._end(self._start, end)
            if stop >= head and stop > base:
                break
            del self._bases[stream]
            gone.append(stream)
            self._start += 1
        if self._bases and end <= self._order[-1][0]:
            gone.append(self._order[-1][1])
            self.drop(gone[-1])
        if self._start >= COMPACT_AT:
            del self._order[: self._start]
            self._start = 0
        return gone

    def at(self, counter: int, end: int) -> Stretch | None:
        """The stream that a position belongs to; None for one of the present stream.

        Args:
            end: The base of the present one.
        """
        place = bisect_left(self._order, (counter, 0), lo=self._start) - 1
        if counter > end or place < self._start:
            return None
        base, stream = self._order[place]
        return Stretch(stream, base, self._end(place, end))

    def of(self, stream: int, end: int) -> Stretch | None:
        """The positions of a stream; None if it is not here. ``end`` as for ``at``."""
        base = self._bases.get(stream)
        if base is None:
            return None
        place = bisect_left(self._order, (base, stream), lo=self._start)
        return Stretch(stream, base, self._end(place, end))

    def behind(self, counter: int, end: int) -> Iterator[Stretch]:
        """Those that end at a position or behind it, in order. ``end`` as for ``at``."""
        place = max(bisect_left(self._order, (counter, 0), lo=self._start) - 1, self._start)
        for at in range(place, len(self._order)):
            base, stream = self._order[at]
            # The last one may end before the position: that belongs to the stream that goes on.
            if self._end(at, end) >= counter:
                yield Stretch(stream, base, self._end(at, end))

    def _end(self, place: int, end: int) -> int:
        return self._order[place + 1][0] if place + 1 < len(self._order) else end


OTHER: Final = 0
"""In place of classes that only another queue manager knows."""
_KNOWN: Final = frozenset(map(int, MessageClass))


class EndingCount(MutableRecord):
    """Messages that ended in one way.

    Attributes:
        message_class: How they ended; OTHER stands for every class that is not known here.
        cause: Of those in doubt what has ended the wait for them (``Message.note``); else 0.
        messages: How many.
        letters: How many of them were kept as dead letters.
        at_s: When the last one ended.
        late: How many of them were refused when this manager had let go of them.
    """

    message_class: int
    cause: int
    messages: int = 0
    letters: int = 0
    at_s: int = 0
    late: int = 0


class LateRefusal(Record, frozen=True):
    """A message that its receiver has refused when its sender had let go of it.

    Attributes:
        id: As people write it.
        message_class: Why.
        at_s: When that was heard.
    """

    id: str
    message_class: int
    at_s: int


class Endings:
    """How messages of an outgoing queue ended: counts by class."""

    __slots__ = ("_rows", "late")

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], EndingCount] = {}
        self.late: list[LateRefusal] = []
        """The last ones; the rows count all."""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[EndingCount]:
        return iter(self._rows.values())

    def note(
        self, reason: int, cause: int, count: int, *, letters: int, at_s: int, late: int = 0
    ) -> None:
        """Some messages have ended.

        Args:
            letters: How many of them are kept as dead letters.
            late: How many of them were refused late.
        """
        key = int(reason) if reason in _KNOWN else OTHER, int(cause)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = EndingCount(*key)
        row.messages += count
        row.letters += letters
        row.late += late
        row.at_s = at_s

    def refuse_late(self, one: LateRefusal) -> None:
        """A message that was let go of was refused."""
        self.note(one.message_class, 0, 1, letters=0, at_s=one.at_s, late=1)
        self.late = [*self.late, one][-LATE_REFUSALS_KEPT:]

    def settle(
        self, doubt: int, cause: int, reason: int, *, letters: tuple[bool, bool], at_s: int
    ) -> None:
        """The true end of a message in doubt has become known: it counts where it belongs.

        Args:
            doubt: The class of what is in doubt.
            cause: What has ended the wait for it.
            reason: How it ended.
            letters: Whether it was a dead letter, and whether it is one now.
        """
        row = self._rows.get((doubt, cause))
        if row is None:
            return  # it ended before anybody counted
        row.messages -= 1
        row.letters -= letters[0]
        if row.messages <= 0:
            del self._rows[doubt, cause]
        self.note(reason, 0, 1, letters=int(letters[1]), at_s=at_s)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return list(map(row_of, self))

    def dump_late(self) -> list[list[Any]]:
        """The rows of a checkpoint of what was refused late."""
        return list(map(row_of, self.late))

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint; older ones do not count what was refused late."""
        for row in rows:
            self._rows[row[0], row[1]] = read_row(EndingCount, row)

    def load_late(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of what was refused late."""
        self.late = [read_row(LateRefusal, row) for row in rows]


@dataclass(slots=True)
class ResendTimer:
    """When a stream is sent again (EOD-16 to EOD-18). Monotonic microseconds; 0: not running."""

    due_us: int = 0
    timeouts: int = 0
    started_us: int = 0


@dataclass(slots=True)
class Repair:
    """What goes out again before anything else, because its receiver lacks it
    (``core/transfer/order_acknowledgments.py``).

    Attributes:
        ranges: First and last counter of each, in order; transmitted with the next room.
        about: Stream and number of the acknowledgment that was followed last; zeros: none was.
        times: How often that one was followed.
        end: The last counter of the hole that it named.
        until: The last counter that was sent again on account of a hole, or has come by itself.
        count: How many of a hole are sent again at a time.
        again_us: Before this time (monotonic) nothing up to ``until`` goes out again.
        heard: Session, stream and number of the last acknowledgment that says nothing of holes.
        guessed: The one of these that was taken for a hole.
        asked: How many messages ask what their receiver has, and the counter of the last of them;
            zeros: none do.
        probing: The session is new, and its receiver may have all that was sent before it: only a
            few go out until an order acknowledgment says where to go on.
    """

    ranges: list[tuple[int, int]] = field(default_factory=list)
    about: tuple[int, int] = (0, 0)
    times: int = 0
    end: int = 0
    until: int = 0
    count: int = HOLE_MESSAGES
    again_us: int = 0
    heard: tuple[int, int, int] = (0, 0, 0)
    guessed: tuple[int, int, int] = (0, 0, 0)
    asked: tuple[int, int] = (0, 0)
    probing: bool = False


@dataclass(slots=True)
class EndInquiries:
    """When to ask of which acknowledged messages the end will be told
    (``core/transfer/pending_outcomes.py``).

    Attributes:
        due_us: When; 0: no such timer runs.
        asked: How often it was asked without an answer.
        begin: By stream: the first number that the next question is about; all are if none is here.
        goes_on: The position from which on is asked next, if not all could be asked about at once.
        open: Streams of the question, all parts of it, that nothing was heard about yet.
    """

    due_us: int = 0
    asked: int = 0
    begin: dict[int, int] = field(default_factory=dict)
    goes_on: int = 0
    open: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Inquiries:
    """When to ask about messages in doubt (``core/transfer/in_doubt.py``).

    Attributes:
        due_us: When; 0: no such timer runs.
        asked: How often it was asked without an answer.
        goes_on: The stream from which on is asked next, if not all could be asked about at once.
    """

    due_us: int = 0
    asked: int = 0
    goes_on: int = 0

    def over(self) -> None:
        """There is nothing to ask about."""
        self.due_us = self.asked = self.goes_on = 0


@dataclass(slots=True)
class LastError:
    """Why an outgoing queue cannot move, in times and words for ``why``."""

    reason: str = ""
    since_s: int = 0
    last_s: int = 0
    attempts: int = 0


class ConnectionAttempt(Record, frozen=True):
    """One attempt to connect (Q-10): seconds since 1970, and the reason in words."""

    status: ConnectionStatus
    at_s: int
    address: str
    reason: str = ""


_AVAILABLE = attrgetter("available")


class OutgoingQueue(AnyQueue):
    """Messages that wait for one destination queue of another manager.

    In the transactional lane numbers follow counters: number = counter - base, within the stream
    that was begun last. ``old`` keeps the base of each earlier stream that still has messages
    here. ``also`` are other names, by key, that mean the same queue according to a directory
    (EOD-3).
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
        """Addresses that it may be connected to (``core/peers/answer_addresses.py``); None: any."""
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
        (``core/transfer/abandoned_streams.py``); 0: none."""
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
        self.told: dict[int, StreamMemory] = {}
        self.stranded_s = 0
        """Since when it is known that the receiver has left the stream that is transmitted."""
        self.inquiries = Inquiries()
        self.knows_delays: bool | None = None
        """Whether the manager that it was connected to last knows of delays (``core/delays.py``).
        None: it is not known."""
        self.history: deque[ConnectionAttempt] = deque(maxlen=CONNECTION_HISTORY_MAX)
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
        self.pace = ResendTimer()
        self.repair = Repair()
        self.ends = EndInquiries()
        self.trouble = LastError()
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
        """The name under which its manager is bound (``core/state/peer_table.py``); "" if its
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

    def numbers_given(self, stamp: int) -> int:
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
        """Return the base of a stream that has messages here."""
        return self.base if stream == self.stream else self.old.get(stream)

    def stretches(self) -> list[Stretch]:
        """Return the streams that may have messages here, in the order in which they are sent."""
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
        """Return the positions of a stream that has messages here."""
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
        history.append(ConnectionAttempt(status, at_s, address, reason))

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
        """Transmit ``count`` of the sent and unacknowledged messages again, from the head on; the
        answers to them say what else is missing."""
        lane, left, last = self.ordered_lane, count, 0
        head = lane.first_available()
        for first, size in lane.ranges(AVAILABLE, head, end=self.sent + 1):
            last = first + min(size, left) - 1
            left -= size
            if left <= 0:
                break
        self.repair.ranges[:] = [(head, last)] if last else []
        self.repair.asked = (count, last)
