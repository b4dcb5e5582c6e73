"""Moving messages between a queue and its subqueues (Q-32).

In a transaction a move is provisional: the message is locked in its place until the outcome. An
abort leaves it there, a commit puts it behind what is in the target (Q-34).

Upholds: I16, I17 (a move of an open transaction is undone in place).
"""

from __future__ import annotations

from onceq.core.names.resolve import find_queue
from onceq.core.receive.entrance import Why, check_taking, take
from onceq.core.receive.receive_exact import held_by
from onceq.core.receive.subqueues import ensure
from onceq.core.state.position_block import AVAILABLE, REMOVED
from onceq.core.state.queues import Queue, lookup_id, place_of
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.step.step import Step
from onceq.errors import (
    InvalidHandle,
    InvalidParameter,
    MessageLocked,
    MessageNotFound,
    QueueDeleted,
    QueueNotFound,
    TransactionUsage,
)
from onceq.model.requests import Access, MoveMessage


def move(step: Step, item: MoveMessage) -> None:
    """Move one message, at once or with a transaction; checks in the order of Q-33."""
    target = _target(step, item)
    source = _source(step, item.queue, item.owner)
    if target is source or (target.parent or target) is not (source.parent or source):
        raise InvalidParameter(
            f"{item.queue} and {target.title} are not parts of one queue: a message moves between "
            "a queue and its subqueues only (Q-32)"
        )
    if item.transaction and not target.properties.transactional:
        raise TransactionUsage(f"{target.title} is not transactional")
    key = (item.owner, item.transaction)
    tx = step.units.find(*key, step.now) if key in step.units.transactions else None
    index, counter = place_of(item.lookup)
    lane = source.lanes.get(index)
    state = lane.state(counter) if lane is not None else REMOVED
    if state == REMOVED:
        raise MessageNotFound(f"no message has the lookup identifier {item.lookup:#x}")
    held = held_by(tx, source, item.lookup) if tx is not None else None
    if state != AVAILABLE and held is None:
        raise MessageLocked("another transaction holds that message")
    if item.transaction and tx is None:
        step.units.find(*key, step.now)  # raises why there is none
    check_taking(step, source, Why.NAMED, owner=item.owner, name=item.queue)
    if tx is None:
        change = Change(step.now.wall_s)
        change.moves.append(
            RangeChange(Op.SHIFT, source.number, index, counter, 1, to=target.number)
        )
        place = target.lanes[index].next
        step.record(change)
        step.answer(item.owner, item.request, lookup_id(index, place))
        return
    if held is None:
        take(step, source, [(index, counter, 1)], tx)
        held = tx.receives[-1]
    held.to, held.reason = target.number, 0
    tx.targets.add(target.number)
    step.answer(item.owner, item.request, 0)


def _source(step: Step, text: str, owner: int) -> Queue:
    """Return the queue to move a message from; a missing subqueue holds no message."""
    try:
        return find_queue(step, text)
    except QueueNotFound:
        made = ensure(step, text, owner)
        if made is None:
            raise
        return made


def _target(step: Step, item: MoveMessage) -> Queue:
    if item.handle:
        handle = step.readers.handles.get(item.handle)
        if handle is None or handle.owner != item.owner or handle.access is not Access.MOVE:
            raise InvalidHandle("the target is not open for move")
        if handle.deleted:
            raise QueueDeleted("the target was deleted meanwhile; close it")
        queue = step.state.all_queues[handle.queue]
        assert isinstance(queue, Queue)
        return queue
    try:
        found = ensure(step, item.to, item.owner)
        return find_queue(step, item.to) if found is None else found
    except QueueNotFound as error:
        raise InvalidHandle(f"there is nothing to move to: {error.text}") from None
