"""How messages ended last that nobody received: the expired, the purged, the moved.

A reader that comes back to a place and finds nothing there asks what has become of it. What was
received, a position tells no longer; of what ended otherwise the last ranges of each queue are kept
here. This is a running table: it knows what has happened since the start of this process, and not
more than a bounded part of that.

Upholds: I24 (a bounded number of ranges, of a bounded number of queues).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from onceq.core.state.queue_tables import DAMAGED
from onceq.core.state.records import Op, RangeChange
from onceq.model.classes import MessageClass
from onceq.model.record import Record

RANGES_KEPT: Final = 64
"""Of each queue. What expires or is purged in its order is one range."""
QUEUES_KEPT: Final = 1_024

_WORDS: Final[Mapping[int, str]] = {
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}
UNRECEIVED: Final = frozenset((Op.END, Op.SHIFT))
"""Operations that end what nobody has received."""


class Stretch(Record, frozen=True):
    """Messages of a lane that ended in one way: counters ``first`` up to before ``end``."""

    lane: int
    first: int
    end: int
    how: str


class Ended:
    """See the module."""

    def __init__(self) -> None:
        self._of: dict[int, deque[Stretch]] = {}

    def note(self, move: RangeChange) -> None:
        """Messages leave their places, and are not received."""
        if move.op == Op.SHIFT:
            how = "moved"
        elif move.to == DAMAGED:
            how = "damaged"
        else:
            how = _WORDS.get(move.reason, "purged")
        kept = self._of.get(move.queue)
        if kept is None:
            if len(self._of) >= QUEUES_KEPT:
                del self._of[next(iter(self._of))]
            kept = self._of[move.queue] = deque(maxlen=RANGES_KEPT)
        first, end = move.first, move.first + move.count
        if kept:
            last = kept[-1]
            if (last.lane, last.end, last.how) == (move.lane, first, how):
                first = kept.pop().first
        kept.append(Stretch(move.lane, first, end, how))

    def forget(self, number: int) -> None:
        """A queue is gone."""
        self._of.pop(number, None)

    def count(self, number: int, lane: int, first: int, end: int) -> dict[str, int]:
        """How many messages of a range ended in which way, as far as that is kept."""
        found: dict[str, int] = {}
        for one in self._of.get(number, ()):
            size = min(end, one.end) - max(first, one.first)
            if one.lane == lane and size > 0:
                found[one.how] = found.get(one.how, 0) + size
        return found
