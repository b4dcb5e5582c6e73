"""What happens to messages, counted since the start: for metrics and the log, and nothing else.

A running table, written by the rooms where it happens, one number for a whole range or batch. No
rule looks at it, so what is counted decides nothing.

Upholds: I24 (a bounded number of counters, whatever others say).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from onceq.model.classes import MessageClass, class_name

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
