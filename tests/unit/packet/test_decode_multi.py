"""The names of all destinations of a send, as its packets carry them."""

from __future__ import annotations

import struct

import pytest

from onceq.errors import MalformedPacket, UnsupportedFormatName
from onceq.model.run import Run
from onceq.packet import address as at
from onceq.packet.address import Element, MultiNames
from onceq.packet.decode import ELEMENTS_MAX, headers, parse_multi
from onceq.packet.encode import encode_run
from tests.unit.packet.samples import GUID, NAMES, SOURCE, elements, made


@pytest.mark.parametrize("size", range(5))
def test_names_of_all_destinations_are_carried(size: int) -> None:
    one = made(multi=NAMES)
    run = encode_run(one, Run.of([bytes(size)] * 9), first_message=1)
    for packet in run:
        assert len(packet) == one.packet_bytes(size)
        parts = headers(packet)
        assert parts.user.flags & at.USER_MULTIQUEUE
        assert parts.trailing == b""
        assert parse_multi(parts.multi) == NAMES
        assert parts.properties.body == bytes(size)


def test_lists_begin_and_end_at_multiples_of_four() -> None:
    raw = NAMES.pack()
    start, identifiers = 0, []
    for _ in range(3):
        size, identifier, reserved, _ = struct.unpack_from("<IHHI", raw, start)
        identifiers.append(identifier)
        assert reserved == 0
        start += size + 3 & ~3
    assert identifiers == [0x64, 0xC8, 0x12C]
    assert raw[start:] == struct.pack("<HHI", 0x15E, 0, 0)


def test_public_queues_do_not_stand_in_lists() -> None:
    """Their alignment is not published (U16)."""
    with pytest.raises(UnsupportedFormatName):
        elements(f"PUBLIC={GUID}")


LISTS = MultiNames(
    (Element(3, direct="OS:A\\q"), Element(2, SOURCE, 5), Element(6, SOURCE), Element(1, SOURCE)),
    (Element(3, direct="OS:B\\qq"),),
)


def test_lists_of_names_come_back() -> None:
    assert parse_multi(LISTS.pack()) == LISTS


def test_lists_of_names_truncated() -> None:
    data = LISTS.pack()
    for size in range(len(data) - 8):
        with pytest.raises(MalformedPacket):
            parse_multi(data[:size])


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (0, "<I", 0), (0, "<I", 11), (0, "<I", 0xFFFFFFFF), (4, "<H", 0x65),
        (8, "<I", 5), (8, "<I", 3), (8, "<I", ELEMENTS_MAX + 1), (8, "<I", 0xFFFFFFFF),
        (12, "<H", 4), (12, "<H", 0), (24, "<I", 0x000A000A), (14, "<H", 10), (14, "<H", 0xD800),
    ],
)  # fmt: skip
def test_lists_of_names_that_lie(offset: int, form: str, value: int) -> None:
    raw = bytearray(LISTS.pack())
    struct.pack_into(form, raw, offset, value)
    with pytest.raises(MalformedPacket):
        parse_multi(bytes(raw))


def test_a_name_in_a_list_without_its_end() -> None:
    raw = bytearray(MultiNames((Element(3, direct="OS:A\\q"),)).pack())
    assert raw[26:28] == b"\0\0"
    raw[26] = 65
    with pytest.raises(MalformedPacket, match="not terminated"):
        parse_multi(bytes(raw))
