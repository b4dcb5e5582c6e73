"""What happens to messages, counted since the start: for metrics, and for nothing else.

A running table, written by the rooms where it happens, one number for a whole range or batch. No
rule looks at it, so what is counted decides nothing.

Upholds: I24 (a bounded number of counters, whatever others say).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from onceq.model.classes import MessageClass, class_name

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
    """

    __slots__ = (
        "accepted", "acknowledged", "ended", "received", "refused", "resent", "returned", "sent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sent = self.accepted = self.received = self.returned = 0
        self.acknowledged = self.resent = 0
        self.ended: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()

    def by_class(self) -> dict[str, int]:
        """How many messages ended, by the name of the class."""
        found: Counter[str] = Counter()
        for value, count in self.ended.items():
            found[class_name(value) if value in _KNOWN else OTHER] += count
        return dict(found)
