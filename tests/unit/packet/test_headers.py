"""Packets taken apart header by header, put together again, and everything that must be refused."""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace
from typing import Any

import pytest

from onceq.errors import MalformedPacket
from onceq.packet import address as at
from onceq.packet.arrived import cut
from onceq.packet.decode import decode, encode_headers, headers, properties_offset, tx_offset
from tests.unit.packet.samples import every_header, packet

LIMIT = 0x00400000
LIES = (0, 1, 19, LIMIT, LIMIT + 1, 1 << 31, 0xFFFFFFFF)


def test_every_header_comes_back() -> None:
    data = encode_headers(every_header())
    parts = headers(data)
    wanted = every_header()
    for name in ("base", "user", "transaction", "security", "properties", "debug", "soap",
                 "multi", "trailing"):  # fmt: skip
        assert getattr(parts, name) == getattr(wanted, name), name
    assert encode_headers(parts) == data
    assert tx_offset(data) == parts.offsets[0]
    assert properties_offset(data) == parts.offsets[1]


def test_padding_and_reserved_bytes_come_back() -> None:
    data = bytearray(encode_headers(every_header()))
    clean = bytes(data)
    paddings = 0
    for index in range(len(data)):
        if data[index]:
            continue
        data[index] = 0xEE
        try:
            parts = headers(bytes(data))
        except MalformedPacket:
            data[index] = 0
            continue
        assert encode_headers(parts) == bytes(data), f"byte {index}"
        paddings += parts.paddings != headers(clean).paddings
        data[index] = 0
    assert paddings == sum(map(len, headers(clean).paddings))


def refused(data: bytes) -> None:
    with pytest.raises(MalformedPacket):
        headers(data)
    with pytest.raises(MalformedPacket):
        decode(data)
    with pytest.raises(MalformedPacket):
        cut(data, array("I", (len(data),)))


def relabelled(data: bytes) -> bytes:
    """With a PacketSize that fits, so that only the contents are wrong."""
    return data[:8] + struct.pack("<I", len(data)) + data[12:]


@pytest.mark.parametrize("data", [packet(), encode_headers(every_header())], ids=["few", "all"])
def test_truncated_at_every_byte(data: bytes) -> None:
    trailing = len(headers(data).trailing)
    for size in range(len(data) - trailing):
        refused(data[:size])
        if size >= 12:
            refused(relabelled(data[:size]))


def test_bytes_after_the_last_header_are_kept_and_counted() -> None:
    for extra in (1, 12, 16, 100):
        data = relabelled(packet() + b"\x5a" * extra)
        parts = headers(data)
        assert parts.trailing == b"\x5a" * extra
        assert encode_headers(parts) == data
        assert decode(data).body == b"body!"


FIELDS: dict[str, tuple[int | str, int]] = {
    "PacketSize": (8, 4),
    "DestinationQueue count": (64, 2),
    "LabelLength": ("p1", 1),
    "MessageSize": ("p32", 4),
    "AllocationBodySize": ("p36", 4),
    "ExtensionSize": ("p52", 4),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("field", FIELDS)
def test_lying_lengths(field: str, lie: int) -> None:
    data = bytearray(packet())
    place, size = FIELDS[field]
    offset = place if isinstance(place, int) else properties_offset(data) + int(place[1:])
    lie &= (1 << 8 * size) - 1
    data[offset : offset + size] = lie.to_bytes(size, "little")
    if field == "AllocationBodySize" and lie >= 5:
        # The allocation of a body that is not encrypted takes no place in the packet.
        assert headers(bytes(data)).properties.body == b"body!"
        return
    if field in ("MessageSize", "ExtensionSize") and lie in (0, 1):
        # What the body no longer reaches is padding, or follows the last header.
        parts = headers(bytes(data))
        left = len(parts.paddings[-1]) + len(parts.trailing)
        assert left == 8 - 5 - 3 + (5 - lie if field == "MessageSize" else 3 - lie)
        return
    if field == "LabelLength" and lie == 0:
        assert headers(bytes(data)).properties.label == ""
        return
    refused(bytes(data))


@pytest.mark.parametrize("lie", [*LIES, 8, 11])
@pytest.mark.parametrize("which", range(5))
def test_lying_lengths_in_the_security_header(which: int, lie: int) -> None:
    data = bytearray(encode_headers(every_header()))
    parts = headers(bytes(data))
    assert parts.security is not None
    start = parts.offsets[0] + at.TX_HEADER + 16
    offset, form = ((2, "<H"), (4, "<H"), (6, "<H"), (8, "<I"), (12, "<I"))[which]
    lie &= 0xFFFF if form == "<H" else 0xFFFFFFFF
    if lie > 16:
        struct.pack_into(form, data, start + offset, lie)
        if lie > len(data):
            refused(bytes(data))


@pytest.mark.parametrize("lie", [0, 1, 11, LIMIT, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("header", ["soap", "multi"])
def test_lying_lengths_in_late_headers(header: str, lie: int) -> None:
    parts = replace(every_header(), trailing=bytes(400))
    raw = bytearray(getattr(parts, header))
    struct.pack_into("<I", raw, 4 if header == "soap" else 0, lie)
    changed: dict[str, Any] = {header: bytes(raw)}
    data = encode_headers(replace(parts, **changed))
    if header == "soap" and lie < 12:
        return
    refused(data)


def change(offset: int, value: bytes) -> bytes:
    data = bytearray(packet())
    data[offset : offset + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, b"\x11"),
        (4, b"LIOX"),
        (2, b"\x08"),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301C00)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301C40)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00101C20)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301820)),
        (66, b"\0\0"),
        (66, b"\x0a\0"),
        (66, b"\x00\xd8"),
        (78, b"x\0"),
    ],
    ids=[
        "version", "signature", "internal", "transactional express", "delivery mode 2",
        "no properties", "destination type 6", "empty name", "control character", "half surrogate",
        "no terminator",
    ],
)  # fmt: skip
def test_malformed(offset: int, value: bytes) -> None:
    refused(change(offset, value))


def test_label_without_its_terminator() -> None:
    data = bytearray(packet())
    end = properties_offset(data) + at.PROPERTIES_HEADER + 2 * 6
    assert data[end - 2 : end] == b"\0\0"
    data[end - 2] = 65
    refused(bytes(data))


def test_errors_name_field_and_offset() -> None:
    data = bytearray(packet())
    data[properties_offset(data) + 1] = 251
    with pytest.raises(MalformedPacket, match=r"Label.*at byte \d+"):
        headers(bytes(data))
