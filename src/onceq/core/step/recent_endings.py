"""What has happened to messages since the start: counts, and how the last ones ended.

Running tables. ``Counts`` are for metrics and the log: one number for a whole range or batch,
written by the rooms where it happens; no rule reads them. ``RecentEndings`` answer a reader that
comes back to a place and finds nothing there: of what ended without being received the last ranges
of each queue are kept.

Upholds: I24 (a bounded number of counters, of ranges and of queues, whatever others say).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from onceq.core.state.queue_tables import DAMAGED
from onceq.core.state.records import Op, RangeChange
from onceq.model.classes import MessageClass, class_name
from onceq.model.record import Record

REFUSED_HERE: Final = "messages refused"
REFUSED_THERE: Final = "messages refused by another queue manager"
LETTERS: Final = "dead letters"
OTHER: Final = "other"
"""In place of classes that only another queue manager knows."""
_KNOWN: Final = frozenset(map(int, MessageClass))


class Counts:
    """See the module.

    Attributes:
        sent: By applications.
        accepted: From other queue managers.
        received: By applications, for good.
        returned: Received by a transaction that gave them back.
        acknowledged: Taken over by another queue manager.
        resent: Transmitted once more.
        ended: Those that ended otherwise, by message class.
        refused: Requests, by the code of the error.
        reports_dropped: Trace reports that no report queue has taken: it is full, or nobody can say
            now where it is.
        noted: What the log is told of, and the class: of how many messages, and the queue of the
            last ones.
    """

    __slots__ = (
        "accepted", "acknowledged", "ended", "noted", "received", "refused", "reports_dropped",
        "resent", "returned", "sent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sent = self.accepted = self.received = self.returned = 0
        self.acknowledged = self.resent = self.reports_dropped = 0
        self.ended: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.noted: dict[tuple[str, int], tuple[int, str]] = {}

    def note(self, what: str, reason: int, count: int, queue: str) -> None:
        """Keep for the log what has happened to some messages.

        Args:
            what: REFUSED_HERE, REFUSED_THERE or LETTERS.
            reason: Their class; those that only another manager knows are one.
        """
        key = what, reason if reason in _KNOWN else 0
        before = self.noted.get(key)
        self.noted[key] = (before[0] if before else 0) + count, queue

    def taken(self) -> dict[tuple[str, int], tuple[int, str]]:
        """What was noted since this was asked last."""
        noted, self.noted = self.noted, {}
        return noted

    def by_class(self) -> dict[str, int]:
        """How many messages ended, by the name of the class."""
        found: Counter[str] = Counter()
        for value, count in self.ended.items():
            found[class_name(value) if value in _KNOWN else OTHER] += count
        return dict(found)


RANGES_KEPT: Final = 64
"""Of each queue. What expires or is purged in its order is one range."""
QUEUES_KEPT: Final = 1_024

_WORDS: Final[Mapping[int, str]] = {
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}
UNRECEIVED: Final = frozenset((Op.END, Op.SHIFT))
"""Operations that end what nobody has received."""


class EndedRange(Record, frozen=True):
    """Messages of a lane that ended in one way: counters ``first`` up to before ``end``."""

    lane: int
    first: int
    end: int
    how: str


class RecentEndings:
    """See the module."""

    def __init__(self) -> None:
        self._of: dict[int, deque[EndedRange]] = {}

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
        kept.append(EndedRange(move.lane, first, end, how))

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
