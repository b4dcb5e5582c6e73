"""Messages that were not received in time end where they are.

Upholds: I15 (nothing is handed out after its time).
"""

from __future__ import annotations

from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.model.classes import MessageClass


def expire(step: Step, queue: Queue) -> None:
    """Take out whatever was not received in time (TTBR), before somebody receives from a queue;
    locked messages wait for their outcome."""
    now_s = step.now.wall_s
    for lane in queue.lanes.values():
        if lane.next_expiry <= now_s:
            break
    else:
        return
    for index in list(queue.lanes):
        expire_some(step, queue, index, 1 << 62)


def expire_some(step: Step, queue: Queue, index: int, count_max: int) -> int:
    """Take out of a lane what was not received in time, up to so many messages; returns how many
    these are."""
    build, total = ChangeBuilder(step), 0
    for first, count in queue.lanes[index].expired(step.now.wall_s, (AVAILABLE,), count_max):
        move = RangeChange(
            Op.END, queue.number, index, first, count, MessageClass.NACK_RECEIVE_TIMEOUT
        )
        end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_RECEIVE_TIMEOUT)
        total += count
    step.record(build.change)
    return total
