"""When delayed messages are due, and when something expires.

A few of many messages are delayed, so ``DueTimes`` is a table beside the rows of a lane. A search
for what is due must not look at all of them: the times are in a heap as well, each with the counter
of its message as one number, which takes a third of a pair. A message may leave before its time;
its entry stays in the heap until then, or until there are too many stale entries. Every available
message with a time has its entry in the heap.

``ExpiryTimes`` says which queue, or which part of a long queue, to look at next: to ask each of
them every time would cost the more the more there are. A time may be too early, because the message
is gone or got a later time; it is never too late.

Upholds: I24 (a search for what is due costs nothing where nothing is due).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from onceq.model.time import NEVER_S

_SHIFT: Final = 56
"""Counters are below 2**56: lookup identifiers have no room for more."""
_COUNTER: Final = (1 << _SHIFT) - 1
STALE_MAX: Final = 64
"""Stale entries of a heap are kept up to that many, and as many more as there are valid ones."""


class DueTimes:
    """See the module. Seconds since 1970 UTC."""

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
        """Counters of what is due, in the order of its times, up to so many. Each is told once,
        until ``again`` says that it may be told again."""
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
    """See the module. Seconds since 1970."""

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
