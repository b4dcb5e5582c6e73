"""The streams of an outgoing queue that were begun before the present one.

An outgoing queue begins a stream whenever it has drained (EOD-12). Messages of earlier streams may
still be here: they await their end, or wait to be transmitted, in streams of earlier lives of this
manager. A queue of which each message is acknowledged before the next one is sent, and each sender
wants to know the end, has as many of them as messages. So they are found by bisection, and let go
of from the front.

What must hold: bases rise in the order in which the streams were begun, and none is here twice.

Upholds: I24 (a message does not cost more where many streams are remembered).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from onceq.model.record import Record

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
    """See the module. Streams with their bases."""

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
        """Forget those of which nothing is here; returns them.

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
