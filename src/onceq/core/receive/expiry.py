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
    """Take out what was not received in time (TTBR); locked messages wait for their outcome."""
    now_s = step.now.wall_s
    for lane in queue.lanes.values():
        if lane.next_expiry <= now_s:
            break
    else:
        return
    build = ChangeBuilder(step)
    for index, lane in queue.lanes.items():
        for first, count in lane.expired(step.now.wall_s, (AVAILABLE,)):
            move = RangeChange(
                Op.END, queue.number, index, first, count, MessageClass.NACK_RECEIVE_TIMEOUT
            )
            end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_RECEIVE_TIMEOUT)
    step.record(build.change)
