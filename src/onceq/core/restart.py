"""The consequences of a restart, once the durable state is loaded.

A crash undoes what was open: transactions that were not prepared are aborted, and what they had
received is back in its place (SND-8, RCV-12). Express messages are gone. Prepared branches wait for
their decision, groups that had begun to commit continue, and what waits for other managers is sent
again. These records are decided like those of any other step.

Upholds: I2, I18, I22.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.management import restore
from onceq.core.names.resolve import index_by_guid
from onceq.core.peers import lives, wrong_names
from onceq.core.receive import poison, subqueues
from onceq.core.state.position_block import LOCKED, PURGING, REMOVED
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.step.units import KEY_BYTES, HeldRange
from onceq.core.transaction import groups, xa_branch
from onceq.core.transfer import arrival, in_doubt, outgoing_queue
from onceq.model.classes import MessageClass


def restart(step: Step, entropy: bytes, made_ns: int, *, orderly: bool | None) -> None:
    """Begin a life: undo, or continue, what the last one had not finished."""
    # First, because what follows assigns numbers, which have to be those of the new life.
    lives.begin(step, entropy, made_ns, orderly=orderly)
    build = ChangeBuilder(step)
    gone: set[tuple[int, int, int]] = set()
    for queue, index, lane in step.state.all_lanes():
        for first, count in lane.express_ranges():
            gone.update((queue.number, index, at) for at in range(first, first + count))
            build.move(RangeChange(Op.RELEASE, queue.number, index, first, count))
    xa_branch.restore(step, entropy[-KEY_BYTES:])
    for tx in step.units.branches.values():
        tx.receives = [part for held in tx.receives for part in _still_there(step, held, gone)]
    # What a prepared branch holds stays locked; what has ended above cannot be given back.
    gone |= {
        (held.queue, held.lane, at)
        for tx in step.units.branches.values()
        for held in tx.receives
        for at in range(held.first, held.first + held.count)
    }
    locked = [
        (state, queue.number, index, at)
        for queue, index, lane in step.state.all_lanes()
        for state in (LOCKED, PURGING)
        for first, count in lane.ranges(state, 0)
        for at in range(first, first + count)
        if (queue.number, index, at) not in gone
    ]
    for state, number, index, at in locked:
        if state == LOCKED:
            build.move(RangeChange(Op.UNLOCK, number, index, at, 1))
        else:
            # Purged while it was locked: now that the lock is undone, it ends.
            move = RangeChange(Op.END, number, index, at, 1)
            end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_QUEUE_PURGED)
    step.record(build.change)
    groups.finish(step)
    restore.tell(step)
    wrong_names.check_own(step)
    # No receive waits for messages yet, and outgoing queues are started one by one below.
    step.touched.clear()
    index_by_guid(step)
    poison.sift_all(step)
    step.emptied.update(dict.fromkeys(step.state.subqueues))
    subqueues.tidy(step)
    for waiting in step.state.outgoing.values():
        outgoing_queue.recall(step, waiting)
        outgoing_queue.start_if_possible(step, waiting)
        in_doubt.inquire(step, waiting)
        outgoing_queue.await_ends(step, waiting)
    arrival.meet_routers(step)


def _still_there(
    step: Step, held: HeldRange, gone: Container[tuple[int, int, int]]
) -> Iterator[HeldRange]:
    """Yield what a prepared branch holds, without express messages, which are gone, now or before:
    no outcome changes them any more."""
    queue = step.state.all_queues.get(held.queue)
    if queue is None:
        yield held
        return
    lane, first, end = queue.lanes[held.lane], held.first, held.first + held.count
    for at in range(first, end):
        if (held.queue, held.lane, at) in gone or lane.state(at) == REMOVED:
            if at > first:
                yield replace(held, first=first, count=at - first)
            first = at + 1
    if first < end:
        yield replace(held, first=first, count=end - first)
