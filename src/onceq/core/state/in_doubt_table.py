"""Which dead letters are in doubt, and what a receiver remembers of streams that it has left.

Durable tables of ``State``, changed by ``apply`` only; the rules are in
``core/transfer/in_doubt.py``.

Upholds: I24 (both tables are bounded; what falls out stays in doubt).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from onceq.core.state.peer_table import Progress
from onceq.core.state.records import PUT_FINAL
from onceq.core.state.setups import StreamClaimed
from onceq.model.limits import DOUBTS_MAX, LEFT_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.packet.acks import StreamMemory

UNNAMED: Final = "private#00000000"
"""Under this key older versions have noted the streams that senders reported for any of their
public queues. The queue is not known, so records and checkpoints under the key are not read."""
DOUBTS_QUEUE: Final = 6
"""Number of the hidden queue of messages in doubt (``DOUBTS_KEPT`` of ``core/state/state.py``)."""
Place = tuple[int, int, int]
"""Queue, lane and counter of a dead letter."""
ANYBODY: Final = b""
"""In place of a manager: nobody is known that a message may have been given to."""


@dataclass(slots=True)
class Doubt:
    """A message with class 0xC003: a dead letter, or kept out of sight for those who asked.

    Attributes:
        outgoing: Number of the outgoing queue that it came from.
        queue, lane, counter: Where it is.
        arrived: Whether the receiver has said that it accepted it; only how it ended there is
            not known then.
        flags: What its sender asked to be told (the bits ``PUT_...``).
        given: GUIDs of the managers that it may have been transmitted to: their word counts, and
            nobody else's. None are known of what went over HTTP, and of a name that nobody was
            known to answer under.
    """

    outgoing: int
    queue: int
    lane: int
    counter: int
    arrived: bool
    flags: int = 0
    given: tuple[bytes, ...] = ()

    @property
    def known_to(self) -> tuple[bytes, ...]:
        """Whom to ask about it: GUIDs, or ``ANYBODY``."""
        return self.given or (ANYBODY,)


class OfQueue:
    """The doubts about messages of one outgoing queue.

    Attributes:
        streams: Those with doubts.
        unknown: By manager that messages may have been given to: those of them with such messages
            about which nothing is known, in order.
        count: How many messages these are.
        hidden: Stream and number of what is kept out of sight, and whose end nobody has promised to
            tell.
    """

    __slots__ = ("count", "hidden", "streams", "unknown")

    def __init__(self) -> None:
        self.streams: dict[int, None] = {}
        self.unknown: dict[bytes, list[int]] = {}
        self.count = 0
        self.hidden: dict[tuple[int, int], None] = {}


class OfStream:
    """The doubts about messages of one stream: all by number, those about which nothing is known,
    and the largest number that was among these since they began; and how many of these each manager
    may have been given."""

    __slots__ = ("doubts", "given", "last", "unknown")

    def __init__(self) -> None:
        self.doubts: dict[int, Doubt] = {}
        self.unknown: dict[int, None] = {}
        self.given = Counter[bytes]()
        self.last = 0


class Doubts:
    """Dead letters in doubt, by stream and number."""

    def __init__(self) -> None:
        self._streams: dict[int, OfStream] = {}
        self.places: dict[Place, tuple[int, int]] = {}
        """Where each stands: its stream and number."""
        self._of: dict[int, OfQueue] = {}
        """By number of the outgoing queue. A stream is of one only."""

    def __len__(self) -> int:
        return len(self.places)

    def add(self, stream: int, number: int, doubt: Doubt) -> None:
        """One more; it is not remembered if there are too many already."""
        if len(self) >= DOUBTS_MAX:
            return
        of = self._of.setdefault(doubt.outgoing, OfQueue())
        s = self._streams.setdefault(stream, OfStream())
        s.doubts[number] = doubt
        of.streams[stream] = None
        self.places[doubt.queue, doubt.lane, doubt.counter] = (stream, number)
        if doubt.queue == DOUBTS_QUEUE and not doubt.flags & PUT_FINAL:
            of.hidden[stream, number] = None
        if not doubt.arrived:
            for guid in doubt.known_to:
                if not s.given[guid]:
                    insort(of.unknown.setdefault(guid, []), stream)
                s.given[guid] += 1
            s.unknown[number] = None
            s.last = max(s.last, number)
            of.count += 1

    def find(self, stream: int, number: int) -> Doubt | None:
        """The doubt about a message."""
        found = self._streams.get(stream)
        return found.doubts.get(number) if found is not None else None

    def unknown(self, stream: int) -> list[int]:
        """Numbers of one stream about which nothing is known."""
        found = self._streams.get(stream)
        return list(found.unknown) if found is not None else []

    def streams_of(
        self, outgoing: int, managers: Iterable[bytes], start: int, count_max: int
    ) -> list[tuple[int, int]]:
        """Streams of an outgoing queue about which one of these managers may know something that
        is not known here, in order, from one on; each with a number behind which nothing is in
        doubt."""
        of = self._of.get(outgoing)
        if of is None:
            return []
        found: set[int] = set()
        for guid in managers:
            unknown = of.unknown.get(guid, [])
            at = bisect_left(unknown, start)
            found.update(unknown[at : at + count_max])
        return [(one, self._streams[one].last) for one in sorted(found)[:count_max]]

    def managers_of(self, outgoing: int) -> list[bytes]:
        """The managers that may know what is not known here of messages of an outgoing queue."""
        of = self._of.get(outgoing)
        return list(of.unknown) if of is not None else []

    def hidden(self, outgoing: int, count_max: int) -> list[Doubt]:
        """Doubts that are kept out of sight, and whose end nobody has promised to tell."""
        of = self._of.get(outgoing)
        found = islice(of.hidden, count_max) if of is not None else ()
        return [self._streams[stream].doubts[number] for stream, number in found]

    def concern(self, outgoing: int) -> bool:
        """Whether anything is in doubt, or its end not known, of an outgoing queue."""
        return outgoing in self._of

    def unsettled(self, outgoing: int) -> int:
        """How many messages of an outgoing queue nothing is known about."""
        of = self._of.get(outgoing)
        return of.count if of is not None else 0

    def at(self, place: Place) -> Doubt | None:
        """The doubt about a dead letter."""
        key = self.places.get(place)
        return self.find(*key) if key is not None else None

    def has_arrived(self, place: Place) -> None:
        """A message was accepted; only how it ended is not known."""
        key = self.places[place]
        doubt = self._streams[key[0]].doubts[key[1]]
        if not doubt.arrived:
            self._known(*key, doubt.outgoing)
            doubt.arrived = True

    def _known(self, stream: int, number: int, outgoing: int) -> None:
        """Something is known about a message."""
        s, of = self._streams[stream], self._of[outgoing]
        if s.unknown.pop(number, 0) == 0:
            return
        of.count -= 1
        for guid in s.doubts[number].known_to:
            s.given[guid] -= 1
            if s.given[guid]:
                continue
            streams = of.unknown[guid]
            del s.given[guid], streams[bisect_left(streams, stream)]
            if not streams:
                del of.unknown[guid]
        if not s.unknown:
            s.last = 0

    def forget(self, queue: int, lane: int, first: int, count: int) -> None:
        """These dead letters are gone, or certain."""
        # Either may be larger by far: a purge of millions, or millions of doubts.
        if count > len(self.places):
            gone = [p for p in self.places if p[:2] == (queue, lane)]
            places = [p for p in gone if first <= p[2] < first + count]
        else:
            places = [(queue, lane, counter) for counter in range(first, first + count)]
        for place in places:
            key = self.places.pop(place, None)
            if key is not None:
                self._forget(*key)

    def _forget(self, stream: int, number: int) -> None:
        s = self._streams[stream]
        outgoing = s.doubts[number].outgoing
        self._known(stream, number, outgoing)
        del s.doubts[number]
        of = self._of[outgoing]
        of.hidden.pop((stream, number), None)
        if not s.doubts:
            del self._streams[stream], of.streams[stream]
            if not of.streams:
                del self._of[outgoing]

    def dump(self) -> list[list[int]]:
        """As JSON."""
        return [
            [stream, number, d.outgoing, d.queue, d.lane, d.counter, int(d.arrived), d.flags]
            for stream, s in self._streams.items()
            for number, d in s.doubts.items()
        ]

    def dump_given(self) -> list[list[Any]]:
        """The managers that messages were given to, and for each message their places among these,
        as JSON. Versions that do not know of it read the rest."""
        places: dict[bytes, int] = {}
        rows = [
            [stream, number, [places.setdefault(guid, len(places)) for guid in d.given]]
            for stream, s in self._streams.items()
            for number, d in s.doubts.items()
        ]
        return [list(places), rows]

    def load(
        self, rows: list[list[int]], given: list[list[Any]] | None,
        served: Callable[[int], tuple[bytes, ...]],
    ) -> None:  # fmt: skip
        """From JSON.

        Args:
            given: As ``dump_given`` gave it; None: an older version has written these.
            served: Whom messages of an outgoing queue were ever given to, by its number.
        """
        managers = list(map(bytes.fromhex, given[0])) if given else []
        places = {(stream, number): at for stream, number, at in (given[1] if given else ())}
        for stream, number, outgoing, queue, lane, counter, arrived, *flags in rows:
            to = tuple(managers[at] for at in places.get((stream, number), ()))
            if given is None:
                to = served(outgoing)
            asked = flags[0] if flags else 0
            doubt = Doubt(outgoing, queue, lane, counter, bool(arrived), asked, to)
            self.add(stream, number, doubt)


class Memories:
    """Accepted numbers of former streams, for senders that ask; Progress has the current ones."""

    def __init__(self) -> None:
        self._left: OrderedDict[tuple[bytes, str, int], StreamMemory] = OrderedDict()
        self._claims: dict[tuple[bytes, str, int], int] = {}
        """Streams that were left, and the stream that goes on with what was not accepted of them
        (``core/transfer/abandoned_streams.py``)."""
        self.forgotten: dict[tuple[bytes, str], int] = {}
        """By sender and queue: the newest forgotten stream."""

    def advance(
        self, progress: Progress, stream: int, first: int, last: int, *, surely_new: bool
    ) -> None:
        """A stream goes on with the numbers from ``first`` to ``last``.

        Args:
            surely_new: Whether this manager has never lost what it knew of streams.
        """
        if stream != progress.stream:
            if progress.stream and not progress.vague:
                self._leave(progress)
            known = progress.stream and not progress.vague
            sure = known or (surely_new and not (progress.stream or progress.vague))
            # Of a stream that was there before an operator set its sender back, anything may have
            # been accepted then.
            sure = sure and stream > self.forgotten.get((progress.source, progress.key), 0)
            progress.since = 1 if sure else first
            if not sure:
                self._forgot(progress.source, progress.key, stream - 1)
            progress.stream, progress.last, progress.passed = stream, progress.since - 1, ()
        elif progress.vague:
            progress.since, progress.last, progress.passed = first, first - 1, ()
        progress.vague = False
        if first > progress.last + 1:
            progress.passed = (*progress.passed, (progress.last + 1, first - 1))
            if len(progress.passed) > PASSED_RANGES_MAX:
                progress.since = progress.passed[0][1] + 1
                progress.passed = progress.passed[1:]
        progress.last = last

    def _leave(self, progress: Progress) -> None:
        self._keep(progress.source, progress.key, self.current(progress, closed=True))

    def _keep(self, source: bytes, key: str, memory: StreamMemory) -> None:
        left = self._left
        left[source, key, memory.stream] = memory
        while len(left) > LEFT_STREAMS_MAX:
            gone, _ = left.popitem(last=False)
            self._claims.pop(gone, None)
            self._forgot(*gone)

    def _forgot(self, source: bytes, key: str, stream: int) -> None:
        self.forgotten[source, key] = max(self.forgotten.get((source, key), 0), stream)

    def apply(self, setup: StreamClaimed) -> None:
        """Apply a setup."""
        if setup.key != UNNAMED:
            self.claim((setup.source, setup.key, setup.stream), setup.by)

    def claim(self, key: tuple[bytes, str, int], by: int) -> None:
        """Another stream of the sender goes on with what was not accepted of one that was left, or
        never begun."""
        if key not in self._left:
            self._keep(key[0], key[1], StreamMemory(key[2], 1, 0, closed=True))
        self._claims[key] = by

    def claimed(self, source: bytes, key: str, stream: int) -> int:
        """The stream that goes on with the rest of another one; 0 if none does."""
        return self._claims.get((source, key, stream), 0)

    @staticmethod
    def current(progress: Progress, *, closed: bool = False) -> StreamMemory:
        """What is known of the stream that a receiver is in."""
        since = progress.last + 1 if progress.vague else progress.since
        return StreamMemory(progress.stream, since, progress.last, closed, progress.passed)

    def left(self, source: bytes, key: str, stream: int) -> StreamMemory | None:
        """What is known of a stream that was left."""
        return self._left.get((source, key, stream))

    def before(self, progress: Progress) -> StreamMemory | None:
        """The newest stream of a sender to a queue that was left for the one it is in now."""
        found = [
            memory
            for (source, key, stream), memory in self._left.items()
            if (source, key) == (progress.source, progress.key) and stream < progress.stream
        ]
        return max(found, key=lambda memory: memory.stream, default=None)

    def back(self, progress: Progress, stream: int) -> StreamMemory | None:
        """An operator sets a sender back to a stream that was left; what came behind it is
        forgotten. None: nothing is known of that one any more."""
        self._forgot(progress.source, progress.key, progress.stream)
        left = self._left
        found = left.get((progress.source, progress.key, stream))
        for place in [p for p in left if p[:2] == (progress.source, progress.key)]:
            if place[2] >= stream:
                del left[place]
                self._claims.pop(place, None)
        return found

    def lost(self) -> None:
        """The store was restored from a backup: nothing is known of what was left."""
        # ``forgotten`` stays: what was not known before is not known now.
        self._left.clear()
        self._claims.clear()

    def __iter__(self) -> Iterator[tuple[tuple[bytes, str, int], StreamMemory]]:
        return iter(self._left.items())

    def load(self, source: bytes, key: str, memory: StreamMemory, claimed: int = 0) -> None:
        """From a checkpoint."""
        self._left[source, key, memory.stream] = memory
        if claimed:
            self._claims[source, key, memory.stream] = claimed
