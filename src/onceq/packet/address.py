"""Queue names in packets: packed, read and printed (MS-MQMQ 2.2.18).

A UserHeader carries three names, each in one of eight layouts; a MultiQueueFormatHeader carries
lists of names in layouts of their own. Here are both, and the way back to format names.

Also here:

* The layout of a user packet: fixed offsets, flags and the few fields changed in place.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.errors import UnsupportedFormatName
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.names import FormatName, Kind
from onceq.model.record import Record

# ---- layout --------------------------------------------------------------------------------------


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
    """Return the declared size of the packet that begins at ``at``; no check.

    Offsets are from the start of the packet; section numbers are those of MS-MQMQ. Pure arithmetic
    over bytes: parsing with its checks is in ``decode.py``, building in ``encode.py``.
    """
    size: int = U32.unpack_from(packet, at + OFF_PACKET_SIZE)[0]
    return size


# ---- address -------------------------------------------------------------------------------------


NONE, AS_ADMIN, ON_SOURCE, ON_DESTINATION, ON_ADMIN, PUBLIC, PRIVATE, DIRECT = range(8)

PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
"""Zeros up to the next multiple of 4, by size modulo 4."""

MULTI_PUBLIC, MULTI_PRIVATE, MULTI_DIRECT, MULTI_LIST = 1, 2, 3, 6
_COUNT = struct.Struct("<H")


class Address(Record, frozen=True):
    """A queue as a UserHeader names it.

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
        """Return the name, padded, as bytes if it begins ``offset`` into the UserHeader."""
        if self.kind in (ON_SOURCE, ON_DESTINATION, ON_ADMIN):
            return U32.pack(self.number)
        if self.kind == PUBLIC:
            return self.guid
        if self.kind == PRIVATE:
            return self.guid + U32.pack(self.number)
        if self.kind == DIRECT:
            text = (self.direct + "\0").encode("utf-16-le")
            raw = _COUNT.pack(len(text)) + text
            return raw + PADDING[(offset + len(raw)) % 4]
        return b""


NOWHERE: Final = Address(NONE)


def name_of(address: Address, *, source: bytes, manager: bytes) -> str:
    """Return the format name of a queue in a packet; "" for none, and if the packet does not say on
    which computer the queue is.

    Args:
        source: GUID of the sending manager, for private queues on its host.
        manager: GUID of the destination's manager.
    """
    if address.kind == DIRECT:
        return f"DIRECT={address.direct}"
    if address.kind == ON_SOURCE:
        return f"PRIVATE={guid_text(source)}\\{address.number:08x}"
    if address.kind == ON_DESTINATION:
        return f"PRIVATE={guid_text(manager)}\\{address.number:08x}"
    if address.kind == PUBLIC:
        return f"PUBLIC={guid_text(address.guid)}"
    if address.kind == PRIVATE:
        return f"PRIVATE={guid_text(address.guid)}\\{address.number:08x}"
    return ""


def response_name(response: Address, admin: Address, *, source: bytes, manager: bytes) -> str:
    """Return the format name of a response queue, which may depend on the administration queue.

    A queue known only by number on the host of an administration queue that itself has a direct or
    a public name has no format name of its own: "" then.
    direct or a public name has no format name of its own: "" then.
    """
    if response.kind == AS_ADMIN:
        return name_of(admin, source=source, manager=manager)
    if response.kind == ON_ADMIN:
        host = {ON_SOURCE: source, ON_DESTINATION: manager, PRIVATE: admin.guid}.get(admin.kind)
        return "" if host is None else f"PRIVATE={guid_text(host)}\\{response.number:08x}"
    return name_of(response, source=source, manager=manager)


# ---- lists of names ----------------------------------------------------------------------


class Element(Record, frozen=True):
    """One name of a MultiQueueFormatHeader: type 1, 2, 3 or 6 of MS-MQMQ 2.2.18.1.4."""

    kind: int
    guid: bytes = NO_GUID
    number: int = 0
    direct: str = ""

    @classmethod
    def of(cls, name: FormatName) -> Element:
        """Make an element from a parsed format name.

        Raises:
            UnsupportedFormatName: No such element exists, or (public queues) the published
                pages do not say how it is aligned, so that it is never sent (U16).
        """
        if name.kind is Kind.DIRECT:
            return cls(MULTI_DIRECT, direct=name.direct)
        if name.kind is Kind.PRIVATE:
            return cls(MULTI_PRIVATE, name.guid, name.number)
        if name.kind is Kind.DL:
            return cls(MULTI_LIST, name.guid)
        raise UnsupportedFormatName(f"{name} cannot be in a list of names in a packet")

    def __str__(self) -> str:
        if self.kind == MULTI_DIRECT:
            return f"DIRECT={self.direct}"
        if self.kind == MULTI_PRIVATE:
            return f"PRIVATE={guid_text(self.guid)}\\{self.number:08x}"
        return f"{'DL' if self.kind == MULTI_LIST else 'PUBLIC'}={guid_text(self.guid)}"

    def pack(self, offset: int) -> bytes:
        """Return the element's bytes if it begins ``offset`` bytes after a multiple of 4."""
        head = _COUNT.pack(self.kind)
        if self.kind == MULTI_DIRECT:
            return head + (self.direct + "\0").encode("utf-16-le")
        head += PADDING[(offset + len(head)) % 4] + self.guid
        return head + U32.pack(self.number) if self.kind == MULTI_PRIVATE else head


class MultiNames(Record, frozen=True):
    """All names of a send to several queues: a packet lists the others beside its own (FN-16).

    Attributes:
        destination: The given name, element by element, then the queues that it stands for if
            these are others (DL-11, DL-12).
        admin, response: Likewise, if these are several.
    """

    destination: tuple[Element, ...]
    admin: tuple[Element, ...] = ()
    response: tuple[Element, ...] = ()

    def pack(self) -> bytes:
        """Return the header: three lists and an empty signature, each padded to a multiple of 4."""
        return (
            _list(MULTI_DESTINATION, self.destination)
            + _list(MULTI_ADMIN, self.admin)
            + _list(MULTI_RESPONSE, self.response)
            + struct.pack("<HHI", MULTI_SIGNATURE, 0, 0)
        )


LIST_HEADER = struct.Struct("<IHHI")
"""HeaderSize (of the whole list, without its padding), HeaderID, reserved, ElementCount."""


def _list(which: int, elements: tuple[Element, ...]) -> bytes:
    out = bytearray(LIST_HEADER.size)
    for element in elements:
        out += element.pack(len(out))
    LIST_HEADER.pack_into(out, 0, len(out), which, 0, len(elements))
    return bytes(out + PADDING[len(out) % 4])
