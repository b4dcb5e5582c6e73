"""Runs out of what one read from the network brought: checked once, looked at once (D12).

Consecutive packets of one sender to one queue, in one stream and in order, become one
``ArrivedRun``, which the core judges and stores as a whole. Packets of one batch have the same
headers but for a few fields, so after the first of a run the others are compared as bytes.

Upholds: I24 (nothing is believed that is not there).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Final

from onceq.model.classes import MessageClass
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet import layout as at
from onceq.packet.acks import BODY_BYTES, ORDER_QUEUE_NUMBER
from onceq.packet.decode import UserHeaders, headers
from onceq.packet.encode import Address

USER, ORDER_ACK, FINAL_ACK = 0, 1, 2
_ORDER = struct.Struct("<IQII")
_TX_ASKS: Final = at.TX_FINAL_ACK
_USER_ASKS: Final = at.USER_DEADLETTER | at.USER_JOURNAL


@dataclass(frozen=True, slots=True)
class ArrivedRun:
    """Consecutive packets that differ in nothing but body, message number and place.

    Attributes:
        destination_manager: Zero for a direct name.
        stream, first_number, first_previous: Of the first; zeros if not transactional. Each
            further packet has the next number, and the one before it as previous.
        message_numbers: Of all of them.
        wants: Whether the sender asks how they end (JN, JP, FA, acknowledgment flags).
        kind: USER, ORDER_ACK or FINAL_ACK.
    """

    packets: Run
    source: bytes
    destination_manager: bytes
    destination: Address
    transactional: bool
    recoverable: bool
    priority: int
    stream: int
    first_number: int
    first_previous: int
    message_numbers: array[int]
    wants: int
    time_to_reach_queue: int
    time_to_be_received: int
    sent_time: int
    kind: int


def cut(data: Buffer, lengths: array[int]) -> list[ArrivedRun]:
    """Check packets and put them together into runs.

    Args:
        data: User packets one after another, each of the size that its header declares.

    Raises:
        MalformedPacket: One of them is not a message; none counts then.
    """
    runs: list[ArrivedRun] = []
    start, index, count = 0, 0, len(lengths)
    view = data if isinstance(data, bytes) else bytes(data)
    while index < count:
        size = lengths[index]
        parts = headers(view[start : start + size])
        taken, end, numbers = _same(view, start, lengths, index, parts)
        runs.append(_run(view[start:end], lengths[index : index + taken], numbers, parts))
        start, index = end, index + taken
    return runs


def _same(
    view: bytes, start: int, lengths: array[int], index: int, parts: UserHeaders
) -> tuple[int, int, array[int]]:
    """How many packets from ``index`` on are one run; where it ends; their message numbers.

    Those after the first have the same bytes in everything up to the properties (but for message
    number, size and place), the same label and sizes that fit, so that they need no other check.
    """
    size = lengths[index]
    numbers = array("I", (parts.message,))
    if parts.rest or _kind(parts) != USER or parts.security or parts.tx_connector:
        return 1, start + size, numbers
    tx, prop = parts.offsets
    lead = view[start : start + at.OFF_PACKET_SIZE]
    upper = view[start + at.OFF_TIME_TO_REACH_QUEUE : start + at.OFF_MESSAGE_NUMBER]
    names_end = tx or prop
    lower = view[start + at.OFF_USER_FLAGS : start + names_end]
    fixed = view[start + prop : start + prop + 24]
    body_at = prop + at.PROPERTIES_HEADER + 2 * int(parts.properties[1])
    label = view[start + prop + at.PROPERTIES_HEADER : start + body_at]
    stream, number = (parts.tx[1], parts.tx[2]) if parts.tx is not None else (0, 0)
    asks = parts.tx[0] & _TX_ASKS if parts.tx is not None else 0
    if parts.extension:
        return 1, start + size, numbers
    taken, end = 1, start + size
    unpack_u32, unpack_order = at.U32.unpack_from, _ORDER.unpack_from
    sizes = _SIZES.unpack_from
    for size in lengths[index + 1 :]:
        if (
            size < body_at
            or view[end : end + at.OFF_PACKET_SIZE] != lead
            or view[end + at.OFF_TIME_TO_REACH_QUEUE : end + at.OFF_MESSAGE_NUMBER] != upper
            or view[end + at.OFF_USER_FLAGS : end + names_end] != lower
            or view[end + prop : end + prop + 24] != fixed
            or view[end + prop + at.PROPERTIES_HEADER : end + body_at] != label
            or unpack_u32(view, end + at.OFF_PACKET_SIZE)[0] != size
        ):
            break
        body, allocated = sizes(view, end + prop + at.OFF_BODY_SIZE)
        if (
            body != allocated
            or (body_at + body + 3) & ~3 != size
            or unpack_u32(view, end + prop + at.OFF_EXTENSION_SIZE)[0]
        ):
            break
        if tx:
            flags, this, own, previous = unpack_order(view, end + tx)
            if this != stream or own != number + 1 or previous != number:
                break
            if flags & (_TX_ASKS | at.TX_CONNECTOR) != asks:
                break
            number = own
        numbers.append(unpack_u32(view, end + at.OFF_MESSAGE_NUMBER)[0])
        taken += 1
        end += size
    return taken, end, numbers


_SIZES = struct.Struct("<II")


def _kind(parts: UserHeaders) -> int:
    """Whether it is an acknowledgment between managers (5.1: strict on queue, class and size)."""
    if len(parts.body) != BODY_BYTES or parts.tx is not None:
        return USER
    destination = parts.destination
    if destination.kind == 7:
        if not destination.direct.casefold().endswith("\\private$\\order_queue$"):
            return USER
    elif destination.kind != 3 or destination.number != ORDER_QUEUE_NUMBER:
        return USER
    message_class = int(parts.properties[2])
    if message_class == MessageClass.ORDER_ACK:
        return ORDER_ACK
    return FINAL_ACK if message_class >= MessageClass.ACK_RECEIVE else USER


def _run(
    data: bytes, lengths: array[int], numbers: array[int], parts: UserHeaders
) -> ArrivedRun:
    flags = parts.user_flags
    tx_flags, stream, number, previous = parts.tx if parts.tx is not None else (0, 0, 0, 0)
    return ArrivedRun(
        packets=Run(data, array(LENGTH_TYPE, lengths)),
        source=parts.source,
        destination_manager=parts.destination_manager,
        destination=parts.destination,
        transactional=parts.tx is not None,
        recoverable=bool(flags & at.USER_RECOVERABLE),
        priority=parts.flags & at.BASE_PRIORITY_MASK,
        stream=stream,
        first_number=number,
        first_previous=previous,
        message_numbers=numbers,
        wants=int(bool(flags & _USER_ASKS or tx_flags & _TX_ASKS)),
        time_to_reach_queue=parts.time_to_reach_queue,
        time_to_be_received=parts.time_to_be_received,
        sent_time=parts.sent_time,
        kind=_kind(parts),
    )
