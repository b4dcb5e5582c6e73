"""When what is next over: keys in the order of their times.

Messages expire, and somebody has to look. To ask every queue each time, or every part of a long
queue, would cost more the more there are, although few are concerned. So whatever has a time notes
it here, and is given back when that has come; then it is looked at, and notes the next one. A time
may be too early: what was noted may be gone, or have got a later time meanwhile. It is never too
late, because each earlier one is noted.

Upholds: I24 (looking for what is due does not cost more where much is not).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from onceq.model.time import NEVER_S

K = TypeVar("K", int, tuple[int, int])

STALE_MAX: Final = 64
"""Times that a key has noted before an earlier one are kept up to that many, and as many more as
there are keys."""


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
