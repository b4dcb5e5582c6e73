"""Portions of long works: which messages one step ends, so that no other request waits long.

A purge, a deletion or a mass expiry may concern millions of messages. A step ends a bounded number
of them, in one record, and the next step continues (``Step.begin``). Meanwhile other requests are
served. What happens to a message between two portions counts: a client that receives it keeps it.

Upholds: I24 (no step is longer the more there is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import Range
from onceq.core.state.queues import AnyQueue
from onceq.core.state.state import State

ENDED_AT_ONCE: Final = 512
"""Messages that end in one step of a long work, if a report of their end was asked for..."""
UNASKED_FOR_ONE: Final = 8
"""... and for each of these, this number of messages without such a request."""
QUEUES_AT_ONCE: Final = 512
"""Outgoing queues that one step processes, if many are concerned."""


def some_at_a_time(
    state: State, queues: Iterable[AnyQueue | None], work: Callable[[list[OutgoingQueue]], None]
) -> Iterator[None]:
    """Apply work to many outgoing queues, some in each step; skip those that are gone by then."""
    todo, there = list(queues), state.all_queues
    for at in range(0, len(todo), QUEUES_AT_ONCE):
        if at:
            yield
        work([
            one for one in todo[at : at + QUEUES_AT_ONCE]
            if isinstance(one, OutgoingQueue) and there.get(one.number) is one
        ])  # fmt: skip


def numbered(state: State, numbers: Iterable[int]) -> Iterator[AnyQueue | None]:
    """Yield queues by their numbers; None for those that are gone."""
    return map(state.all_queues.get, numbers)


def share_of(queue: AnyQueue, index: int) -> int:
    """Return how many messages of a lane cost as much as one whose sender asks for its end."""
    # Such a message costs as much as one that is sent, and so does one that may be in doubt.
    return 1 if index in queue.wanting or isinstance(queue, OutgoingQueue) else UNASKED_FOR_ONE


class Portion:
    """The budget of what one step may still end."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENDED_AT_ONCE

    def ranges(self, queue: AnyQueue, index: int, state: int, end: int) -> Iterator[Range]:
        """Yield ranges of a lane in a state, before a counter, as far as the portion goes."""
        share = share_of(queue, index)
        if self.left > 0:
            most = self.left * share
            for first, count in queue.lanes[index].ranges(state, 0, end=end, count_max=most):
                yield first, count
                # Each range is a part of the record, even with few messages.
                self.left -= -(-count // share)
                if self.left <= 0:
                    return
