"""Order acknowledgments and final acknowledgments: packets between queue managers.

Their forms are those of MS-MQQB 2.2.4 and 2.2.5.

Both are user messages to the sender's order queue with a body of 36 bytes. An order
acknowledgment is express and may be lost (EOD-36, U6); a final one is recoverable (X-21).

Upholds: I9 as far as bytes go (stream and number are where they were given).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID
from onceq.model.message import Delivery, Properties
from onceq.model.record import Record
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet.address import DIRECT, NOWHERE, ON_DESTINATION, Address
from onceq.packet.encode import encode_run
from onceq.packet.headers import PacketHeaders, headers
from onceq.packet.templates import Template, template

LABEL: Final = "QM Ordering Ack"
ORDER_QUEUE: Final = "PRIVATE$\\order_queue$"
ORDER_QUEUE_NUMBER: Final = 4
BODY_BYTES: Final = 36
_ORDER_BODY = struct.Struct("<QII4sII8x")
HOLE_MARK: Final = b"HOLE"
"""In reserved bytes of an order acknowledgment, if both ends of the session understand the
extension: the first and the last number that its receiver lacks follow; zeros if none is known to
be missing."""
UNMARKED: Final = bytes(4)
_FINAL_BODY = struct.Struct("<QII16sI")


class OrderAck(Record, frozen=True):
    """Everything of ``stream`` up to ``number`` is accepted and durable at ``acker``.

    Attributes:
        tells_holes: Whether the mark is in the bytes that others may use differently; it counts
            only on a session whose ends understand the extension.
        first_missing, last_missing: Numbers of the first hole behind ``number``; zeros: none.
    """

    acker: bytes
    stream: int
    number: int
    tells_holes: bool = False
    first_missing: int = 0
    last_missing: int = 0


class FinalAck(Record, frozen=True):
    """How one message ended at ``acker``."""

    acker: bytes
    message_class: int
    stream: int
    number: int
    previous: int
    source: bytes
    message: int


def order_ack(
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    address: str,
    destination_manager: bytes,
    stream: int,
    number: int,
    queue: str = "",
    hole: tuple[int, int] | None = None,
) -> bytes:
    """Return the packet of an order acknowledgment (MS-MQQB 2.2.4).

    Args:
        own: GUID of the acknowledging manager.
        own_message: Message number of its own.
        sent_time: Seconds since 1970 UTC.
        address: IP address of the session's peer, if the acknowledged messages had a direct
            destination; else "" and ``destination_manager`` is the peer's GUID.
        number: The highest one accepted in order; 0 only to say that the beginning is missing.
        queue: URL of the destination queue, for a receipt over HTTP; else "".
        hole: First and last number that are missing, zeros if none is; None for a peer that does
            not understand the extension.
    """
    assert number > 0 or hole, "nothing was accepted yet, so there is nothing to acknowledge"
    mark = UNMARKED if hole is None else HOLE_MARK
    body = _ORDER_BODY.pack(stream, number, max(number - 1, 0), mark, *(hole or (0, 0)))
    return packed(own, own_message, sent_time, address, destination_manager,
                  MessageClass.ORDER_ACK, Delivery.EXPRESS, body, queue=queue)  # fmt: skip


def final_ack(
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    destination_manager: bytes,
    message_class: int,
    stream: int,
    number: int,
    previous: int,
    source: bytes,
    message: int,
    address: str = "",
    queue: str = "",
) -> bytes:
    """Return the packet of a final acknowledgment (MS-MQQB 2.2.5).

    Args:
        message_class: ACK_RECEIVE or the reason why it was not received.
        stream, number, previous, source, message: Of the message whose end it reports.
        own, own_message, sent_time, address, destination_manager, queue: As for ``order_ack``.
    """
    assert message_class >= MessageClass.ACK_RECEIVE, "not the class of a final acknowledgment"
    body = _FINAL_BODY.pack(stream, number, previous, source, message)
    return packed(own, own_message, sent_time, address, destination_manager, message_class,
                  Delivery.RECOVERABLE, body, queue=queue)  # fmt: skip


def final_acks(
    messages: Sequence[int],
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    destination_manager: bytes,
    message_class: int,
    stream: int,
    number: int,
    source: bytes,
    address: str = "",
    queue: str = "",
) -> Run:
    """Return final acknowledgments of consecutive messages of a stream, as one run.

    Args:
        messages: Their message numbers, in the order of the stream.
        number: Sequence number of the first.
        own_message: Message number of the first acknowledgment; the others follow.
        queue: As for ``order_ack``.
    """
    assert message_class >= MessageClass.ACK_RECEIVE, "not the class of a final acknowledgment"
    pack = _FINAL_BODY.pack
    bodies = [
        pack(stream, at, at - 1, source, message) for at, message in enumerate(messages, number)
    ]
    made = _headers(own, sent_time, address, destination_manager, message_class,
                    Delivery.RECOVERABLE, queue)  # fmt: skip
    return encode_run(made, Run.of(bodies), first_message=own_message)


def packed(
    own: bytes, message: int, sent_time: int, address: str, manager: bytes, message_class: int,
    delivery: Delivery, body: bytes, *, queue: str = "",
) -> bytes:  # fmt: skip
    """Return a packet for the order queue of another manager."""
    made = _headers(own, sent_time, address, manager, message_class, delivery, queue)
    run = encode_run(made, Run(body, array(LENGTH_TYPE, (len(body),))), first_message=message)
    return bytes(run.data)


def _headers(
    own: bytes, sent_time: int, address: str, manager: bytes, message_class: int,
    delivery: Delivery, queue: str,
) -> Template:  # fmt: skip
    if address:
        destination, manager = Address(DIRECT, direct=f"TCP:{address}\\{ORDER_QUEUE}"), NO_GUID
    else:
        destination = Address(ON_DESTINATION, number=ORDER_QUEUE_NUMBER)
    return template(
        source=own,
        destination=destination,
        destination_manager=manager,
        response=Address(DIRECT, direct=queue) if queue else NOWHERE,
        properties=Properties(label=LABEL, priority=0, delivery=delivery),
        sent_time=sent_time,
        transactional=False,
        message_class=message_class,
    )


def is_order_queue(destination: Address) -> bool:
    """Return whether a name means the queue for acknowledgments between managers (EOD-35)."""
    if destination.kind == DIRECT:
        return destination.direct.partition("\\")[2].casefold() == ORDER_QUEUE.casefold()
    return destination.kind == ON_DESTINATION and destination.number == ORDER_QUEUE_NUMBER


def ack_class(parts: PacketHeaders) -> int:
    """Return the class of an order or final acknowledgment; 0 if the packet is neither.

    Queue, class and size decide; the label and the base flags do not count.
    """
    if len(parts.properties.body) != BODY_BYTES or parts.transaction is not None:
        return 0
    message_class = parts.properties.message_class
    if message_class != MessageClass.ORDER_ACK and message_class < MessageClass.ACK_RECEIVE:
        return 0
    return message_class if is_order_queue(parts.user.destination) else 0


def parse_order_ack(packet: Buffer) -> OrderAck:
    """Read an order acknowledgment; raises MalformedPacket if it is not one."""
    parts = headers(packet)
    if ack_class(parts) != MessageClass.ORDER_ACK:
        raise MalformedPacket(f"message {parts.user.message} is not an order acknowledgment")
    stream, number, _, mark, first, last = _ORDER_BODY.unpack(parts.properties.body)
    if mark != HOLE_MARK:
        return OrderAck(parts.user.source, stream, number)
    return OrderAck(parts.user.source, stream, number, True, first, last)


def parse_final_ack(packet: Buffer) -> FinalAck:
    """Read a final acknowledgment; raises MalformedPacket if it is not one."""
    parts = headers(packet)
    message_class = ack_class(parts)
    if message_class < MessageClass.ACK_RECEIVE:
        raise MalformedPacket(f"message {parts.user.message} is not a final acknowledgment")
    stream, number, previous, source, message = _FINAL_BODY.unpack(parts.properties.body)
    return FinalAck(parts.user.source, message_class, stream, number, previous, source, message)
