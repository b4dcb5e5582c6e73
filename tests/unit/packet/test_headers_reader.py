"""A cursor over bytes from outside: never outside of them, and every fault with its place."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import MalformedPacket
from onceq.packet.headers import PacketReader


@given(st.binary(max_size=40), st.lists(st.integers(0, 50), max_size=8))
def test_pieces_are_those_of_the_bytes_and_nothing_is_taken_beyond(
    data: bytes, sizes: list[int]
) -> None:
    reader, at = PacketReader(data), 0
    for size in sizes:
        if at + size > len(data):
            with pytest.raises(MalformedPacket, match=f"{len(data) - at} are left"):
                reader.take(size, "it")
        else:
            assert reader.take(size, "it") == data[at : at + size]
            at += size
        assert reader.at == at, "a fault leaves it where it was"


def test_the_end_of_a_packet_is_kept_inside_a_larger_buffer() -> None:
    reader = PacketReader(b"--abcd--", 2, 6)
    assert reader.unpack(struct.Struct("<HH"), "it") == (0x6261, 0x6463)
    with pytest.raises(MalformedPacket, match="it needs 1 bytes, 0 are left, at byte 6"):
        reader.need(1, "it")


def test_text_ends_with_a_nul() -> None:
    for text in ("", "label", "\ud800", "😀"):
        raw = (text + "\0").encode("utf-16-le", "surrogatepass")
        assert PacketReader(raw).wide(len(raw), "it") == text
    for raw in (b"", b"a", b"a\0", b"a\0\0", b"a\0\0\0\0"):
        with pytest.raises(MalformedPacket, match="not terminated"):
            PacketReader(raw).wide(len(raw), "it")


@pytest.mark.parametrize(("used", "skipped"), [(0, b""), (1, b"bcd"), (2, b"cd"), (3, b"d")])
def test_padding_is_kept(used: int, skipped: bytes) -> None:
    reader = PacketReader(b"abcdefgh")
    reader.take(used, "it")
    reader.align(0, "it")
    assert reader.paddings == [skipped]
    assert reader.at == used + len(skipped)


def test_padding_that_is_not_there() -> None:
    reader = PacketReader(b"abcde")
    reader.take(5, "it")
    with pytest.raises(MalformedPacket, match="padding of it needs 3 bytes, 0 are left"):
        reader.align(0, "it")
