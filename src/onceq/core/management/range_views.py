"""The contents of a range of positions: how many messages, and where the first locked one is.

A queue of ten million messages has a table of states for each 4,096 of them, and each table is
counted as a whole. One answer examines a bounded number of tables, no matter how full the queue is;
a client that wants more asks again behind the last position (``RangeView.more``). Tables in which
nothing is left do not exist, so long empty stretches cost nothing.

Upholds: I18 (a hole is no message), I24 (no answer takes longer the more there is).
"""

from __future__ import annotations

from itertools import compress
from typing import Final

from onceq.core.names.resolve import find_queue
from onceq.core.receive.lookup import ordered
from onceq.core.state.position_block import AVAILABLE, LOCKED, PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queues import lookup_id
from onceq.core.step.step import Step
from onceq.model.run import total_of
from onceq.model.views.queues import RangeAsked, RangeView

TABLES_AT_ONCE: Final = 256
"""Tables of states that one answer counts: a million messages, in less than a millisecond..."""
SIZES_AT_ONCE: Final = 32
"""... and this number if the sizes of their messages are added up."""

_IS_AVAILABLE: Final = bytes(int(state == AVAILABLE) for state in range(256))


class _Count:
    """The counts until now, and the rest of the budget."""

    def __init__(self, asked: RangeAsked) -> None:
        self.messages_left = asked.messages or 1 << 62
        self.bytes_left = asked.bytes
        self.sized = asked.bytes > 0
        self.tables_left = SIZES_AT_ONCE if self.sized else TABLES_AT_ONCE
        self.messages = self.bytes = 0
        self.full = self.more = False
        self.locked = 0

    def lane(self, lane: Positions, first: int, stop: int) -> int:
        """Count a part of a lane; return the counter behind the last counted position."""
        at = first
        for block, a, b in lane.tables(first, stop):
            if not self.messages_left:
                self.full = True
                return at
            if not self.tables_left:
                self.more = True
                return at
            self.tables_left -= 1
            held = block.states.find(LOCKED, a, b) if lane.locked else -1
            if held >= 0:
                self.locked, self.full, b = block.base + held, True, held
            at = self._table(block, a, b)
            if self.full:
                return at
        return stop

    def _table(self, block: PositionBlock, a: int, b: int) -> int:
        """Count a part of a table; return the same."""
        count, end = block.states.count(AVAILABLE, a, b), b
        if count > self.messages_left:
            count, end = self.messages_left, _behind(block.states, a, self.messages_left)
        if self.sized:
            size = _size(block, a, end)
            if size > self.bytes_left:
                return self._fitting(block, a, end)
            self.bytes_left -= size
            self.bytes += size
        self.messages += count
        self.messages_left -= count
        if end < b:
            self.full, self.locked = True, 0
        return block.base + end

    def _fitting(self, block: PositionBlock, a: int, end: int) -> int:
        """Count the last table, of which only some messages fit; at least one does."""
        self.full, self.locked, at = True, 0, a
        for index in range(a, end):
            if block.states[index] != AVAILABLE:
                continue
            size = block.lengths[index]
            if size > self.bytes_left and self.messages:
                break
            self.bytes_left -= size
            self.bytes += size
            self.messages += 1
            at = index + 1
        return block.base + at


def range_view(step: Step, name: str) -> RangeView:
    """Return a range in its present state (``RangeAsked`` says which)."""
    asked = RangeAsked.of(name)
    queue = find_queue(step, asked.queue)
    count, to = _Count(asked), asked.to
    ended: dict[str, int] = {}
    for index, lane in ordered(queue):
        base = lookup_id(index, 0)
        first, stop = max(asked.after + 1 - base, lane.head), min(asked.to + 1 - base, lane.next)
        if stop > first:
            end = count.lane(lane, first, stop)
            if count.full or count.more:
                to = base + end - 1
        if (low := max(asked.after + 1 - base, 0)) < (high := min(to + 1 - base, lane.next)):
            for how, size in step.ended.count(queue.number, index, low, high).items():
                ended[how] = ended.get(how, 0) + size
        if count.full or count.more:
            if count.locked:
                count.locked += base
            break
    return RangeView(to, count.messages, count.bytes, count.locked, count.more, ended)


def _size(block: PositionBlock, a: int, b: int) -> int:
    """Return the bytes of the packets of what is available in a part of a table."""
    states, lengths = block.states[a:b], block.lengths[a:b]
    if states.count(AVAILABLE) == b - a:
        return total_of(lengths)
    return sum(compress(lengths, states.translate(_IS_AVAILABLE)))


def _behind(states: bytearray, a: int, count: int) -> int:
    """Return the index behind ``count`` available messages from index ``a`` on."""
    for _ in range(count):
        a = states.index(AVAILABLE, a) + 1
    return a
