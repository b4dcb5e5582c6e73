"""What a move between a queue and its subqueues does to the durable state.

The message keeps its packet, the second of its arrival, its lifetime (unless a poison policy sets
it aside for people), and the senders that ask how it ends. It gets a new place, a new lookup
identifier, one more in its count of moves, and a fresh abort count (Q-35, SND-22). How often it was
received in vain before, and why, goes along. What is delayed is not any more, and that is no move
to count.

Upholds: I11 (its end is still told), I18 (no lookup identifier is used twice).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from onceq.core.state.positions import Positions
from onceq.core.state.queues import AnyQueue
from onceq.core.state.records import SET_ASIDE, RangeChange
from onceq.core.state.report_requests import ReportRequests
from onceq.model.time import NEVER_S


class QueueTables(Protocol):
    """The part of the durable state that a move concerns."""

    @property
    def all_queues(self) -> Mapping[int, AnyQueue]:
        """Everything that holds messages, by number."""

    def take_out(self, queue: AnyQueue, index: int, first: int, count: int) -> None:
        """Remove a range."""


def carry_failures(lane: Positions, first: int, count: int, into: Positions, place: int) -> None:
    """How often messages were received in vain, and why, goes with them to their new places."""
    if not lane.aborts and not lane.failures:
        return
    for at in range(count):
        aborts = lane.aborts.get(first + at, 0)
        before, why = lane.failures.get(first + at, (0, ""))
        if aborts or before or why:
            into.failures[place + at] = (before + aborts, why)


def shift(state: QueueTables, move: RangeChange, wall_s: int) -> None:
    """Take a range out of one queue and put it behind what is in another."""
    queue, target = state.all_queues[move.queue], state.all_queues[move.to]
    lane, into = queue.lanes[move.lane], target.lanes[move.lane]
    begin = into.next
    for counter in range(move.first, move.first + move.count):
        ((address, lengths, parts),) = lane.stored(counter, 1)
        place = into.append(
            address, lengths, arrived=lane.arrived(counter, 1)[0],
            expires=NEVER_S if move.reason == SET_ASIDE else lane.expires(counter),
            express=lane.is_express(counter), parts=parts,
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
        carry_failures(lane, counter, 1, into, place)
    for w, start, size in queue.wants(move.lane).parts(move.first, move.count):
        if w is not None:
            at = start - w.first
            told = replace(
                w, first=begin + start - move.first, count=size, number=w.number + at,
                message=w.message + at,
            )  # fmt: skip
            target.wanting.setdefault(move.lane, ReportRequests()).add(told)
    state.take_out(queue, move.lane, move.first, move.count)
