"""Purge and delete queues, a portion of their messages in each step.

None of it is transactional (SND-26). The record that purges or deletes a message also makes the
reports of its end that were asked for (Q-39). A queue may hold millions of messages, and no request
is served while a step lasts. So one step ends a bounded number, and other things happen before the
next one:

* A purge ends what was in the queue when it was asked for. What comes in meanwhile stays; what a
  client receives meanwhile is received. What a transaction holds follows when that ends.
* A deletion first ends the messages that no transaction holds. All the rest goes with the queue, in
  one step: until then it is a queue as before, to which messages come. The records always say that
  they were deleted: what leaves a queue without a reason was purged.
* From an outgoing queue nothing leaves until its purge is over; otherwise what is about to be
  removed would be in doubt.

The request is answered at the end, also if the manager is stopped meanwhile. A crash before that
leaves a part undone.

Upholds: I11, I14, I24 (no step is longer the more there is).
"""

from __future__ import annotations

from collections.abc import Iterator

from onceq.core.ending.ending import end_range, gave_up
from onceq.core.ending.portions import ENDED_AT_ONCE, Portion, share_of
from onceq.core.ending.table import Ending
from onceq.core.management.directory_rules import register
from onceq.core.names.resolve import find_source, local_queue, one_name
from onceq.core.receive.entrance import Why, check_taking
from onceq.core.receive.handles import end_waits
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, PURGING
from onceq.core.state.queue_tables import queue_key_of
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import QueueDropped
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.errors import QueueNotFound, UnsupportedFormatName
from onceq.model.classes import MessageClass
from onceq.model.requests import DeleteQueue, PurgeQueue

_PURGED = MessageClass.NACK_QUEUE_PURGED
_DELETED = MessageClass.NACK_QUEUE_DELETED


def purge(step: Step, item: PurgeQueue) -> None:
    """Remove the messages of a queue; locked ones follow when their transaction ends, and do not
    count: if that commits, they were received (finding U3)."""
    queue = find_source(step, item.name)
    if isinstance(queue, Queue):
        check_taking(step, queue, Why.NAMED, owner=item.owner, name=item.name)
        step.begin(_purge(step, item, queue))
    else:
        step.begin(_purge_outgoing(step, item, queue))


def delete(step: Step, item: DeleteQueue) -> None:
    """Delete a queue and what is in it; open transactions and waits on it fail (Q-37)."""
    (name,) = one_name(item.name)
    queue = local_queue(step, name)
    if queue.system:
        raise UnsupportedFormatName(f"{item.name} is a system queue: it cannot be deleted")
    if queue.sub:
        raise UnsupportedFormatName(
            f"{item.name} is a subqueue: it goes by itself when it is empty and nobody has it open"
        )
    step.begin(_delete(step, item, queue))


def _there(step: Step, queue: AnyQueue) -> bool:
    """Return whether a queue has not been deleted meanwhile."""
    return step.state.all_queues.get(queue.number) is queue


def _ends(queue: AnyQueue) -> dict[int, int]:
    """Return, by lane, the counter before which everything is there now."""
    return {index: lane.next for index, lane in queue.lanes.items()}


def _purge(step: Step, item: PurgeQueue, queue: Queue) -> Iterator[None]:
    ends, count = _ends(queue), 0
    while _there(step, queue):
        build, portion = ChangeBuilder(step), Portion()
        for index, end in ends.items():
            for first, size in portion.ranges(queue, index, AVAILABLE, end):
                move = RangeChange(Op.END, queue.number, index, first, size)
                end_range(build, move, Ending.NOT_RECEIVED, _PURGED)
                count += size
            for first, size in portion.ranges(queue, index, LOCKED, end):
                build.move(RangeChange(Op.PURGE, queue.number, index, first, size))
        step.record(build.change)
        if portion.left > 0:
            break
        yield
    step.answer(item.owner, item.request, count)


def _purge_outgoing(step: Step, item: PurgeQueue, queue: OutgoingQueue) -> Iterator[None]:
    ends, count, held = _ends(queue), 0, 0
    while _there(step, queue):
        build, portion = ChangeBuilder(step), Portion()
        for index, end in ends.items():
            for state in (AVAILABLE, AWAITING):
                for first, size in portion.ranges(queue, index, state, end):
                    gave_up(build, queue, index, first, size, MessageClass.NACK_DELETED)
                    count += size
        step.record(build.change)
        # No time-outs are counted while nothing may leave.
        queue.pace.due_us = queue.pace.timeouts = 0
        if portion.left > 0:
            break
        queue.purging, held = queue.purging + 1 - held, 1
        yield
    queue.purging -= held
    if _there(step, queue):
        if held:
            start_if_possible(step, queue)
        inquire(step, queue)
    step.answer(item.owner, item.request, count)


def _delete(step: Step, item: DeleteQueue, queue: Queue) -> Iterator[None]:
    ends, count = {}, 0
    for each in (queue, *queue.subs.values()):
        ends[each.number] = _ends(each)
    while _there(step, queue) and not _few(queue):
        ended = _end_portion(step, queue, ends)
        if not ended:
            break
        count += ended
        yield
    if not _there(step, queue):
        step.answer(item.owner, item.request, QueueNotFound(f"{item.name} was deleted meanwhile"))
        return
    subs = list(queue.subs.values())
    count += sum(map(len, (queue, *subs)))
    for each in (queue, *subs):
        _end_all(step, each)
    # Last: the records of its messages' ends name the queue.
    step.setup(QueueDropped(key=queue_key_of(queue.properties)))
    step.sessions.early.deleted(queue.number)
    step.ended.forget(queue.number)
    for gone in (queue, *subs):
        end_waits(step, gone)
    step.names.changed()
    register(step)
    step.answer(item.owner, item.request, count)


def _few(queue: Queue) -> bool:
    """Return whether one step may end all that is available in a queue and its subqueues."""
    cost = 0
    for each in (queue, *queue.subs.values()):
        for index, lane in each.lanes.items():
            cost += -(-lane.available // share_of(each, index))
    return cost <= ENDED_AT_ONCE


def _end_portion(step: Step, queue: Queue, ends: dict[int, dict[int, int]]) -> int:
    """End at most one step's messages; return how many these are."""
    build, portion, count = ChangeBuilder(step), Portion(), 0
    for each in (queue, *queue.subs.values()):
        for index, end in ends.get(each.number, {}).items():
            for first, size in portion.ranges(each, index, AVAILABLE, end):
                move = RangeChange(Op.END, each.number, index, first, size, _DELETED)
                end_range(build, move, Ending.NOT_RECEIVED, _DELETED)
                count += size
    step.record(build.change)
    return count


def _end_all(step: Step, queue: AnyQueue) -> None:
    build = ChangeBuilder(step)
    for index, lane in queue.lanes.items():
        for state in (AVAILABLE, LOCKED, PURGING):
            for first, count in lane.ranges(state, 0):
                move = RangeChange(Op.END, queue.number, index, first, count, _DELETED)
                end_range(build, move, Ending.NOT_RECEIVED, _DELETED)
    step.record(build.change)
