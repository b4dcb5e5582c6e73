"""A byte stream cut into packets, however it comes."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from onceq.errors import MalformedPacket
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import DIRECT, Address
from onceq.packet.encode import encode_run, template
from onceq.wire.mqqb.internal import (
    SHORT_BYTES,
    Cutter,
    Establish,
    InternalPacket,
    Parameters,
    SessionHeader,
    UserPackets,
)

HEADER = SessionHeader(7, 1, 3, 9, 2, 64)
CP = Parameters(500, 20_000, 64).encode()
EC = Establish(b"A" * 16, bytes(16), 1).encode()
ACK = HEADER.encode()


def user(size: int = 10, message: int = 1) -> bytes:
    made = template(
        source=b"S" * 16, destination=Address(DIRECT, direct="OS:B\\q"), properties=Properties(),
        sent_time=1, transactional=False,
    )  # fmt: skip
    return bytes(encode_run(made, Run.of([b"b" * size]), first_message=message).data)


def carrying(size: int = 10, *, inside: bool) -> bytes:
    """A user packet with a session header, inside its size or behind it."""
    data = bytearray(user(size))
    data[2] |= 0x10
    data += HEADER.pack()
    if inside:
        struct.pack_into("<I", data, 8, len(data))
    return bytes(data)


Seen = list[tuple[str, bytes, SessionHeader | None]]


def feed(cutter: Cutter, *reads: bytes) -> Seen:
    """What comes out, user packets one by one."""
    seen: Seen = []
    for read in reads:
        for piece in cutter.feed(read):
            if isinstance(piece, InternalPacket):
                seen.append(("internal", bytes(piece.data), None))
                continue
            if isinstance(piece, MalformedPacket):
                raise piece
            assert sum(piece.lengths) == len(piece.data)
            at = 0
            for length in piece.lengths:
                last = at + length == len(piece.data)
                data = bytes(piece.data[at : at + length])
                seen.append(("user", data, piece.carried if last else None))
                at += length
    return seen


STREAM = [
    EC, CP, user(), user(0), user(1024), ACK, carrying(inside=True), user(3),
    carrying(inside=False), carrying(9, inside=False), ACK, user(SHORT_BYTES + 77),
    carrying(SHORT_BYTES * 2, inside=False), carrying(SHORT_BYTES * 2, inside=True), CP, user(2),
]  # fmt: skip
EXPECTED: Seen = [
    ("internal", EC, None), ("internal", CP, None), ("user", user(), None),
    ("user", user(0), None), ("user", user(1024), None), ("internal", ACK, None),
    ("user", user(), HEADER), ("user", user(3), None), ("user", user(), HEADER),
    ("user", user(9), HEADER), ("internal", ACK, None), ("user", user(SHORT_BYTES + 77), None),
    ("user", user(SHORT_BYTES * 2), HEADER), ("user", user(SHORT_BYTES * 2), HEADER),
    ("internal", CP, None), ("user", user(2), None),
]  # fmt: skip


def test_all_at_once() -> None:
    assert feed(Cutter(), b"".join(STREAM)) == EXPECTED


@pytest.mark.parametrize("step", [1, 2, 3, 7, 11, 12, 13, 36, 100, 1000, 4095, 4096, 4097, 8192])
def test_in_pieces(step: int) -> None:
    data = b"".join(STREAM)
    cutter = Cutter()
    reads = [data[at : at + step] for at in range(0, len(data), step)]
    assert feed(cutter, *reads) == EXPECTED
    assert cutter.waiting == 0


def test_cut_in_two_anywhere() -> None:
    data = b"".join(STREAM[:11])
    for at in range(len(data) + 1):
        assert feed(Cutter(), data[:at], data[at:]) == EXPECTED[:11]


@pytest.mark.parametrize("size", [10, SHORT_BYTES * 3])
def test_a_packet_is_given_with_its_last_byte(size: int) -> None:
    data = user(size)
    for at in (1, 11, 12, 50, len(data) - 1):
        cutter = Cutter()
        assert feed(cutter, data[:at]) == []
        assert cutter.waiting == at
        assert feed(cutter, data[at:]) == [("user", data, None)]
        assert cutter.waiting == 0


def test_neighbours_stay_together() -> None:
    pieces = list(Cutter().feed(user() * 5 + ACK + user(7) * 3))
    assert [type(piece) for piece in pieces] == [UserPackets, InternalPacket, UserPackets]
    assert isinstance(pieces[0], UserPackets)
    assert list(pieces[0].lengths) == [len(user())] * 5


def test_whole_packets_are_not_copied() -> None:
    data = user() * 3 + user()[:50]
    (piece,) = Cutter().feed(data)
    assert isinstance(piece, UserPackets)
    assert piece.data.obj is data


def test_other_buffers_are_copied_because_they_may_change() -> None:
    data = bytearray(user() * 2)
    (piece,) = Cutter().feed(data)
    assert isinstance(piece, UserPackets)
    data[:] = bytes(len(data))
    assert bytes(piece.data) == user() * 2


def test_one_burst() -> None:
    data = user(1024) * 1000
    (piece,) = Cutter().feed(data)
    assert isinstance(piece, UserPackets)
    assert len(piece.lengths) == 1000


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16, 19, PACKET_BYTES_MAX + 1, 1 << 31, 0xFFFFFFFF])
def test_illegal_sizes_are_refused_with_their_twelfth_byte(size: int) -> None:
    lead = b"\x10\0\0\0LIOR" + struct.pack("<I", size)
    with pytest.raises(MalformedPacket, match="PacketSize"):
        feed(Cutter(), lead)
    cutter = Cutter()
    assert feed(cutter, lead[:11]) == []
    with pytest.raises(MalformedPacket, match="PacketSize"):
        feed(cutter, lead[11:])


def test_largest_legal_size_is_awaited_without_taking_memory() -> None:
    lead = b"\x10\0\0\0LIOR" + struct.pack("<I", PACKET_BYTES_MAX)
    cutter = Cutter()
    tracemalloc.start()
    try:
        assert feed(cutter, lead) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cutter.waiting == 12
    assert peak < 65536


@pytest.mark.parametrize(
    "data", [b"\x11", b"G", b"GET / HTTP/1.1", b"\x10\0\0\0X", b"\x10\0\0\0LIOX", b"\x16\x03\x01"]
)
def test_strangers_are_refused_at_their_first_bytes(data: bytes) -> None:
    with pytest.raises(MalformedPacket):
        feed(Cutter(), data)


def test_what_stands_before_the_fault_is_given() -> None:
    pieces = Cutter().feed(ACK + user() + user() + b"\x10\0\0\0LIOR" + bytes(8))
    assert [type(piece) for piece in pieces] == [InternalPacket, UserPackets, MalformedPacket]


@pytest.mark.parametrize("extra", [1, 4, 12, 15, 17, 28, 32])
def test_neither_inside_nor_behind(extra: int) -> None:
    data = bytearray(user() + bytes(extra))
    data[2] |= 0x10
    struct.pack_into("<I", data, 8, len(data))
    with pytest.raises(MalformedPacket, match="SessionHeader"):
        feed(Cutter(), bytes(data) + bytes(64))


def test_a_malformed_packet_with_a_session_header() -> None:
    data = bytearray(carrying(inside=True))
    data[60:64] = bytes(4)
    with pytest.raises(MalformedPacket):
        feed(Cutter(), bytes(data))
