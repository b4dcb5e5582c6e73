"""The layout of a user packet: fixed offsets, flags and the few fields changed in place.

Offsets are from the start of the packet; section numbers are those of MS-MQMQ. Pure
arithmetic over bytes: parsing with its checks is in ``decode.py``, building in ``encode.py``.
"""

from __future__ import annotations

import struct
from typing import Final

# BaseHeader, 16 bytes (2.2.19.1)
VERSION: Final = 0x10
SIGNATURE: Final = b"LIOR"
BASE_HEADER: Final = 16
OFF_BASE_FLAGS: Final = 2
OFF_SIGNATURE: Final = 4
OFF_PACKET_SIZE: Final = 8
OFF_TIME_TO_REACH_QUEUE: Final = 12

BASE_PRIORITY_MASK: Final = 0x0007
BASE_INTERNAL: Final = 0x0008
BASE_SESSION: Final = 0x0010
BASE_DEBUG: Final = 0x0020
BASE_TRACE: Final = 0x0100

# UserHeader, from offset 16 (2.2.19.2)
OFF_SOURCE: Final = 16
OFF_DESTINATION_MANAGER: Final = 32
OFF_TIME_TO_BE_RECEIVED: Final = 48
OFF_SENT_TIME: Final = 52
OFF_MESSAGE_NUMBER: Final = 56
OFF_USER_FLAGS: Final = 60
OFF_NAMES: Final = 64

USER_HOPS_MASK: Final = 0x0000_001F
USER_DELIVERY_MASK: Final = 0x0000_0060
USER_RECOVERABLE: Final = 0x0000_0020
USER_DEADLETTER: Final = 0x0000_0100
USER_JOURNAL: Final = 0x0000_0200
USER_DESTINATION_SHIFT: Final = 10
USER_ADMIN_SHIFT: Final = 13
USER_RESPONSE_SHIFT: Final = 16
USER_SECURITY: Final = 0x0008_0000
USER_TRANSACTION: Final = 0x0010_0000
USER_PROPERTIES: Final = 0x0020_0000
USER_CONNECTOR: Final = 0x0040_0000
USER_MULTIQUEUE: Final = 0x0080_0000
USER_HTTP: Final = 0x0200_0000
USER_SOAP: Final = 0x1000_0000

# TransactionHeader, 20 bytes if there is one (2.2.20.5); offsets from its start
TX_FLAGS: Final = 0
TX_STREAM: Final = 4
TX_NUMBER: Final = 12
TX_PREVIOUS: Final = 16
PLACE: Final = struct.Struct("<QII")
"""Stream, number and previous number, one after another."""
TX_HEADER: Final = 20
TX_CONNECTOR: Final = 0x0000_0001
TX_FINAL_ACK: Final = 0x0000_0002
TX_FIRST: Final = 0x0000_0004
TX_LAST: Final = 0x0000_0008
TX_NUMBER_SHIFT: Final = 4
TX_NUMBER_MASK: Final = 0x00FF_FFF0

# MessagePropertiesHeader, 56 bytes and more (2.2.19.3); offsets from its start
PROPERTIES_HEADER: Final = 56
PROP_LABEL_CHARS: Final = 1
PROP_CLASS: Final = 2
PROP_CORRELATION: Final = 4
PROP_BODY_TYPE: Final = 24
PROP_APP_SPECIFIC: Final = 28
OFF_BODY_SIZE: Final = 32
OFF_EXTENSION_SIZE: Final = 52
OWN_FIELDS: Final = (
    (PROP_LABEL_CHARS, 1),
    (PROP_CORRELATION, OFF_BODY_SIZE - PROP_CORRELATION),
    (OFF_EXTENSION_SIZE, 4),
)
"""Slices of a message's own properties (correlation, body type and number are adjacent), and their
bytes."""

# SecurityHeader, 16 bytes and more (2.2.20.6)
SECURITY_HEADER: Final = 16
SECURITY_ENCRYPTED: Final = 0x0020

# MultiQueueFormatHeader (2.2.20.1)
MULTI_DESTINATION: Final = 0x0064
MULTI_ADMIN: Final = 0x00C8
MULTI_RESPONSE: Final = 0x012C
MULTI_SIGNATURE: Final = 0x015E

U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")


def packet_size(packet: bytes | bytearray | memoryview, at: int = 0) -> int:
    """Return the declared size of the packet that begins at ``at``; no check."""
    size: int = U32.unpack_from(packet, at + OFF_PACKET_SIZE)[0]
    return size
