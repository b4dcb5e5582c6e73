"""Acknowledgment messages: an application is told of arrival and end (section 5).

They are ordinary messages to the administration queues that the original names, made from its
packet. Where an arrival is stored or refused the packet is at hand, and they stand in the record
that decides it. Of an end that comes later only the place of the packet is known: the record of
the end hands it to the hidden queue of acknowledgments that are owed (``ACKS_OWED``), the engine
reads the bytes, and ``pay`` makes the messages and ends what was owed, again in one record. So
each is made exactly once, also through crashes, and never before what it tells has happened.

Upholds: I13 (true, and at most one of each kind).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from onceq.core.desk import Desk, Target
from onceq.core.holders import Queue
from onceq.core.inputs import Compose
from onceq.core.numbers import take_numbers
from onceq.core.records import (
    PUT_EXPRESS,
    Change,
    Move,
    Op,
    Put,
)
from onceq.core.resolve import address_of, answer_address, destinations
from onceq.core.state import ACKS_OWED
from onceq.core.views import Live
from onceq.errors import OnceqError
from onceq.model.classes import MessageClass
from onceq.model.limits import ACKS_AT_ONCE, PACKET_BYTES_MAX
from onceq.model.message import Acknowledge, Delivery, Message, Properties
from onceq.model.run import Buffer, Run
from onceq.packet.decode import decode
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import headers

ON_ARRIVAL: Final = {
    True: Acknowledge.NEGATIVE_ARRIVAL,
    False: Acknowledge.POSITIVE_ARRIVAL,
}
INSECURE: Final = frozenset(
    (
        MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    )
)  # fmt: skip
"""They tell a stranger what exists here, so that a setting suppresses them (ACK-7)."""


def on_arrival(
    desk: Desk, change: Change, packets: Iterable[Buffer], level: int, refusal: int = 0
) -> None:
    """Messages are stored or refused by this change: acknowledge it, as far as was asked for.

    Args:
        level: Of all of them (``Acknowledge``); 0 where they name no administration queue.
        refusal: Why they are refused; 0: they are stored.
    """
    if not level & ON_ARRIVAL[bool(refusal)] or (
        refusal in INSECURE and not desk.settings.permit_insecure_nacks
    ):
        return
    reason = MessageClass(refusal or MessageClass.ACK_REACH_QUEUE)
    for packet in packets:
        acknowledge(desk, change, packet, reason)


# ---- what is owed ---------------------------------------------------------------------------


def owed(desk: Desk, bytes_max: int) -> Live | None:
    """The next messages whose acknowledgments are owed, a bounded number; None if none are."""
    holder = desk.state.holders[ACKS_OWED]
    lane = holder.lanes.get(0)
    if lane is None or not lane.available:
        return None
    counters: list[int] = []
    lengths = array("I")
    extents = []
    for first, count in lane.take(count_max=ACKS_AT_ONCE, bytes_max=bytes_max, start=lane.head):
        counters += range(first, first + count)
        lengths.extend(lane.lengths(first, count))
        extents += lane.extents(first, count)
    return Live(ACKS_OWED, 0, tuple(counters), tuple(extents), lengths)


def pay(desk: Desk, item: Compose) -> None:
    """Make the acknowledgments of messages that the engine has read."""
    lane = desk.state.holders[ACKS_OWED].lane(0)
    change = Change(desk.now.wall_s)
    for counter, packet in zip(item.counters, item.packets, strict=True):
        reason = lane.classes.get(counter, 0)
        acknowledge(desk, change, packet, MessageClass(reason))
        change.moves.append(Move(Op.END, ACKS_OWED, 0, counter, 1))
    desk.record(change, forced=any(not put.flags & PUT_EXPRESS for put in change.puts))


# ---- one acknowledgment -----------------------------------------------------------------------


def acknowledge(desk: Desk, change: Change, packet: Buffer, reason: MessageClass) -> None:
    """Put an acknowledgment of a message into each of its administration queues (ACK-10).

    Where that cannot be done it is given up silently, as published (ACK-8); the log has a notice.
    """
    parts = headers(packet)
    original = decode(packet)
    if not original.admin_queue or parts.properties.message_class:
        return
    try:
        targets = destinations(desk, original.admin_queue, transactional=False)
    except OnceqError as error:
        desk.notice("no administration queue: acknowledgment dropped", original.admin_queue,
                    queue=original.admin_queue, reason=error.text)  # fmt: skip
        return
    body = b""
    if reason.negative and not parts.encrypted and reason != MessageClass.NACK_MESSAGE_TOO_LARGE:
        body = original.body
    number = 0
    for target in targets:
        if not _takes(target, desk):
            continue
        number = number or take_numbers(desk, change, 1)
        _put(desk, change, target, original, reason, body, number)


def _takes(target: Target, desk: Desk) -> bool:
    """An administration queue of this manager must not be transactional (case 90)."""
    holder = target.holder
    if not isinstance(holder, Queue) or not holder.properties.transactional:
        return True
    desk.notice("an administration queue is transactional: acknowledgment dropped",
                target.text, queue=target.text)  # fmt: skip
    return False


def _put(
    desk: Desk, change: Change, target: Target, original: Message, reason: MessageClass,
    body: bytes, number: int,
) -> None:  # fmt: skip
    destination, manager = address_of(desk, target)
    made = template(
        source=desk.identity.guid,
        destination=destination,
        destination_manager=manager,
        response=answer_address(desk, original.destination),
        properties=Properties(
            label=original.label,
            priority=original.priority,
            delivery=original.delivery,
            app_specific=original.app_specific,
            body_type=original.body_type if body else 0,
            correlation_id=original.id.pack(),
        ),
        sent_time=desk.now.wall_s,
        transactional=False,
        message_class=reason,
    )
    if made.packet_bytes(len(body)) > PACKET_BYTES_MAX:
        body = b""
    packets = encode_run(made, Run.of([body]), first_message=number)
    holder, lane = target.holder, original.priority
    if isinstance(holder, Queue) and (
        desk.holding(holder) + _incoming(change, holder) + len(packets.data)
        > holder.properties.quota_bytes
    ):
        desk.notice("administration queue full: acknowledgments dropped",
                    target.text, queue=target.text)  # fmt: skip
        return
    ahead = sum(
        len(put.packets) for put in change.puts if put.holder == holder.number and put.lane == lane
    )
    flags = 0 if original.delivery is Delivery.RECOVERABLE else PUT_EXPRESS
    change.puts.append(
        Put(holder.number, lane, holder.lane(lane).next + ahead, packets, flags=flags,
            message=number)
    )  # fmt: skip


def _incoming(change: Change, queue: Queue) -> int:
    return sum(len(put.packets.data) for put in change.puts if put.holder == queue.number)
