"""Taking messages out of queues, looking at them, and waiting for them.

A receive inside a transaction locks what it hands out: nobody else sees it until the outcome
(I16). The lock stands in the log, lazily, only so that a crash counts as an abort (SND-24); what
is handed out does not rest on it. A receive outside a transaction removes at once, and is
answered when the removal is durable (RCV-14).

Waiting readers are served in the order in which they came; a message goes to those that only look
and then to the first that takes it (RCV-3).

Upholds: I3, I4 (at most one committed receive), I15 (never after its time), I16, I18.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from onceq.core.chunk import AVAILABLE, REMOVED
from onceq.core.decision import Handed, Piece
from onceq.core.desk import Desk, Timer
from onceq.core.ending import ended
from onceq.core.handles import check_receive, check_sharing
from onceq.core.holders import Holder, Outgoing, Queue, lookup_id, place_of
from onceq.core.inputs import CancelReceive, Receive, Remove
from onceq.core.lane import Lane
from onceq.core.records import Change, Move, Op
from onceq.core.resolve import find_source
from onceq.core.transaction import find
from onceq.errors import (
    InsufficientResources,
    MessageNotFound,
    OnceqError,
    OperationCancelled,
    ReceiveTimeout,
    TransactionUsage,
    UnsupportedFormatName,
)
from onceq.model.classes import MessageClass
from onceq.model.limits import (
    RECEIVE_BYTES_MAX,
    RECEIVE_MESSAGES_MAX,
    TRANSACTION_MESSAGES_MAX,
    WAITING_READERS_MAX,
)
from onceq.model.run import LENGTH_TYPE

Place = tuple[int, int, int]
"""Lane, first counter, count."""


def receive(desk: Desk, item: Receive) -> None:
    """Answer a receive or peek now, or let it wait."""
    holder = _checked(desk, item)
    if item.lookup:
        _exactly(desk, item, holder)
        return
    if isinstance(holder, Queue):
        expire(desk, holder)
    if _serve(desk, item, holder):
        return
    if (
        not item.wait_until_us
        or item.wait_until_us <= desk.now.mono_us
        or isinstance(holder, Outgoing)
    ):
        raise ReceiveTimeout(f"no message in {item.queue}")
    if len(desk.waiting) >= WAITING_READERS_MAX:
        raise InsufficientResources(f"{WAITING_READERS_MAX} receives are waiting already")
    assert isinstance(holder, Queue)
    desk.waiting[item.owner, item.request] = item
    holder.waiting.append(item)
    desk.timer(item.wait_until_us, Timer.RECEIVE, (item.owner, item.request))


def _checked(desk: Desk, item: Receive) -> Holder:
    holder = find_source(desk, item.queue)
    if isinstance(holder, Outgoing) and not item.peek:
        raise UnsupportedFormatName(f"{item.queue} is an outgoing queue: it can only be peeked")
    if item.transaction:
        if item.peek:
            raise TransactionUsage("peek has no meaning in a transaction (RCV-11)")
        find(desk, item.owner, item.transaction)
        assert isinstance(holder, Queue)
        if not holder.properties.transactional:
            raise TransactionUsage(
                f"{item.queue} is not transactional: it cannot be received from in a transaction"
            )
    if isinstance(holder, Queue):
        check_receive(desk, holder, item)
    return holder


def _serve(desk: Desk, item: Receive, holder: Holder) -> bool:
    """Hand out what is there, if anything is."""
    count_max = min(max(item.count_max, 1), RECEIVE_MESSAGES_MAX)
    bytes_max = min(max(item.bytes_max, 1), RECEIVE_BYTES_MAX)
    places: list[Place] = []
    after_lane, after = place_of(item.after) if item.after else (-1, 0)
    passed = bool(item.after)
    for index, lane in ordered(holder):
        start = 0
        if passed:
            if index != after_lane:
                if lookup_id(index, 0) < item.after:
                    continue
            else:
                start = after + 1
        for first, count in lane.take(count_max=count_max, bytes_max=bytes_max, start=start):
            places.append((index, first, count))
            count_max -= count
            bytes_max -= lane.size(first, count)
        if count_max <= 0 or (places and bytes_max <= 0):
            break
    if not places:
        return False
    _hand_out(desk, item, holder, places)
    return True


def ordered(holder: Holder) -> list[tuple[int, Lane]]:
    """Lanes in the order of their lookup identifiers."""
    return sorted(holder.lanes.items(), key=lambda pair: lookup_id(pair[0], 0))


def _hand_out(desk: Desk, item: Receive, holder: Holder, places: list[Place]) -> None:
    answer = handed(holder, places)
    if not item.peek:
        change = Change(desk.now.wall_s)
        if item.transaction:
            _lock(desk, item.owner, item.transaction, holder, places, change)
            desk.record(change, forced=False)
        else:
            _take_out(desk, holder, places, change)
            desk.record(change)
    desk.answer(item.owner, item.request, answer)


def handed(holder: Holder, places: list[Place]) -> Handed:
    """Where the packets of some places lie, and what is known beside them."""
    pieces: list[Piece] = []
    lengths, lookups = array(LENGTH_TYPE), array("Q")
    arrived, aborts = array("I"), array("I")
    classes: list[tuple[int, int]] = []
    for index, first, count in places:
        lane = holder.lanes[index]
        pieces += lane.extents(first, count)
        lengths += lane.lengths(first, count)
        arrived += lane.arrived(first, count)
        base = lookup_id(index, first)
        if lane.classes:
            at = len(lookups)
            for i in range(count):
                reason = lane.classes.get(first + i)
                if reason is not None:
                    classes.append((at + i, reason))
        lookups.extend(range(base, base + count))
        if lane.aborts:
            aborts.extend(lane.aborts.get(c, 0) for c in range(first, first + count))
        else:
            aborts.frombytes(bytes(count * aborts.itemsize))
    return Handed(tuple(pieces), lengths, lookups, arrived, aborts, tuple(classes))


def _lock(
    desk: Desk, owner: int, number: int, holder: Holder, places: list[Place], change: Change
) -> None:
    tx = find(desk, owner, number)
    count = sum(place[2] for place in places)
    if tx.messages + count > TRANSACTION_MESSAGES_MAX:
        raise InsufficientResources(
            f"one transaction may hold {TRANSACTION_MESSAGES_MAX} messages; commit in smaller steps"
        )
    tx.messages += count
    for index, first, size in places:
        move = Move(Op.LOCK, holder.number, index, first, size)
        change.moves.append(move)
        tx.receives.append(move)


def _take_out(desk: Desk, holder: Holder, places: list[Place], change: Change) -> None:
    for index, first, count in places:
        move = Move(Op.REMOVE, holder.number, index, first, count)
        ended(desk, change, move, MessageClass.ACK_RECEIVE)


def _exactly(desk: Desk, item: Receive, holder: Holder) -> None:
    """The message with one lookup identifier; never waits (RCV-8)."""
    index, counter = place_of(item.lookup)
    lane = holder.lanes.get(index)
    state = lane.state(counter) if lane is not None else REMOVED
    if state == REMOVED:
        raise MessageNotFound(f"no message has the lookup identifier {item.lookup:#x}")
    if state != AVAILABLE:
        if item.peek:
            raise TransactionUsage("that message is locked by a transaction")
        raise MessageNotFound("that message is locked by a transaction")
    _hand_out(desk, item, holder, [(index, counter, 1)])


def remove(desk: Desk, item: Remove) -> None:
    """Receive a range that was peeked before, without its bytes."""
    holder = find_source(desk, item.queue)
    if not isinstance(holder, Queue):
        raise UnsupportedFormatName(f"{item.queue} is an outgoing queue: it can only be peeked")
    check_sharing(holder, item.owner)
    if item.transaction:
        find(desk, item.owner, item.transaction)
        if not holder.properties.transactional:
            raise TransactionUsage(f"{item.queue} is not transactional")
    places: list[Place] = []
    for index, lane in ordered(holder):
        base = lookup_id(index, 0)
        low, high = max(item.first - base, 0), item.last - base + 1
        if high > 0:
            places += [(index, a, b) for a, b in lane.ranges(AVAILABLE, low, end=high)]
    change = Change(desk.now.wall_s)
    if item.transaction:
        _lock(desk, item.owner, item.transaction, holder, places, change)
    else:
        _take_out(desk, holder, places, change)
    if change.moves:
        desk.record(change, forced=not item.transaction)
    desk.answer(item.owner, item.request, sum(place[2] for place in places))


# ---- waiting -----------------------------------------------------------------------------


def serve_waiting(desk: Desk, queue: Queue) -> None:
    """Give what has become available to those who wait for it."""
    if queue.waiting:
        _serve_round(desk, queue, lambda item: item.peek)
        _serve_round(desk, queue, lambda item: not item.peek)


def _serve_round(desk: Desk, queue: Queue, chosen: Callable[[Receive], bool]) -> None:
    still: list[Receive] = []
    for item in list(queue.waiting):
        key = (item.owner, item.request)
        if desk.waiting.get(key) is not item:
            continue
        if not chosen(item) or not queue.available:
            still.append(item)
            continue
        try:
            if not _serve(desk, item, queue):
                still.append(item)
                continue
        except OnceqError as error:
            desk.answer(item.owner, item.request, error)
        del desk.waiting[key]
    queue.waiting.clear()
    queue.waiting.extend(still)


def timed_out(desk: Desk, key: tuple[int, int]) -> None:
    """The time of a waiting receive is over."""
    item = desk.waiting.get(key)
    if item is None or item.wait_until_us > desk.now.mono_us:
        return
    del desk.waiting[key]
    desk.answer(*key, ReceiveTimeout(f"no message in {item.queue}"))


def cancel(desk: Desk, item: CancelReceive) -> None:
    """Stop waiting."""
    if desk.waiting.pop((item.owner, item.waiting), None) is not None:
        desk.answer(item.owner, item.waiting, OperationCancelled("the receive was cancelled"))
    desk.answer(item.owner, item.request, None)


# ---- expiry ------------------------------------------------------------------------------


def expire(desk: Desk, queue: Queue) -> None:
    """Take out what was not received in time (TTBR); locked messages wait for their outcome."""
    change = Change(desk.now.wall_s)
    for index, lane in queue.lanes.items():
        for first, count in lane.expired(desk.now.wall_s, (AVAILABLE,)):
            move = Move(
                Op.END, queue.number, index, first, count, MessageClass.NACK_RECEIVE_TIMEOUT
            )
            ended(desk, change, move, MessageClass.NACK_RECEIVE_TIMEOUT)
    if change.moves:
        desk.record(change)
