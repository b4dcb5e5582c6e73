"""Messages that are not to be received before a time: where they wait, and who lets them go.

The sender says when (``deliver_at``), or for how long (``delay``, from the call of send, as all
lifetimes are: CNF-19). Nothing else about the message is different: it travels at once, in its
stream and in its order there, is accepted once, counts against the quota, and is acknowledged as
one that has reached its queue. But at its destination it stands in the subqueue ``;delayed``, where
operators see it, until the clock of that queue manager says that its time has come. Then it is
moved behind what is in the queue, in one record, as any move is (``core/state/queue_tables.py``).

What follows from that, and is promised:

* A delayed message lets later ones of its stream, and of its transaction, pass. Those of one time
  keep the order in which they were accepted.
* It is never received early: whoever receives from the queue, or looks into it, does not see it.
  Only who names the subqueue does, and may take it or move it, as an operator's act.
* It is late by less than a second, and by DELAY_LOOK_S where the wall clock was set ahead. A clock
  that was set back makes it wait until that shows the time.
* Its time to be received goes on while it is delayed. If that is over first, it ends as others do.
* A purge of the queue leaves it, and one of the subqueue ends it; a deletion ends both.
* A crash changes nothing: what is delayed, and until when, is in the records and in checkpoints. It
  is moved before or after the crash, and once.

A queue manager that does not know of delays would hand it out at once. So it is transmitted only to
those that say that they know (``Peer.delays``). To any other one it is refused: by the send if that
is known by then, else when it would be transmitted, as not delivered (``refuse_delayed``).

Upholds: I4 (moved once), I9 (it has reached its queue), I18 (new places), I24 (no step is longer
the more is due).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onceq.core.ending.ending import gave_up
from onceq.core.ending.portions import ENDED_AT_ONCE
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import SubqueueMade
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.routes import Target
from onceq.core.step.step import Step
from onceq.errors import IllegalPropertyValue, UnsupportedOperation
from onceq.model.classes import MessageClass
from onceq.model.delayed import DELAYED, delayed, trailer
from onceq.model.limits import DELAY_S_MAX
from onceq.model.requests import SendItem
from onceq.model.time import NEVER_S, SECOND_US
from onceq.packet.own import with_trailer

REFUSED_AT_ONCE: Final = ENDED_AT_ONCE
"""Messages that are refused in one step."""


# ---- sending ----------------------------------------------------------------------------------


def resolved(step: Step, item: SendItem) -> SendItem:
    """A batch whose properties say the second in which it is due, with the mark in its extension
    (``model/delayed.py``); what is due already is as any other.

    Raises:
        IllegalPropertyValue: Its time makes no sense.
    """
    properties, now = item.properties, step.now
    due_s = properties.deliver_at
    if properties.delay:
        if due_s:
            raise IllegalPropertyValue("deliver_at and delay exclude each other: give one of them")
        # Parts of a second count, so that nothing is early.
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
        own = with_trailer(own, trailer(due_s))
    else:
        extension = delayed(properties.extension, due_s)
        properties = replace(properties, deliver_at=due_s, delay=0, extension=extension)
    return replace(item, properties=properties, own=own)


def check_time(due_s: int, receive_by: int) -> None:
    """Refuse a message that would be over before anybody could receive it."""
    if receive_by <= due_s:
        raise IllegalPropertyValue(
            "its time to be received is over before its delay is, as both count from the send; "
            "give it a longer time to be received, or a shorter delay"
        )


def check_target(target: Target) -> None:
    """Refuse a destination of which it is known that it would hand the message out early."""
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
    """Where a message that comes to a queue stands now, and when it is due; 0: now."""
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
    """Move what is due into its queue, a bounded number: the next step goes on with the rest."""
    state, left = step.state, ENDED_AT_ONCE
    while left > 0 and (found := state.due.due(step.now.wall_s)) is not None:
        number, index = found
        sub, left = state.all_queues.get(number), left - 1
        if isinstance(sub, Queue) and sub.parent is not None:
            left -= _release_some(step, sub, index, max(left, 1))
            if number in state.all_queues:
                state.due_by(number, index)
    state.next_due = state.due.next


def _release_some(step: Step, sub: Queue, index: int, count_max: int) -> int:
    """Of one lane; returns how many are moved."""
    lane, parent = sub.lanes[index], sub.parent
    assert parent is not None, "only a subqueue has delayed messages"
    if lane.due is None:
        return 0
    build = ChangeBuilder(step)
    counters = lane.due.take(step.now.wall_s, count_max)
    for counter in counters:
        # What somebody has taken out of the subqueue is looked at again if he gives it back.
        if lane.state(counter) == AVAILABLE:
            move = RangeChange(Op.SHIFT, sub.number, index, counter, 1, to=parent.number)
            build.move(move)
    # Forced: a place that was shown to somebody must not be given to another message (I18).
    step.record(build.change)
    return len(counters)


def waiting(queue: Queue) -> tuple[int, int]:
    """How many messages of a queue, or in a subqueue, are delayed, and when the first is due."""
    sub = queue if queue.sub else queue.subs.get(DELAYED)
    count, due_s = 0, NEVER_S
    for lane in sub.lanes.values() if sub is not None else ():
        if lane.due is not None:
            count += len(lane.due)
            due_s = min(due_s, lane.due.next)
    return count, due_s if due_s < NEVER_S else 0


# ---- where it cannot go -----------------------------------------------------------------------


def refuse_delayed(step: Step, outgoing: OutgoingQueue, index: int) -> int:
    """End what is delayed in a lane of an outgoing queue whose queue manager knows of no delays:
    as not delivered, or in doubt if it has been transmitted to one that did. What is due by now is
    as any other message.

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
        # So that the rest is not looked at each time that something may leave.
        due.latest = now_s
    step.record(build.change)
    if found:
        step.notice(
            "delayed messages refused: their queue manager does not know of delays",
            str(outgoing.name), destination=str(outgoing.name), messages=found,
        )  # fmt: skip
    return found
