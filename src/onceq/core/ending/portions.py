"""Long works end messages in portions: which ones a step ends, so that nobody waits long for it.

A purge, a deletion or a mass expiry may concern millions of messages. A step ends a bounded number
of them, in one record, and the next step goes on (``Step.begin``). Meanwhile others are served. So
whatever happens to a message between two portions, has happened: who receives it, keeps it.

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
"""Messages that end in one step of a long work, if somebody asked how they end..."""
UNASKED_FOR_ONE: Final = 8
"""... and so many for each of these that nobody has asked of."""
QUEUES_AT_ONCE: Final = 512
"""Outgoing queues that one step looks at, of many to which something happens."""


def some_at_a_time(
    state: State, queues: Iterable[AnyQueue | None], work: Callable[[list[OutgoingQueue]], None]
) -> Iterator[None]:
    """Do something to many outgoing queues, a bounded number in each step; those that are gone by
    then are passed over."""
    todo, there = list(queues), state.all_queues
    for at in range(0, len(todo), QUEUES_AT_ONCE):
        if at:
            yield
        work([
            one for one in todo[at : at + QUEUES_AT_ONCE]
            if isinstance(one, OutgoingQueue) and there.get(one.number) is one
        ])  # fmt: skip


def numbered(state: State, numbers: Iterable[int]) -> Iterator[AnyQueue | None]:
    """Queues by their numbers; None for those that are gone."""
    return map(state.all_queues.get, numbers)


def share_of(queue: AnyQueue, index: int) -> int:
    """Messages of a lane that cost as much as one whose sender asks how it ends."""
    # Such a one costs as much as a message that is sent, and so does one that may be in doubt.
    return 1 if index in queue.wanting or isinstance(queue, OutgoingQueue) else UNASKED_FOR_ONE


class Portion:
    """What one step may still end."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENDED_AT_ONCE

    def ranges(self, queue: AnyQueue, index: int, state: int, end: int) -> Iterator[Range]:
        """Ranges of a lane in a state, before a counter, as far as the portion goes."""
        share = share_of(queue, index)
        if self.left > 0:
            most = self.left * share
            for first, count in queue.lanes[index].ranges(state, 0, end=end, count_max=most):
                yield first, count
                # Each range is a part of the record, however few messages are in it.
                self.left -= -(-count // share)
                if self.left <= 0:
                    return
