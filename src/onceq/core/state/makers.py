"""Who has made the queues, subqueues and outgoing queues of a queue manager, and how many.

It is noted when one is made, and holds as long as that is there, whatever becomes of the rights of
its maker. What the account that runs the queue manager has made is not noted.

Upholds: I22, I24 (shares of owners, ``model/shares.py``).
"""

from __future__ import annotations

from onceq.core.state.queues import AnyQueue, OutgoingQueue, Queue
from onceq.model.delayed import DELAYED
from onceq.model.shares import OwnerCounts, Thing


def thing_of(queue: AnyQueue) -> Thing:
    """As what a queue is counted."""
    if isinstance(queue, OutgoingQueue):
        return Thing.OUTGOING
    assert isinstance(queue, Queue)
    return Thing.QUEUES if queue.parent is None else Thing.SUBQUEUES


def is_counted(sub: str) -> bool:
    """Whether a subqueue of that name is counted. The one for delayed messages is not: there is at
    most one for each queue, and neither a commit nor an arrival may fail for it."""
    return sub.casefold() != DELAYED


class Makers:
    """See the module."""

    __slots__ = ("_of", "counts", "streams", "subqueues")

    def __init__(self) -> None:
        self._of: dict[int, str] = {}
        """By number."""
        self.subqueues = 0
        """Subqueues that are counted, whoever has made them."""
        self.streams = OwnerCounts()
        """Incoming streams that are remembered, by the GUID, in hexadecimal, of their sender."""
        self.counts = {
            thing: OwnerCounts() for thing in (Thing.QUEUES, Thing.SUBQUEUES, Thing.OUTGOING)
        }

    def of(self, number: int) -> str:
        """Who has made one; "": the account that runs the queue manager, or nobody knows."""
        return self._of.get(number, "")

    def made(self, queue: AnyQueue, who: str) -> None:
        """Somebody has made it."""
        if queue.number not in self._of:
            self._of[queue.number] = who
            self.counts[thing_of(queue)].add(who)

    def owned(self, queue: Queue | None, number: int, who: str) -> None:
        """Somebody owns a queue of that number, if it is there (0: older stores do not say which):
        before makers were noted, that was who had made it."""
        if queue is not None and number in (0, queue.number):
            self.made(queue, who)

    def gone(self, queue: AnyQueue) -> None:
        """It is there no more."""
        if isinstance(queue, Queue) and queue.parent is not None:
            self.subqueues -= is_counted(queue.sub)
        who = self._of.pop(queue.number, None)
        if who is not None:
            self.counts[thing_of(queue)].drop(who)

    def dump(self) -> list[tuple[int, str]]:
        """For a checkpoint: pairs of a number and its maker."""
        return list(self._of.items())
