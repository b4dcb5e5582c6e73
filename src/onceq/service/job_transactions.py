"""Transactions of senders in a page of a job's messages: what is sent together stays together.

A page may end in the middle of one. Then the batch ends before it, if it can, so that the next page
begins with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from onceq.model.message import Message
from onceq.model.run import Run
from onceq.packet.batch import Batch
from onceq.packet.heads import head_of
from onceq.packet.transaction_survey import Survey


@dataclass(frozen=True, slots=True)
class PageTransactions:
    """The transactions of a page, each as the indexes of its messages, in its own order.

    Attributes:
        whole: The complete ones.
        parts: Others. Of some the rest may be behind the page.
    """

    whole: list[list[int]]
    parts: list[list[int]]

    def cut(self, count: int, wanted: int, *, last: bool, whole: bool) -> int:
        """Return how many messages a batch takes, so that it splits no transaction.

        Args:
            count: How many there are to take, of the whole page.
            wanted: How many it should take at most.
            last: Nothing behind these belongs to the job.
            whole: Return 0 rather than split one, and keep to ``wanted``. Else a transaction that
                goes on behind the page is split, and more than ``wanted`` may be taken.
        """
        if last and count <= wanted:
            return count
        ends = list(range(count))
        torn = self.parts if whole and not last else []
        for group, end in [(part, max(part)) for part in self.whole] + [
            (part, count) for part in torn
        ]:
            for index in group:
                if index < count:
                    ends[index] = max(ends[index], end)
        reach, best = -1, 0
        for index, end in enumerate(ends):
            reach = max(reach, end)
            if reach > index:
                continue
            if index + 1 <= wanted:
                best = index + 1
            elif not whole and not best:
                return index + 1
        return best or (0 if whole else wanted)


def wholes(page: Batch, destination: Callable[[Message], str]) -> PageTransactions:
    """Return the transactions of a page.

    Args:
        destination: Distinguishes messages that one transaction has sent to several queues and that
            are in one now, as dead letters are.
    """
    surveys: dict[str, Survey] = {}
    places = {lookup: index for index, lookup in enumerate(page.lookup_ids)}
    found = PageTransactions([], [])
    for index, packet in enumerate(page.run):
        message = page[index]
        if not message.transactional:
            continue
        head, arrived = Run.of([head_of(packet, 0)]), array("I", (0,))
        one = Batch(head, page.lookup_ids[index : index + 1], arrived, arrived)
        survey = surveys.setdefault(destination(message), Survey())
        found.whole.extend(
            [places[lookup] for lookup in members.lookups] for members in survey.add(one)
        )
    for survey in surveys.values():
        found.parts.extend(
            [places[lookup] for lookup in members.lookups] for members in survey.incomplete()
        )
    return found
