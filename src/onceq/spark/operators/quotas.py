"""The quotas of queues on arrays: which messages that arrive find no room (Q-19).

Whether there is room depends on what was stored before and has not left yet, and so on every
decision before. Where nothing is refused all of that is one sum, made for all queues at once; a
queue whose quota bites is decided message by message, and only such a one. Pure functions;
``tests/property/test_spark_settle.py`` compares them with the core.

Upholds: I13 (true acknowledgments).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

from onceq.spark.operators.rules import Flags, Ints

FOREVER: Final = int(np.iinfo(np.int64).max)
"""When that leaves of which nobody knows that it ever does."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages that arrive, queue by queue and in order; an array for each field.

    Attributes:
        queues: Place of the queue of each in the limits; it never falls.
        at: When, in microseconds; what claims to be earlier than one before it counts as late
            as that.
        sizes: Bytes of their packets.
        leaves: When they leave their queues again (received, or expired), if they enter them.
        enters: Whether nothing else keeps them out.
    """

    queues: Ints
    at: Ints
    sizes: Ints
    leaves: Ints
    enters: Flags

    def part(self, rows: Ints) -> Arrivals:
        """Some of them."""
        return Arrivals(
            self.queues[rows], self.at[rows], self.sizes[rows], self.leaves[rows],
            self.enters[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """What lies in queues: bytes by queue and time at which they leave."""

    queues: Ints
    leaves: Ints
    sizes: Ints

    def without(self, gone: Flags) -> Held:
        """What is left when some of it has gone."""
        return Held(self.queues[~gone], self.leaves[~gone], self.sizes[~gone])

    def together(self) -> Held:
        """One entry for all that leaves a queue at one time."""
        order = np.lexsort((self.leaves, self.queues))
        queues, leaves = self.queues[order], self.leaves[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (queues[1:] != queues[:-1]) | (leaves[1:] != leaves[:-1])
        first = np.flatnonzero(new)
        sizes = np.add.reduceat(self.sizes[order], first) if len(first) else self.sizes
        return Held(queues[first], leaves[first], sizes)


def without_room(m: Arrivals, limits: Ints, held: Held) -> Flags:
    """Which messages exceed the quota of their queue: it holds more with them than it may.

    What leaves at the moment at which another arrives has left; what is refused takes no room.

    Args:
        limits: Bytes that each queue may hold.
        held: What lies there before.
    """
    # A queue has room for ever if it has for all of this at once.
    most = np.zeros(len(limits), np.int64)
    np.add.at(most, held.queues, held.sizes)
    np.add.at(most, m.queues, m.sizes)
    at = np.flatnonzero((most > limits)[m.queues])
    full = np.zeros(len(m.queues), np.bool_)
    if not len(at):
        return full
    part = m.part(at)
    full[at] = part.enters & (_occupied(part, len(limits), held) + part.sizes > limits[part.queues])
    bounds = np.searchsorted(m.queues, np.arange(len(limits) + 1))
    for queue in np.unique(m.queues[full]).tolist():
        rows = slice(bounds[queue], bounds[queue + 1])
        mine = held.queues == queue
        before = zip(held.leaves[mine].tolist(), held.sizes[mine].tolist(), strict=True)
        full[rows] = list(_one_by_one(m, rows, int(limits[queue]), before))
    return full


def after(m: Arrivals, stored: Flags, held: Held, since: Ints) -> tuple[Held, Ints]:
    """What lies in the queues when the last of these messages has arrived, and when that was.

    Args:
        since: When the last one before these arrived, for each queue.
    """
    both = Held(
        np.concatenate((held.queues, m.queues[stored])),
        np.concatenate((held.leaves, m.leaves[stored])),
        np.concatenate((held.sizes, m.sizes[stored])),
    )
    last = since.copy()
    np.maximum.at(last, m.queues, m.at)
    return both.without(both.leaves <= last[both.queues]).together(), last


def _occupied(m: Arrivals, queues: int, held: Held) -> Ints:
    """What each message finds in its queue, if nothing were refused."""
    # A time with its queue in front is one number that only rises.
    scale, rank = _ruler(m.at, queues)
    now = np.maximum.accumulate(m.queues * scale + rank(m.at))
    ends = np.searchsorted(m.queues, np.arange(queues), side="right")
    left = np.zeros(len(m.queues), np.int64)

    def leave(of: Ints, leaves: Ints, sizes: Ints, least: Any) -> None:
        at = np.searchsorted(now, of * scale + rank(leaves))
        at = np.maximum(at, least)
        seen = at < ends[of]
        np.add.at(left, at[seen], sizes[seen])

    sizes = np.where(m.enters, m.sizes, 0)
    # Nothing leaves before it has come, whatever its times say.
    leave(m.queues, m.leaves, sizes, np.arange(len(m.queues)) + 1)
    leave(held.queues, held.leaves, held.sizes, 0)
    come, gone = np.cumsum(sizes) - sizes, np.cumsum(left)
    base = np.zeros(queues, np.int64)
    np.add.at(base, held.queues, held.sizes)
    first = np.searchsorted(m.queues, m.queues)
    found: Ints = base[m.queues] + come - come[first] - gone + gone[first] - left[first]
    return found


def _ruler(at: Ints, queues: int) -> tuple[int, Callable[[Ints], Ints]]:
    """Times as small numbers: how many there are, and the number of any time, which is the last
    one behind all of ``at``."""
    low, high = int(at.min()), int(at.max())
    scale = high - low + 2
    if scale * queues < FOREVER:
        return scale, lambda times: np.clip(times, low, high + 1) - low
    known = np.unique(at)
    return len(known) + 1, lambda times: np.searchsorted(known, times)


def _one_by_one(
    m: Arrivals, rows: slice, limit: int, held: Iterator[tuple[int, int]]
) -> Iterator[bool]:
    """For each message of one queue whether it finds no room."""
    waiting: list[tuple[int, int]] = []
    lies = 0
    for leaves, size in held:
        heappush(waiting, (leaves, size))
        lies += size
    columns: Any = zip(
        *(values[rows].tolist() for values in (m.at, m.sizes, m.leaves, m.enters)), strict=True
    )
    now = -FOREVER
    for at, size, leaves, enters in columns:
        now = max(now, at)
        while waiting and waiting[0][0] <= now:
            lies -= heappop(waiting)[1]
        full = enters and lies + size > limit
        if enters and not full:
            heappush(waiting, (leaves, size))
            lies += size
        yield full
