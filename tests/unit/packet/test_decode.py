"""Messages out of packets, and quick looks at a few fields."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from onceq.errors import MalformedPacket
from onceq.packet import address as at
from onceq.packet.arrived import cut
from onceq.packet.decode import (
    decode,
    encode_headers,
    glance,
    headers,
    properties_offset,
    set_class,
    set_previous,
)
from tests.unit.packet.samples import SOURCE, every_header, packet


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("transactional", [True, False])
def test_glance(start: int, transactional: bool) -> None:
    data = packet(transactional=transactional)
    parts = headers(data)
    seen = glance(b"-" * start + data, start)
    assert (seen.size, seen.message, seen.source) == (len(data), 3, SOURCE)
    assert (seen.transactional, seen.tx_offset) == (transactional, parts.offsets[0])
    assert (seen.stream, seen.number, seen.previous) == ((5, 9, 8) if transactional else (0, 0, 0))
    assert seen.recoverable
    assert at.packet_size(b"-" * start + data, start) == len(data)


def test_glance_at_what_is_no_packet() -> None:
    data = packet()
    for size in range(at.OFF_NAMES + 20):
        with pytest.raises(MalformedPacket):
            glance(data[:size])
    with pytest.raises(MalformedPacket):
        glance(b"\x11" + data[1:])
    with pytest.raises(MalformedPacket):
        properties_offset(data[:40])


def test_previous_is_written_and_nothing_else() -> None:
    first, second = packet(body=b"1"), packet(body=b"22")
    data = bytearray(first + second)
    set_previous(data, len(first), len(second), 0x01020304)
    assert data[: len(first)] == first
    parts = headers(bytes(data[len(first) :]))
    assert parts.transaction is not None
    assert (parts.transaction.previous, parts.transaction.number) == (0x01020304, 9)
    set_previous(data, len(first), len(second), 8)
    assert bytes(data) == first + second


def test_previous_needs_a_transactional_message() -> None:
    data = bytearray(packet(transactional=False))
    with pytest.raises(AssertionError):
        set_previous(data, 0, len(data), 1)


def test_class_is_written_and_nothing_else() -> None:
    data = bytearray(packet() + encode_headers(every_header()))
    start = len(packet())
    before = bytes(data)
    set_class(data, start, len(data) - start, 0x8003)
    assert decode(bytes(data[start:])).message_class == 0x8003
    assert sum(a != b for a, b in zip(before, data, strict=True)) == 2


def test_label_with_a_nul_inside_ends_there_for_applications() -> None:
    data = bytearray(packet())
    start = properties_offset(data) + at.PROPERTIES_HEADER
    data[start + 4 : start + 6] = b"\0\0"
    assert decode(bytes(data)).label == "la"
    assert encode_headers(headers(bytes(data))) == bytes(data)


def test_encrypted_body_is_marked() -> None:
    parts = every_header()
    assert parts.security is not None
    sealed = replace(
        parts, security=replace(parts.security, flags=at.SECURITY_ENCRYPTED),
        properties=replace(parts.properties, body_allocated=8, slack=b"***"), trailing=b"",
    )  # fmt: skip
    data = encode_headers(sealed)
    assert headers(data).encrypted
    assert headers(data).properties.slack == b"***"
    (run,) = cut(data, array("I", (len(data),)))
    assert run.encrypted
