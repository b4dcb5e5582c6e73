"""What a move between a queue and its subqueues does to the durable state.

The message keeps its packet, the second of its arrival, its lifetime, and whoever wants to know
how it ends. It gets a new place, a new lookup identifier, one more in its count of moves, and a
fresh abort count (Q-35, SND-22). What is delayed is not any more, and that is no move to count.

Upholds: I11 (its end is still told), I18 (no lookup identifier is used twice).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from onceq.core.state.queues import AnyQueue
from onceq.core.state.records import RangeChange
from onceq.core.state.report_requests import ReportRequests


class QueueTables(Protocol):
    """The part of the durable state that a move concerns."""

    @property
    def all_queues(self) -> Mapping[int, AnyQueue]:
        """Everything that holds messages, by number."""

    def take_out(self, queue: AnyQueue, index: int, first: int, count: int) -> None:
        """Remove a range."""


def shift(state: QueueTables, move: RangeChange, wall_s: int) -> None:
    """Take a range out of one queue and put it behind what is in another."""
    queue, target = state.all_queues[move.queue], state.all_queues[move.to]
    lane, into = queue.lanes[move.lane], target.lanes[move.lane]
    begin = into.next
    for counter in range(move.first, move.first + move.count):
        ((address, lengths, parts),) = lane.stored(counter, 1)
        place = into.append(
            address, lengths, arrived=lane.arrived(counter, 1)[0],
            expires=lane.expires(counter), express=lane.is_express(counter), parts=parts,
        )  # fmt: skip
        # That its time has come is no move of anybody, and its count is not touched.
        if lane.due is None or counter not in lane.due:
            into.moved[place] = (lane.moved.get(counter, (0, 0))[0] + 1, wall_s)
        elif counter in lane.moved:
            into.moved[place] = lane.moved[counter]
        reason = lane.classes.get(counter)
        if reason is not None:
            into.classes[place] = reason
        if counter in lane.notes:
            into.notes[place] = lane.notes[counter]
    for w, start, size in queue.wants(move.lane).parts(move.first, move.count):
        if w is not None:
            at = start - w.first
            told = replace(
                w, first=begin + start - move.first, count=size, number=w.number + at,
                message=w.message + at,
            )  # fmt: skip
            target.wanting.setdefault(move.lane, ReportRequests()).add(told)
    state.take_out(queue, move.lane, move.first, move.count)
