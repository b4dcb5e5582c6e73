"""The headers of a batch: what its packets have in common, made once.

A batch shares destination and properties, so nearly all bytes of its headers are the same. A
``Template`` holds them, with zeros where messages differ; ``encode.py`` puts it before every body.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from onceq.errors import IllegalPropertyValue, LabelTooLong
from onceq.model.identity import NO_GUID
from onceq.model.limits import LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.message import PRIORITY_DEFAULT, Delivery, Journal, Properties
from onceq.model.record import Record, settle
from onceq.packet import layout as at
from onceq.packet.address import NOWHERE, Address, MultiNames

HASH_SHA1: Final = 0x8004
CIPHER_RC4: Final = 0x6801
"""What Windows writes into messages that are neither signed nor encrypted (MS-MQMQ 2.2.19.3)."""

ORDER: Final = struct.Struct("<IQII")
"""The TransactionHeader: flags, stream, number and the number before."""
PROPERTIES: Final = struct.Struct("<BBH20sIIIIIIII")
"""Fixed part of the MessagePropertiesHeader."""
_USER = struct.Struct("<16s16sIIII")
_DEBUG = struct.Struct("<HH")
_BASE = struct.Struct("<BBH4sII")


class Template(Record, frozen=True):
    """The headers of every packet of one batch.

    Attributes:
        head: Everything before the body, with zeros where messages differ.
        transaction: Offset of the TransactionHeader; 0 if there is none.
        properties: Offset of the MessagePropertiesHeader.
        flags: Those of every TransactionHeader.
        tail: Headers that follow the body and its padding.
        overhead: Bytes of headers in each packet; derived from the others.
        body_max: Bytes of the largest body that fits into a packet; also derived.
    """

    head: bytes
    transaction: int
    properties: int
    flags: int = 0
    tail: bytes = b""
    overhead: int = 0
    body_max: int = 0

    def __post_init__(self) -> None:
        head, tail = len(self.head), len(self.tail)
        settle(self, "overhead", head + tail)
        settle(self, "body_max", (PACKET_BYTES_MAX - tail & ~3) - head)

    def packet_bytes(self, body: int) -> int:
        """Return the size of the packet of a body of ``body`` bytes, padding included."""
        return (len(self.head) + body + 3 & ~3) + len(self.tail)


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
    time_to_reach_queue: int | None = None,
    multi: MultiNames | None = None,
    report_queue: bytes = b"",
    hash_algorithm: int = HASH_SHA1,
) -> Template:
    """Make the headers for one destination.

    Transactional messages are always recoverable and of priority 0 (Q-6, Q-23), and ask for a final
    acknowledgment if a journal or dead-letter copy may be due (EOD-39).

    Args:
        destination_manager: GUID; zero for direct names.
        sent_time: Seconds since 1970 UTC.
        time_to_reach_queue: Seconds; None: as in the properties.
        multi: Names of all destinations of the send, if it has several.
        report_queue: GUID of the public queue for reports on a traced message; empty: none.
        hash_algorithm: Of a signature (ALG_ID); it is passed on, and nothing here is signed.

    Raises:
        LabelTooLong, IllegalPropertyValue: The label does not fit into a packet.
    """
    head = bytearray(
        _BASE.pack(
            at.VERSION, 0, _base_flags(properties, transactional), at.SIGNATURE, 0,
            properties.time_to_reach_queue if time_to_reach_queue is None else time_to_reach_queue,
        )
    )  # fmt: skip
    user = bytearray(
        _USER.pack(
            source, destination_manager, properties.time_to_be_received, sent_time, 0,
            _user_flags(properties, transactional, (destination, admin, response), multi),
        )
    )  # fmt: skip
    for address in (destination, admin, response):
        user += address.pack(len(user))
    head += user
    transaction, tx_flags = 0, 0
    if transactional:
        transaction = len(head)
        tx_flags = at.TX_FINAL_ACK if properties.journal else 0
        head += ORDER.pack(tx_flags, 0, 0, 0)
    offset = len(head)
    head += _properties_header(properties, message_class, hash_algorithm)
    tail = multi.pack() if multi is not None else b""
    if properties.trace:
        tail = _DEBUG.pack(1 if report_queue else 0, 0) + report_queue + tail
    return Template(bytes(head), transaction, offset, tx_flags, tail)


def one_rest(templates: Sequence[Template]) -> bool:
    """Return whether the packets of a message for several places, with these headers, are equal
    from their properties on."""
    if len(templates) < 2:
        return False
    first = templates[0]
    rest, tail = first.head[first.properties :], first.tail
    return all(one.tail == tail and one.head[one.properties :] == rest for one in templates[1:])


def _base_flags(properties: Properties, transactional: bool) -> int:
    flags = at.BASE_TRACE | at.BASE_DEBUG if properties.trace else 0
    if transactional:
        return flags
    return flags | (PRIORITY_DEFAULT if properties.priority is None else properties.priority)


def _user_flags(
    properties: Properties,
    transactional: bool,
    addresses: tuple[Address, Address, Address],
    multi: MultiNames | None,
) -> int:
    destination, admin, response = addresses
    flags = at.USER_PROPERTIES
    flags |= destination.kind << at.USER_DESTINATION_SHIFT
    flags |= admin.kind << at.USER_ADMIN_SHIFT | response.kind << at.USER_RESPONSE_SHIFT
    if transactional or properties.delivery == Delivery.RECOVERABLE:
        flags |= at.USER_RECOVERABLE
    if transactional:
        flags |= at.USER_TRANSACTION
    if properties.journal & Journal.DEADLETTER:
        flags |= at.USER_DEADLETTER
    if properties.journal & Journal.JOURNAL:
        flags |= at.USER_JOURNAL
    if multi is not None:
        flags |= at.USER_MULTIQUEUE
    return flags


def _properties_header(properties: Properties, message_class: int, hash_algorithm: int) -> bytes:
    label = label_bytes(properties.label) if properties.label else b""
    return (
        PROPERTIES.pack(
            int(properties.acknowledge), len(label) // 2, message_class,
            properties.correlation_id, properties.body_type, properties.app_specific, 0, 0, 0,
            hash_algorithm, CIPHER_RC4, len(properties.extension),
        )
        + label
        + properties.extension
    )  # fmt: skip


def label_bytes(text: str) -> bytes:
    """Return a label with its terminator; characters outside the basic plane count twice."""
    if "\0" in text:
        raise IllegalPropertyValue("a label ends at its first NUL character; this one contains one")
    raw = text.encode("utf-16-le", "surrogatepass")
    if len(raw) // 2 > LABEL_CHARS_MAX:
        raise LabelTooLong(
            f"the label has {len(raw) // 2} UTF-16 characters; at most {LABEL_CHARS_MAX} fit"
        )
    return raw + b"\0\0"
