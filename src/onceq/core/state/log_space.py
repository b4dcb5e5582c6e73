"""Which parts of the log are still needed, and which are damaged.

The store may give back a segment only when no message is in it. The core knows the address of each
message, but not the files of the store, so it counts live bytes in small regions of the log. A
region begins at the position of a record, so no message is in two regions.

Messages whose bytes are damaged are set aside (``core/management/damage.py``). What still has a
place in the log is in the hidden queue DAMAGED, so that its part of the log is kept for people to
look at; an entry here says where those messages were. There is one entry for each run of damaged
neighbours, and no remote party can make any.

Also here:

* When delayed messages are due, and when something expires.

Upholds: I24 (bounded by the log, and by the damage of the disk).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

from onceq.core.state.setups import FoundDamaged, read_fields
from onceq.model.marks import NEVER_S
from onceq.model.record import MutableRecord
from onceq.model.run import Extent

# ---- log space -----------------------------------------------------------------------------------


REGION_BYTES = 1 << 20
"""A new region begins with the first record after this many bytes."""


@dataclass(frozen=True, slots=True)
class LiveMessages:
    """Messages whose packets lie in one part of the log (for moving them elsewhere)."""

    queue: int
    lane: int
    counters: tuple[int, ...]
    extents: tuple[Extent, ...]
    lengths: array[int]


class Space:
    """Live bytes by region of the log."""

    __slots__ = ("_live", "bases", "region_end", "total")

    def __init__(self) -> None:
        self.bases: list[int] = []
        """Where the regions begin, in order; nothing before the first of them is needed."""
        self._live: dict[int, int] = {}
        self.region_end = 0
        """The first record with messages that begins here or later begins a region."""
        self.total = 0

    def begin(self, position: int) -> None:
        """A region begins, with the record at ``position``."""
        bases = self.bases
        # ``sub`` never drops the last region, because the next message may come to lie in it.
        if bases and self._live[bases[-1]] == 0:
            del self._live[bases.pop()]
        self.restore(position)

    def add(self, address: int, size: int) -> None:
        """Bytes at ``address`` are needed from now on."""
        bases = self.bases
        base = bases[-1] if address >= bases[-1] else bases[bisect_right(bases, address) - 1]
        self._live[base] += size
        self.total += size

    def sub(self, address: int, size: int) -> None:
        """Bytes at ``address`` are not needed any more."""
        bases = self.bases
        index = bisect_right(bases, address) - 1
        base = bases[index]
        left = self._live[base] - size
        assert left >= 0, f"region {base:#x} would hold {left} live bytes"
        self.total -= size
        if left == 0 and index != len(bases) - 1:
            del bases[index], self._live[base]
        else:
            self._live[base] = left

    def next_region(self, address: int) -> int:
        """Where the region behind the one of an address begins."""
        bases = self.bases
        index = bisect_right(bases, address)
        return bases[index] if index < len(bases) else 1 << 64

    def one_region(self, start: int, end: int) -> bool:
        """Whether bytes from ``start`` up to ``end`` lie in one region."""
        bases = self.bases
        return start >= bases[-1] or bisect_right(bases, start) == bisect_left(bases, end)

    def restore(self, base: int) -> None:
        """A region of a checkpoint, in order; its bytes are added as its messages are."""
        self.bases.append(base)
        self._live[base] = 0
        self.region_end = base + REGION_BYTES

    def prune(self) -> None:
        """Forget regions of a checkpoint in which nothing turned out to live."""
        for base in self.bases[:-1]:
            if self._live[base] == 0:
                del self._live[base]
        self.bases = [base for base in self.bases if base in self._live]

    def live_bytes(self, base: int, end: int) -> int:
        """Live bytes of all regions that begin in [base, end), and of one that reaches in."""
        bases = self.bases
        first = bisect_left(bases, base)
        if first and (first == len(bases) or bases[first] > base):
            first -= 1
        return sum(self._live[b] for b in bases[first : bisect_left(bases, end)])

    def dump(self) -> list[tuple[int, int]]:
        """Region bases and live bytes, for checks."""
        return [(base, self._live[base]) for base in self.bases]


class Damage(MutableRecord):
    """Neighbouring messages that were set aside together.

    Attributes:
        number: For operators.
        queue: Title of the queue, or name of the outgoing queue, that they were in.
        lookup: Lookup identifier of the first.
        first: Counter of the first in DAMAGED; 0: they have no place there (they had left their
            queue before anybody looked at their bytes).
        at_s: When, in seconds since 1970.
        reason: Class with which they ended in an outgoing queue; 0 in others.
    """

    number: int
    queue: str
    lookup: int
    count: int
    first: int
    bytes: int
    address: int
    at_s: int
    reason: int = 0


class Damages:
    """All that was set aside and not dropped yet."""

    def __init__(self) -> None:
        self._entries: dict[int, Damage] = {}
        self.next_number = 1

    def __iter__(self) -> Iterator[Damage]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def apply(self, setup: FoundDamaged) -> None:
        """Apply a setup."""
        self.add(
            setup.queue, setup.lookup, 1, first=0, bytes=setup.bytes, address=setup.address,
            at_s=setup.at_s,
        )  # fmt: skip

    def add(
        self, queue: str, lookup: int, count: int, *, first: int, bytes: int, address: int,
        at_s: int, reason: int = 0,
    ) -> None:  # fmt: skip
        """One more run; neighbours of the last one join it."""
        last = self._entries.get(self.next_number - 1)
        if (
            last is not None
            and (last.queue, last.reason) == (queue, reason)
            and last.lookup + last.count == lookup
            and (last.first + last.count == first if last.first else not first)
        ):
            last.count += count
            last.bytes += bytes
            return
        self._entries[self.next_number] = Damage(
            self.next_number, queue, lookup, count, first, bytes, address, at_s, reason
        )
        self.next_number += 1

    def get(self, number: int) -> Damage | None:
        """The entry with a number."""
        return self._entries.get(number)

    def drop(self, number: int) -> None:
        """Forget an entry."""
        del self._entries[number]

    def dump(self) -> dict[str, Any]:
        """The member of a checkpoint, in which entries have names for their fields."""
        return {"next": self.next_number, "entries": [asdict(entry) for entry in self]}

    def load(self, values: dict[str, Any]) -> None:
        """Take the member of a checkpoint."""
        self.next_number = values.get("next", 1)
        for entry in values.get("entries", ()):
            damage = read_fields(Damage, entry)
            self._entries[damage.number] = damage


# ---- message times -------------------------------------------------------------------------------


_SHIFT: Final = 56
"""Counters are below 2**56: lookup identifiers have no room for more."""
_COUNTER: Final = (1 << _SHIFT) - 1
STALE_MAX: Final = 64
"""Stale entries of a heap are kept up to that many, and as many more as there are valid ones."""


class DueTimes:
    """When delayed messages are due, in seconds since 1970 UTC.

    A few of many messages are delayed, so ``DueTimes`` is a table beside the rows of a lane. A
    search for what is due must not look at all of them: the times are in a heap as well, each with
    the counter of its message as one number, which takes a third of a pair. A message may leave
    before its time; its entry stays in the heap until then, or until there are too many stale
    entries. Every available message with a time has its entry in the heap.

    ``ExpiryTimes`` says which queue, or which part of a long queue, to look at next: to ask each of
    them every time would cost the more the more there are. A time may be too early, because the
    message is gone or got a later time; it is never too late.
    """

    __slots__ = ("_heap", "_times", "latest")

    def __init__(self) -> None:
        self._times: dict[int, int] = {}
        self._heap: list[int] = []
        self.latest = 0
        """None is due later, as far as anybody has noted."""

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, counter: int) -> bool:
        return counter in self._times

    def at(self, counter: int) -> int:
        """When a message is due; 0: it is not delayed."""
        return self._times.get(counter, 0)

    def add(self, first: int, count: int, due_s: int) -> None:
        """Messages are due at a time."""
        self.latest = max(self.latest, due_s)
        for counter in range(first, first + count):
            self._times[counter] = due_s
            heappush(self._heap, due_s << _SHIFT | counter)

    def again(self, first: int, count: int) -> None:
        """Messages that could not be moved when they were due can be now."""
        for counter in range(first, first + count):
            due_s = self._times.get(counter)
            if due_s is not None:
                heappush(self._heap, due_s << _SHIFT | counter)
        self._trim()

    def forget(self, first: int, count: int) -> None:
        """Messages are gone."""
        times = self._times
        for counter in range(first, first + count):
            times.pop(counter, None)
        self._trim()

    def _trim(self) -> None:
        """Let no more entries stand than are needed, and some."""
        if len(self._heap) > 2 * len(self._times) + STALE_MAX:
            self._heap = [due_s << _SHIFT | counter for counter, due_s in self._times.items()]
            heapify(self._heap)

    @property
    def next(self) -> int:
        """When the first of them is due; NEVER_S if there is none."""
        heap = self._heap
        while heap and self._times.get(heap[0] & _COUNTER) != heap[0] >> _SHIFT:
            heappop(heap)
        return heap[0] >> _SHIFT if heap else NEVER_S

    def take(self, now_s: int, count_max: int) -> list[int]:
        """Return counters of due messages in the order of their times, up to the given number.
        Each is returned once, until ``again`` says that it may be returned again."""
        found: list[int] = []
        while len(found) < count_max and self.next <= now_s:
            counter = heappop(self._heap) & _COUNTER
            # The same entry may stand there twice.
            if not found or found[-1] != counter:
                found.append(counter)
        return found

    def rows(self) -> Iterator[tuple[int, int]]:
        """Counters and times; nothing may come or go meanwhile."""
        return iter(self._times.items())

    def dump(self) -> list[tuple[int, int]]:
        """The same for a checkpoint."""
        return list(self.rows())

    def load(self, rows: Iterable[tuple[int, int]]) -> None:
        """What ``dump`` gave."""
        for counter, due_s in rows:
            self.add(counter, 1, due_s)


K = TypeVar("K", int, tuple[int, int])


class ExpiryTimes(Generic[K]):
    """When something expires, by key, in seconds since 1970."""

    __slots__ = ("_heap", "_soonest")

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        """Times and keys; only those count that are the soonest of their keys."""
        self._soonest: dict[K, int] = {}

    def note(self, key: K, at_s: int) -> None:
        """Something of this key is over at a time; NEVER_S: it is not."""
        if at_s < self._soonest.get(key, NEVER_S):
            self._soonest[key] = at_s
            heappush(self._heap, (at_s, key))
            if len(self._heap) > 2 * len(self._soonest) + STALE_MAX:
                self._heap = [(soonest, one) for one, soonest in self._soonest.items()]
                heapify(self._heap)

    @property
    def next(self) -> int:
        """The time of the key that is next; NEVER_S if none has one."""
        heap = self._heap
        while heap and self._soonest.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER_S

    def due(self, now_s: int) -> K | None:
        """The key whose time has come first; it has none any more. None: it has come for none."""
        if self.next > now_s:
            return None
        _, key = heappop(self._heap)
        del self._soonest[key]
        return key
