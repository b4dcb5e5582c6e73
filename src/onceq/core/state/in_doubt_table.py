"""Which dead letters are in doubt, and what a receiver remembers of streams that it has left.

Durable tables of ``State``, changed by ``apply`` only; the rules are in
``core/transfer/in_doubt.py``.

Upholds: I24 (both tables are bounded; what falls out stays in doubt).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from onceq.core.state.queues import Progress
from onceq.model.limits import DOUBTS_MAX, LEFT_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.packet.settle import Memory

Place = tuple[int, int, int]
"""Queue, lane and counter of a dead letter."""


@dataclass(slots=True)
class Doubt:
    """A message with class 0xC003: a dead letter, or kept out of sight for those who asked.

    Attributes:
        outgoing: Number of the outgoing queue that it came from.
        queue, lane, counter: Where it is.
        arrived: Whether the receiver has said that it accepted it; only how it ended there is
            not known then.
        flags: What its sender asked to be told (the bits ``PUT_...``).
    """

    outgoing: int
    queue: int
    lane: int
    counter: int
    arrived: bool
    flags: int = 0


class Doubts:
    """Dead letters in doubt, by stream and number."""

    def __init__(self) -> None:
        self._streams: dict[int, dict[int, Doubt]] = {}
        self.places: dict[Place, tuple[int, int]] = {}
        """Where each stands: its stream and number."""
        self._of: dict[int, dict[int, None]] = {}
        """Outgoing queue to the streams of its doubts."""

    def __len__(self) -> int:
        return len(self.places)

    def add(self, stream: int, number: int, doubt: Doubt) -> None:
        """One more; it is not remembered if there are too many already."""
        if len(self) < DOUBTS_MAX:
            self._streams.setdefault(stream, {})[number] = doubt
            self._of.setdefault(doubt.outgoing, {})[stream] = None
            self.places[doubt.queue, doubt.lane, doubt.counter] = (stream, number)

    def find(self, stream: int, number: int) -> Doubt | None:
        """The doubt about a message."""
        return self._streams.get(stream, {}).get(number)

    def of_stream(self, stream: int) -> list[tuple[int, Doubt]]:
        """Numbers and doubts of one stream."""
        return list(self._streams.get(stream, {}).items())

    def streams_of(self, outgoing: int) -> dict[int, int]:
        """Streams of an outgoing queue with the largest number about which nothing is known."""
        found: dict[int, int] = {}
        for stream in self._of.get(outgoing, ()):
            for number, doubt in self._streams[stream].items():
                if not doubt.arrived:
                    found[stream] = max(found.get(stream, 0), number)
        return found

    def of_outgoing(self, outgoing: int) -> list[Doubt]:
        """The doubts about messages of an outgoing queue."""
        streams = self._of.get(outgoing, ())
        return [doubt for stream in streams for doubt in self._streams[stream].values()]

    def concern(self, outgoing: int) -> bool:
        """Whether anything is in doubt, or its end not known, of an outgoing queue."""
        return outgoing in self._of

    def unsettled(self, outgoing: int) -> int:
        """How many messages of an outgoing queue nothing is known about."""
        return sum(not doubt.arrived for doubt in self.of_outgoing(outgoing))

    def at(self, place: Place) -> Doubt | None:
        """The doubt about a dead letter."""
        key = self.places.get(place)
        return self.find(*key) if key is not None else None

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
                numbers = self._streams[key[0]]
                outgoing = numbers.pop(key[1]).outgoing
                if not numbers:
                    del self._streams[key[0]]
                    del self._of[outgoing][key[0]]
                    if not self._of[outgoing]:
                        del self._of[outgoing]

    def dump(self) -> list[list[int]]:
        """As JSON."""
        return [
            [stream, number, d.outgoing, d.queue, d.lane, d.counter, int(d.arrived), d.flags]
            for stream, numbers in self._streams.items()
            for number, d in numbers.items()
        ]

    def load(self, values: list[list[int]]) -> None:
        """From JSON."""
        for stream, number, outgoing, queue, lane, counter, arrived, *flags in values:
            doubt = Doubt(outgoing, queue, lane, counter, bool(arrived), *flags)
            self.add(stream, number, doubt)


class Memories:
    """What was accepted of streams, for senders that ask: the current one stands in Progress."""

    def __init__(self) -> None:
        self._left: OrderedDict[tuple[bytes, str, int], Memory] = OrderedDict()
        self._claims: dict[tuple[bytes, str, int], int] = {}
        """Streams that were left, and the stream that goes on with what was not accepted of them
        (``core/transfer/stranded.py``)."""
        self.forgotten: dict[tuple[bytes, str], int] = {}
        """By sender and queue: the newest stream of which nothing is known any more."""

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

    def _keep(self, source: bytes, key: str, memory: Memory) -> None:
        left = self._left
        left[source, key, memory.stream] = memory
        while len(left) > LEFT_STREAMS_MAX:
            gone, _ = left.popitem(last=False)
            self._claims.pop(gone, None)
            self._forgot(*gone)

    def _forgot(self, source: bytes, key: str, stream: int) -> None:
        self.forgotten[source, key] = max(self.forgotten.get((source, key), 0), stream)

    def claim(self, key: tuple[bytes, str, int], by: int) -> None:
        """Another stream of the sender goes on with what was not accepted of one that was left, or
        never begun."""
        if key not in self._left:
            self._keep(key[0], key[1], Memory(key[2], 1, 0, closed=True))
        self._claims[key] = by

    def claimed(self, source: bytes, key: str, stream: int) -> int:
        """The stream that goes on with the rest of another one; 0 if none does."""
        return self._claims.get((source, key, stream), 0)

    @staticmethod
    def current(progress: Progress, *, closed: bool = False) -> Memory:
        """What is known of the stream that a receiver is in."""
        since = progress.last + 1 if progress.vague else progress.since
        return Memory(progress.stream, since, progress.last, closed, progress.passed)

    def left(self, source: bytes, key: str, stream: int) -> Memory | None:
        """What is known of a stream that was left."""
        return self._left.get((source, key, stream))

    def before(self, progress: Progress) -> Memory | None:
        """The newest stream of a sender to a queue that was left for the one it is in now."""
        found = [
            memory
            for (source, key, stream), memory in self._left.items()
            if (source, key) == (progress.source, progress.key) and stream < progress.stream
        ]
        return max(found, key=lambda memory: memory.stream, default=None)

    def back(self, progress: Progress, stream: int) -> Memory | None:
        """An operator sets a sender back to a stream that was left; what came behind it is
        forgotten. None: nothing is known of that one any more."""
        left = self._left
        found = left.get((progress.source, progress.key, stream))
        for place in [p for p in left if p[:2] == (progress.source, progress.key)]:
            if place[2] >= stream:
                del left[place]
        return found

    def lost(self) -> None:
        """The store was restored from a backup: nothing is known of what was left."""
        # ``forgotten`` stays: what was not known before is not known now.
        self._left.clear()
        self._claims.clear()

    def __iter__(self) -> Iterator[tuple[tuple[bytes, str, int], Memory]]:
        return iter(self._left.items())

    def load(self, source: bytes, key: str, memory: Memory, claimed: int = 0) -> None:
        """From a checkpoint."""
        self._left[source, key, memory.stream] = memory
        if claimed:
            self._claims[source, key, memory.stream] = claimed
