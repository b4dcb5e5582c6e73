"""End messages in their queue that were not received in time.

Those of one moment may be millions, and end in portions (``core/management/mass_expiry.py``). Until
the last of them has ended, nothing is handed out of their queue: the message at its head may be
over. A receive that comes meanwhile is put off, and is answered, with a message or with none, as
soon as they are gone.

Upholds: I15 (nothing is handed out after its time), I24 (no step is longer the more has expired).
"""

from __future__ import annotations

from onceq.core.ending.ending import end_range
from onceq.core.ending.portions import ENDED_AT_ONCE, share_of
from onceq.core.ending.table import Ending
from onceq.core.receive import poison
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.model.classes import MessageClass


def expire(step: Step, queue: Queue) -> bool:
    """End what was not received in time (TTBR), before a receive from the queue: as much as one
    step may; locked messages wait for their outcome.

    Returns:
        Whether no expired message is left.
    """
    left = ENDED_AT_ONCE
    for index, lane in list(queue.lanes.items()):
        if lane.next_expiry <= step.now.wall_s:
            share = share_of(queue, index)
            left -= expire_some(step, queue, index, max(left, 1) * share) // share
            if lane.next_expiry <= step.now.wall_s:
                return False
    return True


def expire_at(step: Step, queue: Queue, index: int, counter: int) -> None:
    """End one message if it was not received in time."""
    lane = queue.lanes.get(index)
    if (
        lane is not None and lane.next_expiry <= step.now.wall_s
        and lane.state(counter) == AVAILABLE and lane.expires(counter) <= step.now.wall_s
    ):  # fmt: skip
        build = ChangeBuilder(step)
        _end(build, queue, index, counter, 1)
        step.record(build.change)


def expire_some(step: Step, queue: Queue, index: int, count_max: int) -> int:
    """End at most ``count_max`` messages of a lane that were not received in time; return how many
    these are."""
    build, total = ChangeBuilder(step), 0
    if queue.sub:
        count_max = min(count_max, ENDED_AT_ONCE)  # They may be set aside, one by one.
    for first, count in queue.lanes[index].expired(step.now.wall_s, (AVAILABLE,), count_max):
        _end(build, queue, index, first, count)
        total += count
    step.record(build.change)
    return total


def _end(build: ChangeBuilder, queue: Queue, index: int, first: int, count: int) -> None:
    if queue.sub and poison.set_aside(build, queue, index, first, count):
        return
    move = RangeChange(Op.END, queue.number, index, first, count, MessageClass.NACK_RECEIVE_TIMEOUT)
    end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_RECEIVE_TIMEOUT)
