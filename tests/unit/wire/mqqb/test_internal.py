"""Packets of the session itself: round trips and refusals."""

from __future__ import annotations

import struct

import pytest

from onceq.errors import MalformedPacket
from onceq.wire.mqqb.internal import (
    CALLED_MARK,
    DELAYS_MARK,
    EXTENSION_MARK,
    PUBLICS_MARK,
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
    assert (told.traces, told.publics) == (True, True)
    older = mark(life).removesuffix(DELAYS_MARK + TRACES_MARK + PUBLICS_MARK)
    for end in (b"\0", b"\x5a", DELAYS_MARK[:-1] + b"!"):
        told = Establish(A, B, 1, padding=older + end.ljust(512 - len(older), end[:1]))
        assert (told.extended, told.life, told.delays) == (True, life, False)
        assert (told.traces, told.publics) == (False, False)


@pytest.mark.parametrize("known", [1, 2])
def test_an_older_side_knows_of_the_first_words_only(known: int) -> None:
    newer = b"".join((DELAYS_MARK, TRACES_MARK, PUBLICS_MARK)[known:])
    told = Establish(A, B, 1, padding=mark(UNTOLD).removesuffix(newer).ljust(512, b"\0"))
    assert (told.delays, told.traces, told.publics) == (True, known > 1, False)


def test_a_computer_says_what_it_is_called() -> None:
    told = Establish(A, B, 1, padding=mark(Life(b"L" * 16, 7), "beta.example").ljust(512, b"\x5a"))
    assert (told.publics, told.called) == (True, "beta.example")
    told = Establish(A, B, 1, padding=mark(UNTOLD, "B" * 256).ljust(512, b"\0"))
    assert told.called == "B" * 256
    for end in (b"", CALLED_MARK, CALLED_MARK + b"\1", CALLED_MARK + b"\0\0"):
        told = Establish(A, B, 1, padding=(mark(UNTOLD) + end).ljust(512, b"\0"))
        assert told.called == ""


@pytest.mark.parametrize("name", [b"a b", b"a\nb", b"\xff", b"B" * 257])
def test_what_cannot_be_the_name_of_a_computer_is_not_said(name: bytes) -> None:
    said = CALLED_MARK + len(name).to_bytes(2, "little") + name
    told = Establish(A, B, 1, padding=(mark(UNTOLD) + said).ljust(512, b"\0"))
    assert (told.publics, told.called) == (True, "")


def test_who_does_not_speak_of_extensions_knows_of_nothing() -> None:
    for padding in (bytes(512), DELAYS_MARK.ljust(512, b"\0"), EXTENSION_MARK[1:] + bytes(495)):
        told = Establish(A, B, 1, padding=padding)
        assert (told.delays, told.traces, told.publics) == (False, False, False)


@pytest.mark.parametrize("called", ["", "beta.example"])
def test_a_manager_tells_the_end_of_its_trail(called: str) -> None:
    life = Life(b"L" * 16, 7, 9, bytes(range(32)))
    told = Establish(B, A, 1, padding=mark(life, called).ljust(512, b"\0"))
    assert (told.life, told.called) == (life, called)
    plain = Life(b"L" * 16, 7)
    for padding in (mark(life, called)[:-1], mark(plain, called).ljust(512, b"\x5a")):
        told = Establish(B, A, 1, padding=padding)
        assert (told.life, told.called) == (plain, called)
    assert Establish(B, A, 1, padding=bytes(512)).life == UNTOLD
