"""Queue names in packets: packed, read and printed (MS-MQMQ 2.2.18).

A UserHeader carries three names, each in one of eight layouts; a MultiQueueFormatHeader carries
lists of names in layouts of their own. Here are both, and the way back to format names.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.errors import UnsupportedFormatName
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.names import FormatName, Kind
from onceq.model.record import Record
from onceq.packet import layout as at

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
            return at.U32.pack(self.number)
        if self.kind == PUBLIC:
            return self.guid
        if self.kind == PRIVATE:
            return self.guid + at.U32.pack(self.number)
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
        raise UnsupportedFormatName(f"{name} cannot stand in a list of names in a packet")

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
        return head + at.U32.pack(self.number) if self.kind == MULTI_PRIVATE else head


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
            _list(at.MULTI_DESTINATION, self.destination)
            + _list(at.MULTI_ADMIN, self.admin)
            + _list(at.MULTI_RESPONSE, self.response)
            + struct.pack("<HHI", at.MULTI_SIGNATURE, 0, 0)
        )


LIST_HEADER = struct.Struct("<IHHI")
"""HeaderSize (of the whole list, without its padding), HeaderID, reserved, ElementCount."""


def _list(which: int, elements: tuple[Element, ...]) -> bytes:
    out = bytearray(LIST_HEADER.size)
    for element in elements:
        out += element.pack(len(out))
    LIST_HEADER.pack_into(out, 0, len(out), which, 0, len(elements))
    return bytes(out + PADDING[len(out) % 4])
