"""The lists of names that a packet of a send to several queues carries (MS-MQMQ 2.2.20.1, FN-16).

Nothing on the way of a message needs them: the UserHeader names the queue that a copy goes to. So
they are skipped on arrival, and read only for a view.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.model.limits import FORMAT_NAME_CHARS_MAX, FORMAT_NAME_ELEMENTS_MAX
from onceq.packet import layout as at
from onceq.packet.address import (
    LIST_HEADER,
    MULTI_DIRECT,
    MULTI_LIST,
    MULTI_PRIVATE,
    MULTI_PUBLIC,
    Element,
    MultiNames,
)
from onceq.packet.headers import Reader

ELEMENTS_MAX: Final = 2 * FORMAT_NAME_ELEMENTS_MAX
"""A name as given and the queues that it stands for (DL-11)."""

_COUNT = struct.Struct("<H")


def parse_multi(raw: bytes) -> MultiNames:
    """Read the bytes of a MultiQueueFormatHeader.

    Raises:
        MalformedPacket: They are not one, or have more elements than ELEMENTS_MAX.
    """
    reader = Reader(raw)
    lists = [
        _list(reader, which, what)
        for which, what in (
            (at.MULTI_DESTINATION, "Destination"),
            (at.MULTI_ADMIN, "Admin"),
            (at.MULTI_RESPONSE, "Response"),
        )
    ]
    return MultiNames(*lists)


def split_destinations(
    elements: tuple[Element, ...],
) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
    """Return the given name, and the queues that it stood for (DL-11, DL-12).

    Without a distribution list they are the same. Else the queues follow the name, each once and
    sorted, and the name's own queues are among them: so they begin at the first place from which on
    every name is greater than the one before.
    """
    lists = [index for index, one in enumerate(elements) if one.kind == MULTI_LIST]
    if not lists:
        return elements, elements
    keys = [str(one).casefold() for one in elements]
    start = len(elements)
    while start > lists[-1] + 1 and (start == len(keys) or keys[start - 1] < keys[start]):
        start -= 1
    while start < len(elements) and not set(keys[lists[-1] + 1 : start]) <= set(keys[start:]):
        start += 1
    return elements[:start], elements[start:]


def _list(reader: Reader, which: int, what: str) -> tuple[Element, ...]:
    start = reader.at
    size, identifier, _, count = reader.unpack(LIST_HEADER, what)
    if identifier != which:
        raise reader.fault(f"{what} has HeaderID {identifier:#x} where {which:#x} must stand")
    if size < LIST_HEADER.size:
        raise reader.fault(f"{what} has HeaderSize {size}")
    if count > ELEMENTS_MAX:
        raise reader.fault(f"{what} has ElementCount {count}; legal are {ELEMENTS_MAX}")
    reader.at = start
    reader.need(size, what)
    inner = Reader(reader.data, start + LIST_HEADER.size, reader.at)
    elements = tuple(_element(inner, start, what) for _ in range(count))
    if inner.at != inner.end:
        raise inner.fault(f"{what} has {inner.end - inner.at} bytes after its last element")
    reader.align(start, what)
    return elements


def _element(reader: Reader, start: int, what: str) -> Element:
    (kind,) = reader.unpack(_COUNT, what)
    if kind == MULTI_DIRECT:
        return Element(kind, direct=_text(reader, what))
    if kind not in (MULTI_PUBLIC, MULTI_PRIVATE, MULTI_LIST):
        raise reader.fault(f"{what} has an element of type {kind}")
    reader.align(start, what)
    guid = reader.take(16, what)
    number = reader.unpack(at.U32, what)[0] if kind == MULTI_PRIVATE else 0
    return Element(kind, guid, number)


def _text(reader: Reader, what: str) -> str:
    """Read UTF-16 up to its NUL, which is searched only in the bytes that are there."""
    first = reader.at
    there = bytes(reader.data[first : min(first + 2 * FORMAT_NAME_CHARS_MAX + 2, reader.end)])
    end = there.find(b"\0\0")
    while end % 2 and end >= 0:
        end = there.find(b"\0\0", end + 1)  # halves of two characters
    if end < 0:
        raise reader.fault(f"a name in {what} is not terminated")
    text = reader.wide(end + 2, what)
    if not text.isprintable():
        raise reader.fault(f"a name in {what} is not a name")
    return text
