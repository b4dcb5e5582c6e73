"""What operators do: make queues, set their properties, steer outgoing queues.

None of it is transactional (SND-26).

Also here:

* Purge and delete queues, a portion of their messages in each step.
* Change the settings of a running manager.

Upholds: I11, I14, I24 (no step is longer the more there is), I26 (nothing waits for a timer that
the old settings would have set).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from onceq import errors
from onceq.core.decision import CloseSession, Hold, Reload
from onceq.core.ending.ending import (
    ENDED_AT_ONCE,
    Portion,
    end_range,
    gave_up,
    numbered,
    share_of,
    some_at_a_time,
)
from onceq.core.ending.table import Ending
from onceq.core.inputs import Reconfigure, TellDoors, TellTrail
from onceq.core.management import damage
from onceq.core.management.directory_rules import register
from onceq.core.management.rights import own
from onceq.core.names import (
    find_outgoing,
    find_source,
    local_queue,
    one_name,
    read_directory,
    waits_elsewhere,
)
from onceq.core.peers.strangers import forget, idle, unanswered
from onceq.core.receive.entrance import Why, check_taking, end_waits, release
from onceq.core.receive.poison import policy_set, waits
from onceq.core.receive.receive import serve_waiting
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, PURGING
from onceq.core.state.positions import LinkEvent
from onceq.core.state.queue_tables import queue_key_of
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.setups import MakerKnown, Offline, Paused, QueueDropped, QueueMade, QueueSet
from onceq.core.step.step import ChangeBuilder, Step, refusal, rule_for
from onceq.core.transaction import second_phase, unit_of_work
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.core.transfer.sessions import end_unproven
from onceq.model import requests
from onceq.model.addresses import AddressBook
from onceq.model.names import Kind
from onceq.model.queue import changed, check_supported
from onceq.model.resultcodes import MessageClass
from onceq.model.shares import Thing

# ---- operations ----------------------------------------------------------------------------------


RESERVED = ("private$\\order_queue$", "private$\\notify_queue$")
"""Queues that only queue managers use (Q-45)."""


@rule_for(requests.CreateQueue)
def create(step: Step, item: requests.CreateQueue) -> None:
    """Make a queue; whether it is transactional never changes (Q-1)."""
    state, asked = step.state, item.properties
    assert asked is not None, "the request was checked"
    key = queue_key_of(asked)
    if key in RESERVED:
        raise errors.IllegalPathName(f"{asked.name} is the name of a queue of the manager itself")
    if key in state.queues:
        raise errors.QueueExists(f"queue {asked.name} exists already")
    check_supported(asked)
    if not asked.private:
        read_directory(step, f"public queue {asked.name}")
    by = step.known_by(item.owner)
    count = state.makers.counts[Thing.QUEUES].of(by)
    full = refusal(step, by, Thing.QUEUES, count, len(state.queues))
    if full:
        raise errors.InsufficientResources(full)
    properties = replace(
        asked,
        paused_since=0,
        number=state.next_number,
        created=step.now.wall_s,
        modified=step.now.wall_s,
        instance=item.instance,
    )
    step.setup(QueueMade(properties))
    if by:
        step.setup(MakerKnown(properties.number, by))
    own(step, item.owner, state.queues[key])
    step.names.changed()
    register(step)
    step.answer(item.owner, item.request, properties)


@rule_for(requests.SetQueue)
def set_queue(step: Step, item: requests.SetQueue) -> None:
    """Change properties of a queue: all that are named, or none (PRP-7).

    A smaller quota ends no message: it refuses what would come next.
    """
    (name,) = one_name(item.name)
    queue = local_queue(step, name)
    if queue.system:
        raise errors.UnsupportedFormatName(
            f"{item.name} is a system queue: its properties are fixed"
        )
    if queue.sub:
        raise errors.UnsupportedFormatName(
            f"{item.name} is a subqueue: it has its parent's properties"
        )
    waited = waits(queue)
    properties = changed(queue.properties, dict(item.values), now_s=step.now.wall_s)
    if replace(properties, modified=queue.properties.modified) == queue.properties:
        # Nothing is different: that needs no record.
        step.answer(item.owner, item.request, queue.properties)
        return
    step.setup(QueueSet(properties))
    policy_set(step, queue, waited=waited)
    step.answer(item.owner, item.request, properties)


@rule_for(requests.HoldLog)
def hold(step: Step, item: requests.HoldLog) -> None:
    """Hold the files of the log for a backup: the engine does it, in order with other actions."""
    step.act(Hold(item.owner, item.request, item.verb.value, item.number))


@rule_for(requests.SteerOutgoing)
def steer(step: Step, item: requests.SteerOutgoing) -> None:
    """Pause, resume or resend an outgoing queue (EOD-45, EOD-46); pause or resume a queue."""
    if item.action is requests.Steer.RELOAD:
        step.act(Reload(item.owner, item.request))
        return
    if item.action is requests.Steer.DROP_DAMAGED:
        step.answer(item.owner, item.request, damage.drop(step, item.destination))
        return
    if item.action in (requests.Steer.SCRUB, requests.Steer.SCRUB_STOP):
        damage.scrub(step, item)
        return
    if item.action in _ALL:
        step.begin(_to_all(step, item))
        return
    if item.action in (requests.Steer.TIDY, requests.Steer.FORGET_UNANSWERED):
        given_up = None if item.action is requests.Steer.TIDY else _forget_unanswered(step)
        step.begin(_tidy(step, item, given_up))
        return
    if item.action is requests.Steer.RELEASE:
        step.answer(item.owner, item.request, release(step, item.destination))
        return
    if not item.destination:
        raise errors.UninitializedObject(
            f"{requests.Steer(item.action).value} needs the name of an outgoing queue"
        )
    queue = _to_pause(step, item)
    if queue is not None:
        _pause(step, queue, paused=item.action is requests.Steer.PAUSE)
        step.answer(item.owner, item.request, None)
        return
    outgoing = find_outgoing(step, item.destination)
    if item.action is requests.Steer.PAUSE:
        if not outgoing.paused_s:
            step.setup(Paused(number=outgoing.number, since_s=step.now.wall_s))
            step.act_notice("an outgoing queue was paused by an operator",
                            queue=str(outgoing.name), messages=len(outgoing))  # fmt: skip
            # No time-outs are counted while nothing may leave.
            outgoing.pace.due_us = 0
    elif item.action is requests.Steer.RESUME:
        if outgoing.paused_s:
            step.setup(Paused(number=outgoing.number, since_s=0))
            step.act_notice("an outgoing queue was resumed by an operator",
                            queue=str(outgoing.name), messages=len(outgoing))  # fmt: skip
            outgoing.rewind()
            start_if_possible(step, outgoing)
    else:
        outgoing.from_the_head()
        outgoing.happens(LinkEvent.WAKE)
        start_if_possible(step, outgoing, at_once=True)
    step.answer(item.owner, item.request, None)


def _to_pause(step: Step, item: requests.SteerOutgoing) -> Queue | None:
    """Return the queue of this manager that is meant; None: it is an outgoing one, or nothing.

    Raises:
        UnsupportedFormatName: It cannot be paused.
    """
    if item.action not in (requests.Steer.PAUSE, requests.Steer.RESUME):
        return None
    try:
        queue = find_source(step, item.destination)
    except errors.QueueNotFound:
        return None
    if not isinstance(queue, Queue) or waits_elsewhere(step, *one_name(item.destination)):
        return None
    if queue.system:
        raise errors.UnsupportedFormatName(
            f"{item.destination} is a system queue, which is never paused: what is in it is taken "
            "out by operators"
        )
    if queue.sub:
        raise errors.UnsupportedFormatName(f"{item.destination} is a subqueue: pause its queue")
    return queue


def _pause(step: Step, queue: Queue, *, paused: bool) -> None:
    """Stop receives of the next message of a queue, or allow them again."""
    if paused == bool(queue.properties.paused_since):
        return
    since = step.now.wall_s if paused else 0
    step.setup(QueueSet(replace(queue.properties, paused_since=since)))
    step.act_notice(f"a queue was {'paused' if paused else 'resumed'} by an operator",
                    queue=queue.title, messages=len(queue))  # fmt: skip
    if not paused:
        serve_waiting(step, queue)


def _to_all(step: Step, item: requests.SteerOutgoing) -> Iterator[None]:
    """Apply an operation to every outgoing queue; answer when all are done."""
    work = _ALL[requests.Steer(item.action)](step)
    yield from some_at_a_time(step.state, step.state.outgoing.values(), work)
    step.answer(item.owner, item.request, None)


def _disconnect(step: Step) -> Work:
    """Close every session and make none until ``_connect``: messages gather, and may expire."""
    if not step.state.offline_s:
        step.setup(Offline(since_s=step.now.wall_s))
    for peer in step.sessions.peers.values():
        step.act(CloseSession(peer.session, "this queue manager was disconnected by an operator"))
    step.sessions.contacts.disconnected()

    def work(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            # Operators may have changed their mind between two steps.
            if not step.state.offline_s:
                return
            if outgoing.session:
                outgoing.happens(LinkEvent.DISCONNECT)
            outgoing.happens(LinkEvent.WAKE)
            if not outgoing.session:
                outgoing.pace.due_us = 0

    return work


def _connect(step: Step) -> Work:
    """Let all outgoing queues move again."""
    if step.state.offline_s:
        step.setup(Offline(since_s=0))

    def work(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            if step.state.offline_s:
                return
            outgoing.happens(LinkEvent.WAKE)
            start_if_possible(step, outgoing, at_once=True)

    return work


def _tidy(step: Step, item: requests.SteerOutgoing, answer: int | None) -> Iterator[None]:
    """Forget empty, unused outgoing queues; answer when all were checked.

    Args:
        answer: The answer; None: how many were forgotten.
    """
    count = 0

    def work(some: list[OutgoingQueue]) -> None:
        nonlocal count
        # Messages here may still get answers, which go where rights were judged (finding S13): even
        # if an application has written since, so that it may be connected to at any address.
        found = [one for one in idle(step, some) if not one.answers]
        forget(step, found)
        count += len(found)

    yield from some_at_a_time(step.state, step.state.outgoing.values(), work)
    step.answer(item.owner, item.request, count if answer is None else answer)


def _forget_unanswered(step: Step) -> int:
    """Give up the acknowledgment messages for strangers that have not answered; return how many.
    ``_tidy`` forgets the empty queues afterwards. There are STRANGER_QUEUES_MAX.

    A stranger may be an honest manager that has just begun to send, and that is away: only an
    operator can know. What waits for the order queue of a manager stays: final acknowledgments end
    the wait of its messages, and expire by themselves.
    """
    change = Change(step.now.wall_s)
    given_up: dict[str, int] = {}
    for number in step.state.answering:
        outgoing = step.state.all_queues[number]
        assert isinstance(outgoing, OutgoingQueue)
        if outgoing.name.kind is Kind.PRIVATE or not unanswered(step, outgoing):
            continue
        moves = [
            RangeChange(Op.RELEASE, number, index, first, size)
            for index, lane in outgoing.lanes.items()
            for first, size in lane.ranges(AVAILABLE, 0)
        ]
        if moves:
            change.moves += moves
            given_up[str(outgoing.name)] = sum(move.count for move in moves)
    step.record(change)
    for name, count in given_up.items():
        step.act_notice("acknowledgments for a stranger were given up by an operator",
                        queue=name, messages=count)  # fmt: skip
    return sum(given_up.values())


Work = Callable[[list[OutgoingQueue]], None]

_ALL: dict[requests.Steer, Callable[[Step], Work]] = {
    requests.Steer.DISCONNECT: _disconnect,
    requests.Steer.CONNECT: _connect,
}


# ---- purges --------------------------------------------------------------------------------------


_PURGED = MessageClass.NACK_QUEUE_PURGED
_DELETED = MessageClass.NACK_QUEUE_DELETED


@rule_for(requests.PurgeQueue)
def purge(step: Step, item: requests.PurgeQueue) -> None:
    """Remove the messages of a queue; locked ones follow when their transaction ends, and do not
    count: if that commits, they were received (finding U3).

    None of it is transactional (SND-26). The record that purges or deletes a message also makes the
    reports of its end that were asked for (Q-39). A queue may hold millions of messages, and no
    request is served while a step lasts. So one step ends a bounded number, and other things happen
    before the next one:

    * A purge ends what was in the queue when it was asked for. What comes in meanwhile stays; what
      a client receives meanwhile is received. What a transaction holds follows when that ends.
    * A deletion first ends the messages that no transaction holds. All the rest goes with the
      queue, in one step: until then it is a queue as before, to which messages come. The records
      always say that they were deleted: what leaves a queue without a reason was purged.
    * From an outgoing queue nothing leaves until its purge is over; otherwise what is about to be
      removed would be in doubt.

    The request is answered at the end, also if the manager is stopped meanwhile. A crash before
    that leaves a part undone.
    """
    queue = find_source(step, item.name)
    if isinstance(queue, Queue):
        check_taking(step, queue, Why.NAMED, owner=item.owner, name=item.name)
        step.begin(_purge(step, item, queue))
    else:
        step.begin(_purge_outgoing(step, item, queue))


@rule_for(requests.DeleteQueue)
def delete(step: Step, item: requests.DeleteQueue) -> None:
    """Delete a queue and what is in it; open transactions and waits on it fail (Q-37)."""
    (name,) = one_name(item.name)
    queue = local_queue(step, name)
    if queue.system:
        raise errors.UnsupportedFormatName(f"{item.name} is a system queue: it cannot be deleted")
    if queue.sub:
        raise errors.UnsupportedFormatName(
            f"{item.name} is a subqueue: it goes by itself when it is empty and nobody has it open"
        )
    step.begin(_delete(step, item, queue))


def _there(step: Step, queue: AnyQueue) -> bool:
    """Return whether a queue has not been deleted meanwhile."""
    return step.state.all_queues.get(queue.number) is queue


def _ends(queue: AnyQueue) -> dict[int, int]:
    """Return, by lane, the counter before which everything is there now."""
    return {index: lane.next for index, lane in queue.lanes.items()}


def _purge(step: Step, item: requests.PurgeQueue, queue: Queue) -> Iterator[None]:
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


def _purge_outgoing(step: Step, item: requests.PurgeQueue, queue: OutgoingQueue) -> Iterator[None]:
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


def _delete(step: Step, item: requests.DeleteQueue, queue: Queue) -> Iterator[None]:
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
        step.answer(
            item.owner, item.request, errors.QueueNotFound(f"{item.name} was deleted meanwhile")
        )
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


# ---- change settings -----------------------------------------------------------------------------


@rule_for(Reconfigure)
def reconfigure(step: Step, item: Reconfigure) -> None:
    """Continue with other settings.

    They hold for what is decided from now on; timers that are set read them when they ring. What a
    setting had switched off is watched from now on.
    """

    def start(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            start_if_possible(step, outgoing)

    step.settings = item.settings
    step.names.routes_to = item.routes
    step.names.book = AddressBook.of(item.peers, step.names.book.known)
    step.names.changed()
    # What was held, or had a full window, may leave by the new settings.
    served = [n for peer in step.sessions.peers.values() for n in sorted(peer.outgoing)]
    step.begin(some_at_a_time(step.state, numbered(step.state, served), start))
    unit_of_work.watch(step)
    for tx in list(step.units.open_branches.values()):
        second_phase.watch(step, tx)


@rule_for(TellDoors)
def tell_doors(step: Step, item: TellDoors) -> None:
    """Record that the ways in for others have changed."""
    new, step.doors = item.issued - step.doors.issued, item
    end_unproven(step, sorted(new))


@rule_for(TellTrail)
def tell_trail(step: Step, item: TellTrail) -> None:
    """Record that the export of acts has changed, for the status."""
    step.trail = item
