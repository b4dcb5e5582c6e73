"""Find the messages in a part of the log that is to be freed: they are written again.

The search goes through the tables of positions, chunk by chunk, and skips each chunk whose packets
are elsewhere. It may stop after a number of positions, and continue there: a queue manager that
holds tens of millions of messages does other work in between.

Upholds: I24 (a bounded amount of work at a time).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from onceq.core.state.log_space import Live
from onceq.core.state.position_block import REMOVED, PositionBlock
from onceq.core.state.queue_tables import DAMAGED
from onceq.core.state.state import State
from onceq.model.limits import SPARSE_POSITIONS_MAX
from onceq.model.run import LENGTH_TYPE, Extent, total_of

PIECE_MESSAGES = 512
"""The largest number of messages of one chunk moved at once."""

EACH = 16
"""The number of positions that skipping a queue or a chunk counts as."""

Cursor = tuple[int, int, int]
"""Queue, lane and base of the chunk at which a search continues."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """Messages found in a part of the log.

    Attributes:
        looked: How many positions were examined for that.
        cursor: Where the search was stopped; None: that is all.
    """

    parts: tuple[Live, ...]
    looked: int
    cursor: Cursor | None


def search(
    state: State, base: int, end: int, bytes_max: int, *, after: Cursor | None = None,
    positions_max: int = SPARSE_POSITIONS_MAX,
) -> Sparse:  # fmt: skip
    """Return messages whose packets are between two positions of the log, at most ``bytes_max``.

    Args:
        after: Where an earlier search was stopped.
    """
    found: list[Live] = []
    left, looked = bytes_max, 0
    for number, index, block in _chunks(state, after):
        if left <= 0 or looked >= positions_max:
            return Sparse(tuple(found), looked, (number, index, block.base if block else 0))
        looked += EACH
        if block is None:
            continue
        first, stop = _span(block, base, end)
        if first >= stop:
            continue
        looked += stop - first
        picked = _picked(block, first, stop, base, end)
        few = _fitting(block, picked, left)
        if few:
            lengths = array(LENGTH_TYPE, (block.lengths[i] for i in few))
            left -= total_of(lengths)
            extents = tuple(Extent(*piece) for i in few for piece in block.pieces(i, i + 1))
            found.append(Live(number, index, tuple(block.base + i for i in few), extents, lengths))
        if len(few) < len(picked):
            return Sparse(tuple(found), looked, (number, index, block.base))
    return Sparse(tuple(found), looked, None)


def _chunks(state: State, after: Cursor | None) -> Iterator[tuple[int, int, PositionBlock | None]]:
    """Yield every chunk of every lane, always in the same order; and each queue, with no chunk,
    before its chunks, because skipping many empty ones is work, too."""
    start = after or (0, 0, 0)
    for number in sorted(state.all_queues):
        if number < start[0] or number == DAMAGED:  # those bytes cannot be rewritten
            continue
        if number > start[0]:
            yield number, 0, None
        for index, lane in sorted(state.all_queues[number].lanes.items()):
            if (number, index) < start[:2]:
                continue
            for block in lane.blocks():
                if (number, index, block.base) >= start:
                    yield number, index, block


def _span(block: PositionBlock, base: int, end: int) -> tuple[int, int]:
    """Return the chunk's places that may be in that part of the log: first, and behind the last."""
    if block.rising:
        return bisect_left(block.addresses, base), bisect_left(block.addresses, end)
    low, high = block.reach()
    return (0, len(block.addresses)) if low < end and high >= base else (0, 0)


def _picked(block: PositionBlock, first: int, stop: int, base: int, end: int) -> list[int]:
    addresses, states = block.addresses, block.states
    return [i for i in range(first, stop) if base <= addresses[i] < end and states[i] != REMOVED]


def _fitting(block: PositionBlock, picked: list[int], bytes_max: int) -> list[int]:
    """Return as many of them as fit, at least one."""
    left, count = bytes_max, 0
    while count < min(len(picked), PIECE_MESSAGES) and (left > 0 or not count):
        left -= block.lengths[picked[count]]
        count += 1
    return picked[:count]
