"""Packets of the session itself: round trips and refusals."""

from __future__ import annotations

import struct

import pytest

from onceq.errors import MalformedPacket
from onceq.wire.mqqb.internal import (
    DELAYS_MARK,
    EXTENSION_MARK,
    TRACES_MARK,
    UNTOLD,
    Establish,
    Life,
    Parameters,
    SessionHeader,
    mark,
    parse,
)

A, B = b"A" * 16, b"B" * 16
PACKETS: list[Establish | Parameters | SessionHeader] = [
    Establish(A, B, 12345),
    Establish(A, bytes(16), 0xFFFFFFFF, 0x110, refused=True, padding=b"\x5a" * 512),
    Parameters(500, 20_000, 64),
    Parameters(0, 0xFFFFFFFF, 0xFFFF, refused=True),
    SessionHeader(1, 2, 0xFFFFFFFF, 4, 5, 64),
    SessionHeader(0xFFFF, 0, 0, 0, 0, 1),
]


@pytest.mark.parametrize("packet", PACKETS)
def test_round_trip(packet: Establish | Parameters | SessionHeader) -> None:
    data = packet.encode()
    assert parse(data) == packet
    assert parse(memoryview(data)) == packet
    assert struct.unpack_from("<I", data, 8) == (len(data),)
    assert data[12:16] == b"\xff" * 4


@pytest.mark.parametrize("packet", PACKETS)
def test_truncated_and_lengthened(packet: Establish | Parameters | SessionHeader) -> None:
    data = packet.encode()
    for size in [*range(len(data)), len(data) + 4]:
        other = (data + bytes(4))[:size]
        with pytest.raises(MalformedPacket):
            parse(other)
        if size >= 12:
            with pytest.raises(MalformedPacket):
                parse(other[:8] + struct.pack("<I", size) + other[12:])


@pytest.mark.parametrize("size", [0, 1, 0x00400000, 0x00400001, 1 << 31, 0xFFFFFFFF])
def test_lying_sizes(size: int) -> None:
    for packet in PACKETS:
        data = packet.encode()
        with pytest.raises(MalformedPacket):
            parse(data[:8] + struct.pack("<I", size) + data[12:])


@pytest.mark.parametrize("kind", [0, *range(4, 16)])
def test_unknown_types(kind: int) -> None:
    data = bytearray(Parameters(500, 20_000, 64).encode())
    data[18] = kind
    with pytest.raises(MalformedPacket, match="unknown type"):
        parse(data)


@pytest.mark.parametrize(("offset", "value"), [(0, 0x11), (4, 0x4D), (18, 2), (18, 1)])
def test_wrong_bytes(offset: int, value: int) -> None:
    data = bytearray(Parameters(500, 20_000, 64).encode())
    data[offset] = value
    with pytest.raises(MalformedPacket):
        parse(data)


def test_session_ack_without_its_flag() -> None:
    data = bytearray(SessionHeader(1, 0, 0, 0, 0, 64).encode())
    assert data[2] == 0x1B
    data[2] = 0x0B
    with pytest.raises(MalformedPacket, match="without its header"):
        parse(data)


def test_session_header_of_a_wrong_size() -> None:
    for size in (0, 15, 17):
        with pytest.raises(MalformedPacket):
            SessionHeader.unpack(bytes(size))


@pytest.mark.parametrize("life", [UNTOLD, Life(b"L" * 16, 7)])
def test_what_a_side_knows_of_stands_behind_its_life(life: Life) -> None:
    told = Establish(A, B, 1, padding=mark(life).ljust(512, b"\x5a"))
    assert (told.extended, told.life, told.delays) == (True, life, True)
    assert told.traces
    older = mark(life).removesuffix(DELAYS_MARK + TRACES_MARK)
    for end in (b"\0", b"\x5a", DELAYS_MARK[:-1] + b"!"):
        told = Establish(A, B, 1, padding=older + end.ljust(512 - len(older), end[:1]))
        assert (told.extended, told.life, told.delays) == (True, life, False)
        assert not told.traces


def test_who_knows_of_delays_may_know_of_no_traces() -> None:
    told = Establish(A, B, 1, padding=mark(UNTOLD).removesuffix(TRACES_MARK).ljust(512, b"\0"))
    assert (told.delays, told.traces) == (True, False)


def test_who_does_not_speak_of_extensions_knows_of_nothing() -> None:
    for padding in (bytes(512), DELAYS_MARK.ljust(512, b"\0"), EXTENSION_MARK[1:] + bytes(495)):
        told = Establish(A, B, 1, padding=padding)
        assert (told.delays, told.traces) == (False, False)
