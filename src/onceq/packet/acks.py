"""Order acknowledgments and final acknowledgments: packets between queue managers (5.2, 5.3).

Both are user messages to the sender's order queue with a body of 36 bytes. An order
acknowledgment is express and may be lost (EOD-36); a final one is recoverable (X-21).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID
from onceq.model.message import Delivery, Properties
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet.decode import headers
from onceq.packet.encode import Address, encode_run, template

LABEL: Final = "QM Ordering Ack"
ORDER_QUEUE: Final = "PRIVATE$\\order_queue$"
ORDER_QUEUE_NUMBER: Final = 4
BODY_BYTES: Final = 36
_ORDER_BODY = struct.Struct("<QII20x")
_FINAL_BODY = struct.Struct("<QII16sI")


@dataclass(frozen=True, slots=True)
class OrderAck:
    """Everything of ``stream`` up to ``number`` is accepted and durable at ``acker``."""

    acker: bytes
    stream: int
    number: int


@dataclass(frozen=True, slots=True)
class FinalAck:
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
) -> bytes:
    """The packet of an order acknowledgment.

    Args:
        own: GUID of the acknowledging manager.
        address: Address of the session's peer, if what is acknowledged had a direct
            destination; else "" and ``destination_manager`` is its GUID.
    """
    body = _ORDER_BODY.pack(stream, number, number - 1)
    return _packet(own, own_message, sent_time, address, destination_manager,
                   MessageClass.ORDER_ACK, Delivery.EXPRESS, body)  # fmt: skip


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
) -> bytes:
    """The packet of a final acknowledgment; arguments as for ``order_ack``."""
    body = _FINAL_BODY.pack(stream, number, previous, source, message)
    return _packet(own, own_message, sent_time, address, destination_manager, message_class,
                   Delivery.RECOVERABLE, body)  # fmt: skip


def _packet(
    own: bytes, message: int, sent_time: int, address: str, manager: bytes, message_class: int,
    delivery: Delivery, body: bytes,
) -> bytes:  # fmt: skip
    if address:
        destination, manager = Address(7, direct=f"TCP:{address}\\{ORDER_QUEUE}"), NO_GUID
    else:
        destination = Address(3, number=ORDER_QUEUE_NUMBER)
    made = template(
        source=own,
        destination=destination,
        destination_manager=manager,
        properties=Properties(label=LABEL, priority=0, delivery=delivery),
        sent_time=sent_time,
        transactional=False,
        message_class=message_class,
    )
    run = encode_run(made, Run(body, array(LENGTH_TYPE, (len(body),))), first_message=message)
    return bytes(run.data)


def parse_order_ack(packet: Buffer) -> OrderAck:
    """Read an order acknowledgment; raises MalformedPacket."""
    parts = headers(packet)
    if len(parts.body) != BODY_BYTES:
        raise MalformedPacket(f"an order acknowledgment with a body of {len(parts.body)} bytes")
    stream, number, _ = _ORDER_BODY.unpack(parts.body)
    return OrderAck(parts.source, stream, number)


def parse_final_ack(packet: Buffer) -> FinalAck:
    """Read a final acknowledgment; raises MalformedPacket."""
    parts = headers(packet)
    if len(parts.body) != BODY_BYTES:
        raise MalformedPacket(f"a final acknowledgment with a body of {len(parts.body)} bytes")
    stream, number, previous, source, message = _FINAL_BODY.unpack(parts.body)
    return FinalAck(
        parts.source, int(parts.properties[2]), stream, number, previous, source, message
    )
