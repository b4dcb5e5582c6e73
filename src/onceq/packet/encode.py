"""From bodies to packets: the headers once for a batch, the changing fields once for a message.

A batch shares destination and properties, so nearly all bytes of its headers are the same. A
``Template`` holds them; ``encode_run`` fills in sizes, message numbers and sequence numbers and
joins everything to one run of packets (product D2, D12). This is the one place where each message
costs Python time on its way out.

Upholds: I7 and I8 as far as bytes go (number and previous number stand where they were given).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Final

from onceq.errors import BodyTooLarge
from onceq.model.identity import NO_GUID
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.message import PRIORITY_DEFAULT, Delivery, Journal, Properties
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet import layout as at

HASH_SHA1: Final = 0x8004
CIPHER_RC4: Final = 0x6801
"""What Windows writes into messages that are neither signed nor encrypted (wire-mqqb 4.9)."""

PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
"""By size modulo 4."""


@dataclass(frozen=True, slots=True)
class Address:
    """A queue as it stands in a UserHeader (wire-mqqb section 3).

    Attributes:
        kind: 0 none, 1 same as the admin queue, 2 to 4 by number on some host, 5 by GUID, 6 by
            GUID and number, 7 direct.
        direct: Without ``DIRECT=``.
    """

    kind: int
    guid: bytes = NO_GUID
    number: int = 0
    direct: str = ""

    def pack(self, offset: int) -> bytes:
        """Bytes of the name when it begins ``offset`` bytes into the UserHeader."""
        if self.kind in (2, 3, 4):
            return at.U32.pack(self.number)
        if self.kind == 5:
            return self.guid
        if self.kind == 6:
            return self.guid + at.U32.pack(self.number)
        if self.kind == 7:
            text = (self.direct + "\0").encode("utf-16-le")
            raw = struct.pack("<H", len(text)) + text
            return raw + PADDING[(offset + len(raw)) % 4]
        return b""


NOWHERE: Final = Address(0)


@dataclass(frozen=True, slots=True)
class Template:
    """The headers of every packet of one batch.

    Attributes:
        head: Everything before the body, with zeros where messages differ.
        transaction: Offset of the TransactionHeader; 0 if there is none.
        properties: Offset of the MessagePropertiesHeader.
        flags: Those of every TransactionHeader.
    """

    head: bytes
    transaction: int
    properties: int
    flags: int = 0

    @property
    def overhead(self) -> int:
        """Bytes of headers in each packet."""
        return len(self.head)

    def packet_bytes(self, body: int) -> int:
        """Size of the packet of a body of so many bytes."""
        return (len(self.head) + body + 3) // 4 * 4


def template(
    *,
    source: bytes,
    destination: Address,
    destination_manager: bytes = NO_GUID,
    admin: Address = NOWHERE,
    response: Address = NOWHERE,
    properties: Properties,
    sent_time: int,
    transactional: bool,
    message_class: int = 0,
) -> Template:
    """Make the headers for one destination.

    Transactional messages are recoverable and have priority 0, whatever was asked (Q-6, Q-23).
    """
    if transactional:
        priority, recoverable = 0, True
    else:
        priority = PRIORITY_DEFAULT if properties.priority is None else properties.priority
        recoverable = properties.delivery == Delivery.RECOVERABLE
    flags = at.USER_PROPERTIES | (at.USER_RECOVERABLE if recoverable else 0)
    flags |= destination.kind << at.USER_DESTINATION_SHIFT
    flags |= admin.kind << at.USER_ADMIN_SHIFT | response.kind << at.USER_RESPONSE_SHIFT
    if properties.journal & Journal.DEADLETTER:
        flags |= at.USER_DEADLETTER
    if properties.journal & Journal.JOURNAL:
        flags |= at.USER_JOURNAL
    if transactional:
        flags |= at.USER_TRANSACTION
    user = bytearray(
        struct.pack(
            "<16s16sIIII", source, destination_manager, properties.time_to_be_received,
            sent_time, 0, flags,
        )
    )  # fmt: skip
    for address in (destination, admin, response):
        user += address.pack(len(user))
    head = bytearray(
        struct.pack(
            "<BBH4sII", at.VERSION, 0, priority, at.SIGNATURE, 0, properties.time_to_reach_queue
        )
    )
    head += user
    transaction = 0
    tx_flags = 0
    if transactional:
        transaction = len(head)
        if properties.journal:
            tx_flags |= at.TX_FINAL_ACK
        head += struct.pack("<IQII", tx_flags, 0, 0, 0)
    offset = len(head)
    head += _properties_header(properties, message_class)
    return Template(bytes(head), transaction, offset, tx_flags)


def _properties_header(properties: Properties, message_class: int) -> bytes:
    label = (properties.label + "\0").encode("utf-16-le") if properties.label else b""
    return (
        struct.pack(
            "<BBH20sIIIIIIII", int(properties.acknowledge), len(label) // 2, message_class,
            properties.correlation_id, properties.body_type, properties.app_specific, 0, 0, 0,
            HASH_SHA1, CIPHER_RC4, len(properties.extension),
        )
        + label
        + properties.extension
    )  # fmt: skip


_ORDER = struct.Struct("<IQII")
_SIZES = struct.Struct("<II")


def encode_run(
    made: Template,
    bodies: Run,
    *,
    first_message: int,
    stream: int = 0,
    first_number: int = 0,
    transaction: int = 0,
    first: bool = False,
    last: bool = False,
) -> Run:
    """Turn bodies into packets.

    Args:
        first_message: Message number of the first; the others follow.
        stream, first_number: Where they stand in their stream; zeros for none. The previous
            number of each is the number before its own.
        transaction: 20-bit number of the sending transaction.
        first, last: Whether the first and the last of them are so in their transaction to this
            queue (SND-10).

    Raises:
        BodyTooLarge: One packet would be larger than PACKET_BYTES_MAX.
    """
    lengths = bodies.lengths
    count = len(lengths)
    if not count:
        return Run(b"", array(LENGTH_TYPE))
    size = lengths[0]
    if made.packet_bytes(max(lengths)) > PACKET_BYTES_MAX:
        raise BodyTooLarge(f"a packet with a body of {max(lengths)} bytes is over 4 MiB")
    head = bytearray(made.head)
    tx, tx_flags = made.transaction, made.flags | transaction << at.TX_NUMBER_SHIFT
    view = memoryview(bodies.data)
    _set_size(head, made, size)
    parts: list[Buffer] = []
    add = parts.append
    put_message, put_order = at.U32.pack_into, _ORDER.pack_into
    uniform = lengths.count(size) == count
    pad = PADDING[(len(head) + size) % 4]
    number, message, end = first_number, first_message, 0
    ends = count - 1
    for index in range(count):
        if not uniform and lengths[index] != size:
            size = lengths[index]
            _set_size(head, made, size)
            pad = PADDING[(len(head) + size) % 4]
        put_message(head, at.OFF_MESSAGE_NUMBER, message)
        if tx:
            flags = tx_flags
            if index == 0 and first:
                flags |= at.TX_FIRST
            if index == ends and last:
                flags |= at.TX_LAST
            put_order(head, tx, flags, stream, number, number - 1 if number else 0)
            number += 1 if stream else 0
        add(bytes(head))
        start, end = end, end + size
        add(view[start:end])
        if pad:
            add(pad)
        message += 1
    if uniform:
        packets = array(LENGTH_TYPE, (made.packet_bytes(size),)) * count
    else:
        packets = array(LENGTH_TYPE, map(made.packet_bytes, lengths))
    return Run(b"".join(parts), packets)


def _set_size(head: bytearray, made: Template, size: int) -> None:
    at.U32.pack_into(head, at.OFF_PACKET_SIZE, made.packet_bytes(size))
    _SIZES.pack_into(head, made.properties + at.OFF_BODY_SIZE, size, size)


