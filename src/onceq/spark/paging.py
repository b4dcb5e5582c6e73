"""Counting a range of a queue manager that cannot count: page by page, as versions before 0.3 are.

It tells neither where a locked message stands nor what became of one that is gone. So where
anything in the queue is locked, the range ends at the first place that shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from onceq.model.views.ranges import RangeView
from onceq.spark.packets import sizes_of

if TYPE_CHECKING:
    from onceq import Batch


def count(
    pages: Iterator[Batch], after: int, to: int, *, locked: bool, messages: int, bytes: int
) -> RangeView:
    """What stands in a range (``Access.count`` says the rest).

    Args:
        pages: Its messages, with the beginnings of their packets if there is a limit of bytes.
        locked: Whether a transaction holds any message of the queue.
    """
    end, found, size = after, 0, 0
    for batch in pages:
        lookups = np.frombuffer(batch.lookup_ids, np.uint64).astype(np.int64)
        fit = len(lookups)
        gap = 0
        if locked:
            gaps = np.flatnonzero(lookups != np.arange(end + 1, end + 1 + fit))
            if len(gaps):
                fit = int(gaps[0])
                gap = end + fit + 1
        if messages and messages - found <= fit:
            fit, gap = messages - found, 0
        if bytes:
            sizes = np.cumsum(sizes_of(batch.run))
            room = int(np.searchsorted(sizes, bytes - size, side="right"))
            if room < fit:
                fit, gap = max(room, 0 if found else 1), 0
            size += int(sizes[fit - 1]) if fit else 0
        found += fit
        end = int(lookups[fit - 1]) if fit else end
        if fit < len(lookups) or (messages and found == messages):
            return RangeView(to=end, messages=found, bytes=size, locked=gap)
    return RangeView(to=to, messages=found, bytes=size)
