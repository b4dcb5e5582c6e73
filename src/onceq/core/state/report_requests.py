"""Who wants to know how messages end: ranges of a lane, found by counter.

A sender may ask for dead letters, journal copies, final acknowledgments and acknowledgment
messages. That is noted by ranges: what is put one after another with the same wishes is one, so
that a queue of a million such messages has a few of these and not a million.

Upholds: I24 (found by bisection, let go of from the front).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from onceq.model.identity import NO_GUID

COMPACT_AT: Final = 1_024
"""Entries let go of before the list is made shorter."""


@dataclass(slots=True)
class ReportRequest:
    """A range in a queue whose sender wants to know how it ends.

    Attributes:
        source: Sending manager of what has arrived; zero for what was sent here.
        stream, number, message: Of the first message of an arrival; the others follow.
        flags: The bits ``PUT_...`` of ``core/state/records.py``.
        confirm_by: In outgoing queues: second at which the wait for their end is over.
        dead_letter_queue: Number of the sender's own dead-letter queue; 0: the system's.
    """

    first: int
    count: int
    source: bytes
    stream: int
    number: int
    message: int
    flags: int
    confirm_by: int
    dead_letter_queue: int = 0

    @property
    def end(self) -> int:
        """The first counter behind it."""
        return self.first + self.count

    def takes(self, other: ReportRequest) -> bool:
        """Whether another range, put later, is just more of this one."""
        same = (
            self.end == other.first
            and self.flags == other.flags
            and self.source == other.source
            and self.confirm_by == other.confirm_by
            and self.dead_letter_queue == other.dead_letter_queue
        )
        if not same or self.source == NO_GUID:
            return same
        return self.stream == other.stream and (
            not self.stream
            or (self.number + self.count, self.message + self.count)
            == (other.number, other.message)
        )


class ReportRequests:
    """The ranges of one lane, in order."""

    __slots__ = ("_items", "_start")

    def __init__(self, items: Iterable[ReportRequest] = ()) -> None:
        self._items = list(items)
        self._start = 0

    def __bool__(self) -> bool:
        return self._start < len(self._items)

    def __iter__(self) -> Iterator[ReportRequest]:
        items = self._items
        return (items[at] for at in range(self._start, len(items)))

    def since(self, counter: int) -> Iterator[ReportRequest]:
        """The ranges that end behind a counter."""
        items = self._items
        start = max(bisect_right(items, counter, lo=self._start, key=_first) - 1, self._start)
        return (one for one in islice(items, start, None) if one.end > counter)

    def taken(self) -> list[ReportRequest]:
        """The ranges as they are now; later changes do not touch these."""
        items = self._items[self._start :]
        if items:
            # Only the last one can still grow.
            items[-1] = replace(items[-1])
        return items

    def add(self, wanting: ReportRequest) -> None:
        """Note a range that lies behind all others."""
        items = self._items
        if self and items[-1].takes(wanting):
            items[-1].count += wanting.count
        else:
            items.append(wanting)

    def forget_before(self, head: int) -> None:
        """Nothing is left of what lies before a counter."""
        items, start = self._items, self._start
        while start < len(items) and items[start].end <= head:
            start += 1
        if start >= COMPACT_AT:
            del items[:start]
            start = 0
        self._start = start

    def at(self, counter: int) -> ReportRequest | None:
        """The range that a counter is in."""
        items = self._items
        index = bisect_right(items, counter, lo=self._start, key=_first) - 1
        if index < self._start or items[index].end <= counter:
            return None
        return items[index]

    def parts(self, first: int, count: int) -> list[tuple[ReportRequest | None, int, int]]:
        """A range cut where the wishes change: whose they are (None: nobody's), first, count."""
        items, end, at = self._items, first + count, first
        parts: list[tuple[ReportRequest | None, int, int]] = []
        index = max(bisect_right(items, first, lo=self._start, key=_first) - 1, self._start)
        while index < len(items) and items[index].first < end:
            w = items[index]
            index += 1
            start, stop = max(at, w.first), min(end, w.end)
            if start >= stop:
                continue
            if start > at:
                parts.append((None, at, start - at))
            parts.append((w, start, stop - start))
            at = stop
        if at < end:
            parts.append((None, at, end - at))
        return parts


NOBODY: Final = ReportRequests()
"""Where nobody asked. Never added to."""


def _first(wanting: ReportRequest) -> int:
    return wanting.first
