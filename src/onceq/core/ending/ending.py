"""How a message ends: the one place that decides who is told, and where its packet goes.

A message ends by being received, expired, purged, deleted with its queue, or refused. Whoever
asked to know (negative or positive journaling, a final acknowledgment) learns it in the same
record that ends it, so that two ends can never both happen (I11). For a transactional message
from another manager that is a final acknowledgment, a recoverable message to its order queue
(EOD-39). For one that was sent here, and for one that is not transactional, it is a dead
letter here (Q-16). Copies for journals and acknowledgment messages that are owed take the packet
over where it lies (``RangeChange.heirs``).

Upholds: I11 (one end), I12 (one dead letter), I13, I14.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.core.ending.dead_letters import dead_letter_target, journal_copy
from onceq.core.names.resolve import outgoing_for
from onceq.core.peers.http_receipts import address_for
from onceq.core.peers.strangers import answer_room, known
from onceq.core.state.position_block import PURGING, Range
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, OutgoingQueue, Queue
from onceq.core.state.records import (
    PUT_ACK_RECEIVE,
    PUT_ACKS,
    PUT_FINAL,
    PUT_HTTP,
    PUT_NACK_ARRIVAL,
    PUT_NACK_RECEIVE,
    PUT_WANTS,
    Op,
    RangeChange,
)
from onceq.core.state.report_requests import ReportRequest
from onceq.core.state.state import (
    ACKS_OWED,
    DEAD_LETTER,
    DEAD_XACT,
    IN_DOUBT,
    ORDER_QUEUE_NUMBER,
)
from onceq.core.step.change_builder import ChangeBuilder
from onceq.model.classes import SECOND_LETTER, MessageClass
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.message import Acknowledge
from onceq.model.names import FormatName, parse_format_name
from onceq.model.time import NEVER_S
from onceq.packet.acks import final_acks

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


def ended(
    build: ChangeBuilder, move: RangeChange, reason: MessageClass, *, keep: bool = False
) -> None:
    """A range leaves a queue: put the move into the change, and tell whoever asked.

    Args:
        keep: The dead-letter queue of this computer takes it, whoever else does.
    """
    holder = build.step.state.holders[move.holder]
    if reason == MessageClass.ACK_RECEIVE and isinstance(holder, Queue):
        move.copies_to = journal_copy(build, holder, move)
    dead_letters = (DEAD_XACT if _transactional(holder) else DEAD_LETTER) if keep else 0
    if not holder.wanting:
        move.to = move.to or dead_letters
        build.move(move)
        return
    for w, start, count in holder.wants(move.lane).parts(move.first, move.count):
        part = RangeChange(
            move.op, move.holder, move.lane, start, count, move.reason, copies_to=move.copies_to
        )
        if w is not None:
            _tell(build, holder, w, part, reason)
        if dead_letters:
            if part.to and part.to != dead_letters:
                # Two dead letters of one message: its sender's is the one to return.
                part.copies_to = (*part.copies_to, (part.to, 0, reason))
                part.note = SECOND_LETTER
            part.to, part.reason = dead_letters, reason
        build.move(part)


def _tell(
    build: ChangeBuilder,
    holder: AnyQueue,
    w: ReportRequest,
    part: RangeChange,
    reason: MessageClass,
) -> None:
    if owes(w.flags, reason):
        part.copies_to = (*part.copies_to, (ACKS_OWED, 0, reason))
    if w.source == NO_GUID or not w.stream:
        part.to = dead_letter_target(build, w, part, reason, transactional=_transactional(holder))
        part.reason = reason
        return
    if w.flags & PUT_FINAL:
        offset = part.first - w.first
        message = w.message + offset
        tell_sender(
            build, w.source, reason, stream=w.stream, number=w.number + offset,
            messages=range(message, message + part.count), http=bool(w.flags & PUT_HTTP),
        )  # fmt: skip


def refuse(build: ChangeBuilder, move: RangeChange, reason: MessageClass, *, keep: bool) -> None:
    """A range ends because the receiving application will not have it (RCV-15).

    Args:
        keep: Also put it into the dead-letter queue of this computer.
    """
    where = RangeChange(Op.END, move.holder, move.lane, move.first, move.count, reason)
    ended(build, where, reason, keep=keep)


def gave_up(
    build: ChangeBuilder, outgoing: OutgoingQueue, lane: int, first: int, count: int,
    reason: MessageClass, *, answered: bool = False,
) -> None:  # fmt: skip
    """A range ends in its outgoing queue, and the destination has not said how (CNF-21).

    What was never transmitted is certainly not delivered, for this reason. What may have been
    transmitted may have arrived, and been received: it is in doubt, whatever ends the wait for it
    here (CNF-12), and nothing else is said of it before its doubt is settled (I11, I13).

    Args:
        answered: The destination has refused it, outside transactions, to whoever asked there: no
            acknowledgment message says so (Q-5).
    """
    if not answered:
        outgoing.given_up += count
        outgoing.given_up_class, outgoing.given_up_s = int(reason), build.step.now.wall_s
    left = 0 if answered else min(max(outgoing.may_have_left(lane) + 1 - first, 0), count)
    if left:
        _in_doubt(build, outgoing, lane, first, left, reason)
    ordered = lane == TRANSACTIONAL_LANE
    for w, start, size in outgoing.wants(lane).parts(first + left, count - left):
        part = RangeChange(Op.END, outgoing.number, lane, start, size, reason)
        if w is not None:
            part.to = dead_letter_target(build, w, part, reason, transactional=ordered)
            if not answered and owes(w.flags, reason):
                part.copies_to = ((ACKS_OWED, 0, int(reason)),)
        build.move(part)


def _in_doubt(
    build: ChangeBuilder, outgoing: OutgoingQueue, lane: int, first: int, count: int,
    reason: MessageClass,
) -> None:  # fmt: skip
    """A range may have been transmitted, and the wait for it ends for this reason.

    The doubt of a transactional message can be settled, and is told of then. That of another one
    stays, so that whoever asked is told of the doubt itself.
    """
    ordered = lane == TRANSACTIONAL_LANE
    for w, start, size in outgoing.wants(lane).parts(first, count):
        part = RangeChange(Op.END, outgoing.number, lane, start, size, IN_DOUBT, note=reason)
        if w is not None:
            part.to = dead_letter_target(build, w, part, IN_DOUBT, transactional=ordered)
            if not ordered and w.flags & PUT_NACK_ARRIVAL:
                part.copies_to = ((ACKS_OWED, 0, int(IN_DOUBT)),)
        build.move(part)


def _transactional(holder: object) -> bool:
    return isinstance(holder, Queue) and holder.properties.transactional


def purged_meanwhile(build: ChangeBuilder, lock: RangeChange) -> None:
    """A transaction aborts: what was purged while it was locked ends now (X-19)."""
    lane = build.step.state.holders[lock.holder].lane(lock.lane)
    purged: list[Range] = list(lane.ranges(PURGING, lock.first, end=lock.first + lock.count))
    for first, count in purged:
        move = RangeChange(Op.END, lock.holder, lock.lane, first, count)
        ended(build, move, MessageClass.NACK_QUEUE_PURGED)


def order_queue_of(guid: bytes) -> FormatName:
    """The queue of a manager for what managers tell each other."""
    (name,) = parse_format_name(f"PRIVATE={guid_text(guid)}\\{ORDER_QUEUE_NUMBER:08x}")
    return name


def tell_sender(
    build: ChangeBuilder,
    source: bytes,
    reason: MessageClass,
    *,
    stream: int,
    number: int,
    messages: Sequence[int],
    http: bool = False,
) -> None:
    """Queue final acknowledgments for the order queue of the sending manager.

    They leave on any session with that manager; the name in them has the form of the name that the
    messages came under (EOD-35), unless somebody in between would take it for his own.

    Args:
        number: Of the first message in its stream.
        messages: Message numbers of them all.
        http: Whether they came over HTTP.
    """
    step = build.step
    address = "" if source in step.names.routes_to else step.sessions.return_to.get(source, "")
    outgoing, expires = address_for(step, source, stream, http=http), NEVER_S
    if outgoing is None:
        stranger = not known(step, source)
        name = order_queue_of(source)
        if stranger and not answer_room(step, name.key()):
            step.notice("final acknowledgments for strangers are given up: too many wait",
                        source=guid_text(source))  # fmt: skip
            return
        outgoing = outgoing_for(step, name, stranger=stranger)
        expires = step.reach_by_s() if stranger else NEVER_S
    else:
        # A stranger's choice, which may never be reached: like an acknowledgment message it does
        # not wait longer than a message that says nothing of its time (EOD-42: it may be lost).
        address, expires = "", step.reach_by_s()
    packets = final_acks(
        messages,
        own=step.identity.guid,
        own_message=build.take_numbers(len(messages)),
        sent_time=step.now.wall_s,
        address=address,
        destination_manager=source,
        message_class=reason,
        stream=stream,
        number=number,
        source=source,
        queue=step.state.receipts.queue_of(source, stream) if http else "",
    )
    build.put_copy(outgoing.number, packets, lane=ACK_LANE, expires=expires)
