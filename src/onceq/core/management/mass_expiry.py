"""End expired messages: those of one moment in several steps, if they are many.

Receivers and senders are served between the steps; ``core/receive/expiry.py`` ensures that none
gets a message that is over (I15).

Upholds: I24 (no step is longer the more there is), I26.
"""

from __future__ import annotations

from onceq.core.ending import acknowledgments
from onceq.core.ending.portions import ENDED_AT_ONCE, UNASKED_FOR_ONE
from onceq.core.receive.expiry import expire_some
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import ACKS_OWED, DOUBTS_KEPT
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.step.step import Step
from onceq.core.transfer import in_doubt, outgoing_queue


def expire(step: Step) -> None:
    """End expired messages, a bounded number; the next step ends the rest."""
    state, now_s, left = step.state, step.now.wall_s, ENDED_AT_ONCE
    while left > 0 and (due := state.expiry.due(now_s)) is not None:
        number, index = due
        queue, left = state.all_queues.get(number), left - 1
        if queue is None:
            continue
        lane = queue.lanes[index]
        if lane.next_expiry <= now_s:
            # Where many reports of ends were requested, each costs as much as a sent message.
            most = left if index in queue.wanting else left * UNASKED_FOR_ONE
            ended = _expire_lane(step, queue, index, max(most, 1))
            left -= ended if index in queue.wanting else ended // UNASKED_FOR_ONE
        state.expires_by(number, index)
        if lane.next_expiry > now_s and isinstance(queue, Queue) and queue.waiting:
            # Receives that were put off until nothing expired is left here.
            step.touched[number] = None
    state.next_expiry = state.expiry.next


def _expire_lane(step: Step, queue: AnyQueue, index: int, count_max: int) -> int:
    """End what has expired in one lane; return how many messages have ended."""
    if isinstance(queue, OutgoingQueue):
        ended = outgoing_queue.expire(step, queue, index, count_max)
        if queue.lanes[index].next_expiry > step.now.wall_s:
            in_doubt.inquire(step, queue)
        return ended
    if queue.number == DOUBTS_KEPT:
        return in_doubt.give_up(step, index, count_max)
    if queue.number == ACKS_OWED:
        return acknowledgments.give_up(step, count_max)
    assert isinstance(queue, Queue)
    return expire_some(step, queue, index, count_max)
