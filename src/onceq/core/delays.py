"""Messages that are not to be received before a time: where they wait, and how they are released.

The sender says when (``deliver_at``), or for how long (``delay``, from the call of send, as all
lifetimes are: CNF-19). Otherwise the message is like any other: it travels at once, in its stream
and in its order there, is accepted once, counts against the quota, and is acknowledged as one that
has reached its queue. But at its destination it is in the subqueue ``;delayed``, where operators
see it, until the clock of that queue manager shows its time. Then it moves behind what is in the
queue, in one record, as in any move (``core/state/queue_tables.py``).

This is promised:

* A delayed message lets later ones of its stream, and of its transaction, pass. Those of one time
  keep the order in which they were accepted.
* It is never received early: a receive from the queue, or a peek, does not see it. Only a request
  that names the subqueue does, and may take it or move it, as an operator's act.
* It is late by less than a second, and by DELAY_LOOK_S where the wall clock was set ahead. A clock
  that was set back makes it wait until that shows the time.
* Its time to be received counts while it is delayed. If that ends first, it ends as others do.
* A purge of the queue leaves it, and one of the subqueue ends it; a deletion ends both.
* A crash changes nothing: records and checkpoints hold each delayed message and its time. It is
  moved before or after the crash, and once.

A queue manager without delays would deliver it at once. So it is transmitted only to managers that
announce them (``Peer.delays``). For any other one it is refused: by the send if that is known by
then, else at transmission, as not delivered (``refuse_delayed``).

Upholds: I4 (moved once), I9 (it has reached its queue), I18 (new positions), I24 (no step is longer
the more is due).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onceq.core.ending.ending import ENDED_AT_ONCE, gave_up
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import SubqueueMade
from onceq.core.step.connections import Target
from onceq.core.step.step import ChangeBuilder, Step
from onceq.errors import IllegalPropertyValue, UnsupportedOperation
from onceq.model.limits import DELAY_S_MAX
from onceq.model.marks import DELAYED, NEVER_S, SECOND_US, delay_trailer, delayed
from onceq.model.requests import SendItem
from onceq.model.resultcodes import MessageClass
from onceq.packet.own import with_trailer

REFUSED_AT_ONCE: Final = ENDED_AT_ONCE
"""Messages that are refused in one step."""


# ---- sending ----------------------------------------------------------------------------------


def resolved(step: Step, item: SendItem) -> SendItem:
    """Return a batch whose properties say the second in which it is due, with the mark in its
    extension (``model/marks.py``); one that is already due is like any other.

    Raises:
        IllegalPropertyValue: Its time is invalid.
    """
    properties, now = item.properties, step.now
    due_s = properties.deliver_at
    if properties.delay:
        if due_s:
            raise IllegalPropertyValue("deliver_at and delay exclude each other: give one of them")
        # Round parts of a second up, so that nothing is early.
        due_s = -(-now.wall_us // SECOND_US) - item.age_s + properties.delay
    if due_s > now.wall_s + DELAY_S_MAX or due_s >= NEVER_S:
        raise IllegalPropertyValue(
            f"a message is delayed by at most {DELAY_S_MAX} seconds, not {due_s - now.wall_s}; "
            "deliver_at counts seconds since 1970"
        )
    if due_s <= now.wall_s:
        return replace(item, properties=replace(properties, deliver_at=0, delay=0))
    own = item.own
    if own is not None:
        properties = replace(properties, deliver_at=due_s, delay=0)
        own = with_trailer(own, delay_trailer(due_s))
    else:
        extension = delayed(properties.extension, due_s)
        properties = replace(properties, deliver_at=due_s, delay=0, extension=extension)
    return replace(item, properties=properties, own=own)


def check_time(due_s: int, receive_by: int) -> None:
    """Refuse a message that would expire before it could be received."""
    if receive_by <= due_s:
        raise IllegalPropertyValue(
            "its time to be received is over before its delay is, as both count from the send; "
            "give it a longer time to be received, or a shorter delay"
        )


def check_target(target: Target) -> None:
    """Refuse a destination that is known to deliver the message early."""
    queue = target.queue
    if isinstance(queue, Queue):
        return
    if queue.over_http:
        raise UnsupportedOperation(
            f"{target.text} is reached over HTTP, where no queue manager says that it knows of "
            "delays: it would hand the message out at once"
        )
    if queue.knows_delays is False:
        raise UnsupportedOperation(
            f"the queue manager of {target.text} does not know of delays: it would hand the "
            "message out at once"
        )


# ---- waiting ----------------------------------------------------------------------------------


def place_for(step: Step, queue: Queue, due_s: int) -> tuple[Queue, int]:
    """Return where a message that comes to a queue is stored, and when it is due; 0: now."""
    if due_s <= step.now.wall_s or queue.system or queue.parent is not None:
        return queue, 0
    sub = queue.subs.get(DELAYED)
    if sub is None:
        # It is not counted (``is_counted``): a commit or an arrival cannot fail here.
        number = step.state.next_number
        made = SubqueueMade(number=number, parent=queue.number, name=DELAYED)
        step.setup(made, forced=False)
        sub = step.state.subqueues[number]
        step.emptied[number] = None
    return sub, due_s


def release(step: Step) -> None:
    """Move due messages into their queue, a bounded number; the next step moves the rest."""
    state, left = step.state, ENDED_AT_ONCE
    while left > 0 and (found := state.due.due(step.now.wall_s)) is not None:
        number, index = found
        sub, left = state.all_queues.get(number), left - 1
        if not isinstance(sub, Queue) or sub.parent is None:
            continue
        lane = sub.lanes[index]
        if lane.due is not None:
            build = ChangeBuilder(step)
            counters = lane.due.take(step.now.wall_s, max(left, 1))
            for counter in counters:
                # One that was taken out of the subqueue is checked again if it is given back.
                if lane.state(counter) == AVAILABLE:
                    move = RangeChange(Op.SHIFT, number, index, counter, 1, to=sub.parent.number)
                    build.move(move)
            # Forced: a position that a client has seen must not be given to another message (I18).
            step.record(build.change)
            left -= len(counters)
        if number in state.all_queues:
            state.due_by(number, index)
    state.next_due = state.due.next


def waiting(queue: Queue) -> tuple[int, int]:
    """Return how many messages of a queue, or in a subqueue, are delayed, and the first due
    time."""
    sub = queue if queue.sub else queue.subs.get(DELAYED)
    count, due_s = 0, NEVER_S
    for lane in sub.lanes.values() if sub is not None else ():
        if lane.due is not None:
            count += len(lane.due)
            due_s = min(due_s, lane.due.next)
    return count, due_s if due_s < NEVER_S else 0


# ---- where it cannot go -----------------------------------------------------------------------


def refuse_delayed(step: Step, outgoing: OutgoingQueue, index: int) -> int:
    """End delayed messages in a lane of an outgoing queue whose queue manager has no delays: as not
    delivered, or in doubt if they have been transmitted to one that had. A message that is due by
    now is like any other.

    Returns:
        How many have ended; REFUSED_AT_ONCE: there may be more.
    """
    due, now_s = outgoing.lanes[index].due, step.now.wall_s
    if due is None or due.latest <= now_s:
        return 0
    lane, build, found = outgoing.lanes[index], ChangeBuilder(step), 0
    for counter, due_s in due.rows():
        if due_s > now_s and lane.state(counter) == AVAILABLE:
            gave_up(build, outgoing, index, counter, 1, MessageClass.NACK_DELAY_NOT_SUPPORTED)
            found += 1
            if found == REFUSED_AT_ONCE:
                break
    else:
        # So that the rest is not examined each time that something may leave.
        due.latest = now_s
    step.record(build.change)
    if found:
        step.notice(
            "delayed messages refused: their queue manager does not know of delays",
            str(outgoing.name), destination=str(outgoing.name), messages=found,
        )  # fmt: skip
    return found
