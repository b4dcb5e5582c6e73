"""What operators do: make queues, set their properties, steer outgoing queues.

None of it is transactional (SND-26). Purges and deletions are in ``core/management/purges.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from onceq.core.decision import CloseSession, Hold, Reload
from onceq.core.ending.portions import some_at_a_time
from onceq.core.management import damage_views
from onceq.core.management.directory_rules import register
from onceq.core.management.rights import own
from onceq.core.names.resolve import (
    find_outgoing,
    find_source,
    local_queue,
    one_name,
    read_directory,
    waits_elsewhere,
)
from onceq.core.peers.strangers import forget, idle, unanswered
from onceq.core.receive.handles import release
from onceq.core.receive.poison import policy_set, waits
from onceq.core.receive.receive import serve_waiting
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import queue_key_of
from onceq.core.state.queues import Queue
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.setups import MakerKnown, Offline, Paused, QueueMade, QueueSet
from onceq.core.state.transition_tables import LinkEvent
from onceq.core.step.step import Step, refusal
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.errors import (
    IllegalPathName,
    InsufficientResources,
    QueueExists,
    QueueNotFound,
    UninitializedObject,
    UnsupportedFormatName,
)
from onceq.model.names import Kind
from onceq.model.queue import changed, check_supported
from onceq.model.requests import (
    CreateQueue,
    HoldLog,
    SetQueue,
    Steer,
    SteerOutgoing,
)
from onceq.model.shares import Thing

RESERVED = ("private$\\order_queue$", "private$\\notify_queue$")
"""Queues that only queue managers use (Q-45)."""


def create(step: Step, item: CreateQueue) -> None:
    """Make a queue; whether it is transactional never changes (Q-1)."""
    state, asked = step.state, item.properties
    assert asked is not None, "the request was checked"
    key = queue_key_of(asked)
    if key in RESERVED:
        raise IllegalPathName(f"{asked.name} is the name of a queue of the manager itself")
    if key in state.queues:
        raise QueueExists(f"queue {asked.name} exists already")
    check_supported(asked)
    if not asked.private:
        read_directory(step, f"public queue {asked.name}")
    by = step.known_by(item.owner)
    count = state.makers.counts[Thing.QUEUES].of(by)
    full = refusal(step, by, Thing.QUEUES, count, len(state.queues))
    if full:
        raise InsufficientResources(full)
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


def set_queue(step: Step, item: SetQueue) -> None:
    """Change properties of a queue: all that are named, or none (PRP-7).

    A smaller quota ends no message: it refuses what would come next.
    """
    (name,) = one_name(item.name)
    queue = local_queue(step, name)
    if queue.system:
        raise UnsupportedFormatName(f"{item.name} is a system queue: its properties are fixed")
    if queue.sub:
        raise UnsupportedFormatName(f"{item.name} is a subqueue: it has its parent's properties")
    waited = waits(queue)
    properties = changed(queue.properties, dict(item.values), now_s=step.now.wall_s)
    if replace(properties, modified=queue.properties.modified) == queue.properties:
        # Nothing is different: that needs no record.
        step.answer(item.owner, item.request, queue.properties)
        return
    step.setup(QueueSet(properties))
    policy_set(step, queue, waited=waited)
    step.answer(item.owner, item.request, properties)


def hold(step: Step, item: HoldLog) -> None:
    """Hold the files of the log for a backup: the engine does it, in order with other actions."""
    step.act(Hold(item.owner, item.request, item.verb.value, item.number))


def steer(step: Step, item: SteerOutgoing) -> None:
    """Pause, resume or resend an outgoing queue (EOD-45, EOD-46); pause or resume a queue."""
    if item.action is Steer.RELOAD:
        step.act(Reload(item.owner, item.request))
        return
    if item.action is Steer.DROP_DAMAGED:
        step.answer(item.owner, item.request, damage_views.drop(step, item.destination))
        return
    if item.action in (Steer.SCRUB, Steer.SCRUB_STOP):
        damage_views.scrub(step, item)
        return
    if item.action in _ALL:
        step.begin(_to_all(step, item))
        return
    if item.action in (Steer.TIDY, Steer.FORGET_UNANSWERED):
        given_up = None if item.action is Steer.TIDY else _forget_unanswered(step)
        step.begin(_tidy(step, item, given_up))
        return
    if item.action is Steer.RELEASE:
        step.answer(item.owner, item.request, release(step, item.destination))
        return
    if not item.destination:
        raise UninitializedObject(f"{Steer(item.action).value} needs the name of an outgoing queue")
    queue = _to_pause(step, item)
    if queue is not None:
        _pause(step, queue, paused=item.action is Steer.PAUSE)
        step.answer(item.owner, item.request, None)
        return
    outgoing = find_outgoing(step, item.destination)
    if item.action is Steer.PAUSE:
        if not outgoing.paused_s:
            step.setup(Paused(number=outgoing.number, since_s=step.now.wall_s))
            step.act_notice("an outgoing queue was paused by an operator",
                            queue=str(outgoing.name), messages=len(outgoing))  # fmt: skip
            # No time-outs are counted while nothing may leave.
            outgoing.pace.due_us = 0
    elif item.action is Steer.RESUME:
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


def _to_pause(step: Step, item: SteerOutgoing) -> Queue | None:
    """Return the queue of this manager that is meant; None: it is an outgoing one, or nothing.

    Raises:
        UnsupportedFormatName: It cannot be paused.
    """
    if item.action not in (Steer.PAUSE, Steer.RESUME):
        return None
    try:
        queue = find_source(step, item.destination)
    except QueueNotFound:
        return None
    if not isinstance(queue, Queue) or waits_elsewhere(step, *one_name(item.destination)):
        return None
    if queue.system:
        raise UnsupportedFormatName(
            f"{item.destination} is a system queue, which is never paused: what is in it is taken "
            "out by operators"
        )
    if queue.sub:
        raise UnsupportedFormatName(f"{item.destination} is a subqueue: pause its queue")
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


def _to_all(step: Step, item: SteerOutgoing) -> Iterator[None]:
    """Apply an operation to every outgoing queue; answer when all are done."""
    work = _ALL[Steer(item.action)](step)
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


def _tidy(step: Step, item: SteerOutgoing, answer: int | None) -> Iterator[None]:
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

_ALL: dict[Steer, Callable[[Step], Work]] = {
    Steer.DISCONNECT: _disconnect,
    Steer.CONNECT: _connect,
}
