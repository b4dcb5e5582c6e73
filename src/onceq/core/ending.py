"""How a message ends: the one place that decides who is told, and where its packet goes.

A message ends by being received, expired, purged, deleted with its queue, or refused. Whoever
asked to know (negative or positive journaling, a final acknowledgment) learns it in the same
record that ends it, so that two ends can never both happen (I11). For a message from another
manager that is a final acknowledgment, a recoverable message to its order queue (section 4.6).
For one that was sent here it is a dead letter here.

Upholds: I11 (one end), I12 (one dead letter), I13.
"""

from __future__ import annotations

from onceq.core.chunk import PURGING, Range
from onceq.core.desk import Desk
from onceq.core.holders import Outgoing, Queue, Wanting
from onceq.core.records import (
    PUT_DEADLETTER,
    PUT_FINAL,
    PUT_JOURNAL,
    Change,
    Move,
    Op,
    Put,
)
from onceq.core.resolve import outgoing_for
from onceq.core.state import DEAD_LETTER, DEAD_XACT, JOURNAL, ORDER_QUEUE_NUMBER
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import MESSAGE_NUMBER_MAX
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.packet.acks import final_ack

ACK_LANE = 7
"""Final acknowledgments go before other messages that are not transactional."""


def ended(desk: Desk, change: Change, move: Move, reason: MessageClass) -> None:
    """A range leaves a queue: put the move into the change, and tell whoever asked."""
    holder = desk.state.holders[move.holder]
    wanting = holder.wanting.get(move.lane)
    if not wanting:
        change.moves.append(move)
        return
    at, end = move.first, move.first + move.count
    for w in list(wanting):
        start, stop = max(at, w.first), min(end, w.first + w.count)
        if start >= stop:
            continue
        if start > at:
            change.moves.append(Move(move.op, move.holder, move.lane, at, start - at, move.reason))
        part = Move(move.op, move.holder, move.lane, start, stop - start, move.reason)
        _tell(desk, change, holder, w, part, reason)
        change.moves.append(part)
        at = stop
    if at < end:
        change.moves.append(Move(move.op, move.holder, move.lane, at, end - at, move.reason))


def _tell(
    desk: Desk, change: Change, holder: Queue | Outgoing | object, w: Wanting, part: Move,
    reason: MessageClass,
) -> None:  # fmt: skip
    if w.source == NO_GUID:
        part.to, part.reason = grave(w, reason, transactional=_transactional(holder)), reason
        return
    if not w.flags & PUT_FINAL:
        return
    for counter in range(part.first, part.first + part.count):
        offset = counter - w.first
        tell_sender(
            desk, change, w.source, reason,
            stream=w.stream, number=w.number + offset, message=w.message + offset,
        )  # fmt: skip


def _transactional(holder: object) -> bool:
    return isinstance(holder, Queue) and holder.properties.transactional


def grave(w: Wanting, reason: MessageClass, *, transactional: bool) -> int:
    """The system queue that takes a message over which was sent here; 0 for none."""
    if reason.negative:
        if not w.flags & PUT_DEADLETTER:
            return 0
        return DEAD_XACT if transactional else DEAD_LETTER
    return JOURNAL if w.flags & PUT_JOURNAL else 0


def purged_meanwhile(desk: Desk, change: Change, lock: Move) -> None:
    """A transaction aborts: what was purged while it was locked ends now (X-19)."""
    lane = desk.state.holders[lock.holder].lane(lock.lane)
    purged: list[Range] = list(lane.ranges(PURGING, lock.first, end=lock.first + lock.count))
    for first, count in purged:
        move = Move(Op.END, lock.holder, lock.lane, first, count)
        ended(desk, change, move, MessageClass.NACK_QUEUE_PURGED)


def tell_sender(
    desk: Desk,
    change: Change,
    source: bytes,
    reason: MessageClass,
    *,
    stream: int,
    number: int,
    message: int,
) -> None:
    """Queue a final acknowledgment for the order queue of the sending manager."""
    text = f"PRIVATE={guid_text(source)}\\{ORDER_QUEUE_NUMBER:08x}"
    outgoing = outgoing_for(desk, parse_format_name(text)[0])
    number_here = desk.state.next_message if not change.next_message else change.next_message
    change.next_message = number_here + 1 if number_here < MESSAGE_NUMBER_MAX else 1
    packet = final_ack(
        own=desk.identity.guid,
        own_message=number_here,
        sent_time=desk.now.wall_s,
        destination_manager=source,
        message_class=reason,
        stream=stream,
        number=number,
        previous=max(number - 1, 0),
        source=source,
        message=message,
    )
    lane = outgoing.lane(ACK_LANE)
    ahead = sum(
        len(put.packets)
        for put in change.puts
        if put.holder == outgoing.number and put.lane == ACK_LANE
    )
    change.puts.append(Put(outgoing.number, ACK_LANE, lane.next + ahead, Run.of([packet])))
