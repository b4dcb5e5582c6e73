"""How a message ends: the one place that decides who is told, and where its packet goes.

A message ends by being received, expired, purged, deleted with its queue, or refused. Whoever
asked to know (negative or positive journaling, a final acknowledgment) learns it in the same
record that ends it, so that two ends can never both happen (I11). For a transactional message
from another manager that is a final acknowledgment, a recoverable message to its order queue
(section 4.6). For one that was sent here, and for one that is not transactional, it is a dead
letter here (Q-16). Copies for journals and acknowledgment messages that are owed take the packet
over where it lies (``Move.heirs``).

Upholds: I11 (one end), I12 (one dead letter), I13, I14.
"""

from __future__ import annotations

from onceq.core.chunk import PURGING, Range
from onceq.core.desk import Desk
from onceq.core.holders import Outgoing, Queue, Wanting
from onceq.core.records import (
    PUT_ACK_RECEIVE,
    PUT_ACKS,
    PUT_DEADLETTER,
    PUT_FINAL,
    PUT_JOURNAL,
    PUT_NACK_ARRIVAL,
    PUT_NACK_RECEIVE,
    PUT_WANTS,
    Change,
    Move,
    Op,
    Put,
)
from onceq.core.resolve import outgoing_for
from onceq.core.state import ACKS_OWED, DEAD_LETTER, DEAD_XACT, JOURNAL, ORDER_QUEUE_NUMBER
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import MESSAGE_NUMBER_MAX
from onceq.model.message import Acknowledge
from onceq.model.names import parse_format_name
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.run import Run
from onceq.packet.acks import final_ack

ACK_LANE = 7
"""Final acknowledgments go before other messages that are not transactional."""


_LATER = (
    (Acknowledge.POSITIVE_RECEIVE, PUT_ACK_RECEIVE),
    (Acknowledge.NEGATIVE_RECEIVE, PUT_NACK_RECEIVE),
    (Acknowledge.NEGATIVE_ARRIVAL, PUT_NACK_ARRIVAL),
)


def ack_flags(level: int, *, arrived: bool) -> int:
    """What a Put notes of an acknowledgment level: the bits for ends that are still to come.

    Args:
        level: ``Acknowledge``; 0 where no administration queue is named (ACK-1).
    """
    flags = 0
    for bit, flag in _LATER:
        if level & bit and not (arrived and flag == PUT_NACK_ARRIVAL):
            flags |= flag
    return flags | PUT_WANTS if flags else 0


def owes(flags: int, reason: MessageClass) -> bool:
    """Whether an end for this reason is acknowledged, where ``flags`` were noted."""
    if not flags & PUT_ACKS or reason == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
        return False  # the latter is in doubt: there is nothing true to be said (CNF-12)
    if not reason.negative:
        return bool(flags & PUT_ACK_RECEIVE)
    return bool(flags & (PUT_NACK_RECEIVE if reason.on_receive else PUT_NACK_ARRIVAL))


def ended(desk: Desk, change: Change, move: Move, reason: MessageClass) -> None:
    """A range leaves a queue: put the move into the change, and tell whoever asked."""
    holder = desk.state.holders[move.holder]
    if reason == MessageClass.ACK_RECEIVE and isinstance(holder, Queue):
        move.heirs = _journal_copy(desk, change, holder, move)
    wanting = holder.wanting.get(move.lane)
    if not wanting:
        change.moves.append(move)
        return
    at, end = move.first, move.first + move.count
    heirs = move.heirs
    for w in list(wanting):
        start, stop = max(at, w.first), min(end, w.first + w.count)
        if start >= stop:
            continue
        if start > at:
            change.moves.append(_part(move, at, start, heirs))
        part = _part(move, start, stop, heirs)
        _tell(desk, change, holder, w, part, reason)
        change.moves.append(part)
        at = stop
    if at < end:
        change.moves.append(_part(move, at, end, heirs))


def _part(move: Move, start: int, stop: int, heirs: tuple[tuple[int, int, int], ...]) -> Move:
    return Move(move.op, move.holder, move.lane, start, stop - start, move.reason, heirs=heirs)


def _journal_copy(
    desk: Desk, change: Change, queue: Queue, move: Move
) -> tuple[tuple[int, int, int], ...]:
    """The queue's journal takes a copy of what is received from it (Q-11), if it has room (Q-14).

    What belongs together here is copied together or not at all.
    """
    above = queue.parent or queue
    journal = above.journal
    if not queue.properties.journal or journal is None:
        return ()
    copy = (journal.number, 0, 0)
    if journal.properties.quota_kb != QUOTA_UNLIMITED_KB:
        size = queue.lanes[move.lane].size(move.first, move.count)
        for other in change.moves:
            if copy in other.heirs:
                lane = desk.state.holders[other.holder].lanes[other.lane]
                size += lane.size(other.first, other.count)
        if journal.bytes + size > journal.properties.quota_bytes:
            desk.notice("journal full: copies dropped", queue.properties.name)
            return ()
    return (copy,)


def _tell(
    desk: Desk, change: Change, holder: Queue | Outgoing | object, w: Wanting, part: Move,
    reason: MessageClass,
) -> None:  # fmt: skip
    if owes(w.flags, reason):
        part.heirs = (*part.heirs, (ACKS_OWED, 0, reason))
    if w.source == NO_GUID or not w.stream:
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


def refuse(desk: Desk, change: Change, move: Move, reason: MessageClass, *, keep: bool) -> None:
    """A range ends because the receiving application will not have it (RCV-15).

    Args:
        keep: Also put it into the dead-letter queue of this computer.
    """
    holder = desk.state.holders[move.holder]
    first = len(change.moves)
    ended(
        desk, change, Move(Op.END, move.holder, move.lane, move.first, move.count, reason), reason
    )
    if keep:
        for part in change.moves[first:]:
            part.to = DEAD_XACT if _transactional(holder) else DEAD_LETTER
            part.reason = reason


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
    """Queue a final acknowledgment for the order queue of the sending manager.

    It leaves on any session with that manager; the name in it has the form of the name that the
    messages came under (EOD-35), unless somebody in between would take it for his own.
    """
    address = "" if source in desk.routes_to else desk.return_to.get(source, "")
    text = f"PRIVATE={guid_text(source)}\\{ORDER_QUEUE_NUMBER:08x}"
    outgoing = outgoing_for(desk, parse_format_name(text)[0])
    number_here = desk.state.next_message if not change.next_message else change.next_message
    change.next_message = number_here + 1 if number_here < MESSAGE_NUMBER_MAX else 1
    packet = final_ack(
        own=desk.identity.guid,
        own_message=number_here,
        sent_time=desk.now.wall_s,
        address=address,
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
