"""What a transaction does with messages beyond receiving them: exact claims, and rejections.

A claim receives messages that were found by peeking: all of them or none. Their bytes are fetched
afterwards, in pieces, so that a transaction of any size can be received whole.

Also here:

* Moving messages between a queue and its subqueues (Q-32).

Upholds: I16 (only what is free can be claimed), I11 (a rejected message ends once), I17 (a move of
an open transaction is undone in place).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from onceq import errors
from onceq.core.decision import Handed
from onceq.core.names import find_queue
from onceq.core.receive.entrance import Why, check_taking, take
from onceq.core.receive.lookup import Place, ensure, handed, ordered
from onceq.core.state.position_block import AVAILABLE, LOCKED, PURGING, REMOVED
from onceq.core.state.queues import Queue, lookup_id, place_of
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.setups import FailureTold
from onceq.core.step.step import Step, rule_for
from onceq.core.step.units import HeldRange, OpenTransaction
from onceq.model.limits import RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX
from onceq.model.requests import Access, Claim, Fetch, MoveMessage, Reject
from onceq.model.resultcodes import MessageClass

# ---- receive exact -------------------------------------------------------------------------------


def held_by(tx: OpenTransaction, queue: Queue, lookup: int) -> HeldRange | None:
    """Return the receive of a transaction that holds a message, cut down to this one message."""
    index, counter = place_of(lookup)
    for at in range(len(tx.receives) - 1, -1, -1):
        held = tx.receives[at]
        if held.queue != queue.number or held.lane != index:
            continue
        if held.first <= counter < held.first + held.count:
            tx.receives[at : at + 1] = cut = _cut(held, [counter])
            return next(part for part in cut if part.first == counter)
    return None


def _cut(held: HeldRange, chosen: list[int]) -> list[HeldRange]:
    """Return the same with each chosen position apart; positions rise and lie inside."""
    parts: list[HeldRange] = []
    at, end = held.first, held.first + held.count
    for counter in chosen:
        if counter > at:
            parts.append(replace(held, first=at, count=counter - at))
        parts.append(replace(held, first=counter, count=1))
        at = counter + 1
    if at < end:
        parts.append(replace(held, first=at, count=end - at))
    return parts


@rule_for(Reject)
def reject(step: Step, item: Reject) -> None:
    """Mark messages: the commit ends them as refused by the receiver (RCV-15, case 103)."""
    queue = find_queue(step, item.queue)
    if not item.transaction:
        raise errors.TransactionUsage(
            "a message is rejected in the transaction that has received it"
        )
    tx = step.units.find(item.owner, item.transaction, step.now)
    wanted: dict[int, list[int]] = {}
    for lookup in sorted(set(item.lookups)):
        index, counter = place_of(lookup)
        wanted.setdefault(index, []).append(counter)
    after: list[HeldRange] = []
    marked: list[HeldRange] = []
    for held in tx.receives:
        counters = wanted.get(held.lane, []) if held.queue == queue.number else []
        low = bisect_left(counters, held.first)
        inside = counters[low : bisect_left(counters, held.first + held.count)]
        cut = _cut(held, inside) if inside else [held]
        after += cut
        chosen = set(inside)
        marked += [part for part in cut if part.first in chosen]
    if len(marked) != len(set(item.lookups)):
        raise errors.TransactionUsage(
            "only a message that this transaction has received can be rejected in it"
        )
    tx.receives = after
    for held in marked:
        held.to = 0
        held.reason = MessageClass.NACK_RECEIVE_REJECTED
        held.keep = item.keep
    if item.why:
        # At once: a prepare keeps it, and a message that comes back after all shows it, too.
        places = [[held.queue, held.lane, held.first, held.count] for held in marked]
        step.setup(FailureTold(places, item.why), forced=False)
    step.answer(item.owner, item.request, None)


@rule_for(Claim)
def claim(step: Step, item: Claim) -> None:
    """Receive exactly these messages, or none of them."""
    queue = find_queue(step, item.queue)
    tx = step.units.find(item.owner, item.transaction, step.now)
    check_taking(step, queue, Why.WORK, owner=item.owner, name=item.queue, tx=tx)
    places: list[Place] = []
    reached = -1
    for first, last in item.ranges:
        index, counter = place_of(first)
        # Overlapping ranges would lock a message twice; a record counts with 32 bits.
        if not reached < first <= last or last - first >= 1 << 32 or place_of(last)[0] != index:
            raise errors.InvalidParameter("ranges of lookup identifiers rise, each in one priority")
        reached = last
        count = last - first + 1
        lane = queue.lanes.get(index)
        free = 0
        if lane is not None:
            free = sum(n for _, n in lane.ranges(AVAILABLE, counter, end=counter + count))
        if free != count:
            raise errors.MessageNotFound("somebody else has taken one of these messages")
        places.append((index, counter, count))
    take(step, queue, places, tx)
    step.answer(item.owner, item.request, sum(place[2] for place in places))


@rule_for(Fetch)
def fetch(step: Step, item: Fetch) -> None:
    """Answer the bytes of what a transaction holds, as many as fit into one answer."""
    queue = find_queue(step, item.queue)
    tx = step.units.find(item.owner, item.transaction, step.now)
    held = [m for m in tx.receives if m.queue == queue.number]
    count_max, bytes_max = RECEIVE_MESSAGES_MAX, min(max(item.bytes_max, 1), RECEIVE_BYTES_MAX)
    places: list[Place] = []
    for index, lane in ordered(queue):
        base = lookup_id(index, 0)
        low, high = item.first - base, item.last - base + 1
        for move in sorted((m for m in held if m.lane == index), key=lambda m: m.first):
            at, stop = max(low, move.first), min(high, move.first + move.count)
            while at < stop and count_max > 0 and lane.state(at) in (LOCKED, PURGING):
                size = lane.size(at, 1)
                if size > bytes_max and places:
                    count_max = 0
                    break
                if places and places[-1][0] == index and sum(places[-1][1:]) == at:
                    places[-1] = (index, places[-1][1], places[-1][2] + 1)
                else:
                    places.append((index, at, 1))
                bytes_max -= size
                count_max -= 1
                at += 1
    if not places:
        raise errors.MessageNotFound("this transaction holds none of these messages")
    answer: Handed = handed(queue, places)
    answer.queue = queue.number
    step.answer(item.owner, item.request, answer)


# ---- move message --------------------------------------------------------------------------------


@rule_for(MoveMessage)
def move(step: Step, item: MoveMessage) -> None:
    """Move one message, at once or with a transaction; checks in the order of Q-33.

    In a transaction a move is provisional: the message is locked in its place until the outcome. An
    abort leaves it there, a commit puts it behind what is in the target (Q-34).
    """
    target = _target(step, item)
    source = _source(step, item.queue, item.owner)
    if target is source or (target.parent or target) is not (source.parent or source):
        raise errors.InvalidParameter(
            f"{item.queue} and {target.title} are not parts of one queue: a message moves between "
            "a queue and its subqueues only (Q-32)"
        )
    if item.transaction and not target.properties.transactional:
        raise errors.TransactionUsage(f"{target.title} is not transactional")
    key = (item.owner, item.transaction)
    tx = step.units.find(*key, step.now) if key in step.units.transactions else None
    index, counter = place_of(item.lookup)
    lane = source.lanes.get(index)
    state = lane.state(counter) if lane is not None else REMOVED
    if state == REMOVED:
        raise errors.MessageNotFound(f"no message has the lookup identifier {item.lookup:#x}")
    held = held_by(tx, source, item.lookup) if tx is not None else None
    if state != AVAILABLE and held is None:
        raise errors.MessageLocked("another transaction holds that message")
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
    except errors.QueueNotFound:
        made = ensure(step, text, owner)
        if made is None:
            raise
        return made


def _target(step: Step, item: MoveMessage) -> Queue:
    if item.handle:
        handle = step.readers.handles.get(item.handle)
        if handle is None or handle.owner != item.owner or handle.access is not Access.MOVE:
            raise errors.InvalidHandle("the target is not open for move")
        if handle.deleted:
            raise errors.QueueDeleted("the target was deleted meanwhile; close it")
        queue = step.state.all_queues[handle.queue]
        assert isinstance(queue, Queue)
        return queue
    try:
        found = ensure(step, item.to, item.owner)
        return find_queue(step, item.to) if found is None else found
    except errors.QueueNotFound as error:
        raise errors.InvalidHandle(f"there is nothing to move to: {error.text}") from None
