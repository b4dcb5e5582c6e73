"""Frames: whole ones are read back, others are not, and buried ones are found."""

from __future__ import annotations

import pytest

from onceq.model.log import (
    BLOCK_BYTES,
    FRAME_HEADER,
    LARGE_BLOCK_BYTES,
    LARGE_RECORD_BYTES,
    block_size,
    blocks_of,
    frame_size,
)
from onceq.store.framing import Frame, Framing, Table

FRAMING = Framing(b"S" * 16)


def _frame(payload: bytes, position: int, synced: int = 0, epoch: int = 1, head: int = 0) -> bytes:
    return b"".join(
        FRAMING.encode(payload, position=position, synced=synced, epoch=epoch, head=head)
    )


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_a_frame_is_as_long_as_the_core_expects(size: int) -> None:
    data = _frame(b"p" * size, 4096)
    assert len(data) == frame_size(size)
    frame = FRAMING.parse(data, 0, position=4096)
    assert frame == Frame(4096, size, 0, 1)
    assert frame is not None
    assert frame.end == 4096 + len(data)


def test_every_altered_byte_of_header_and_payload_is_noticed() -> None:
    data = _frame(b"payload!", 800, synced=640, epoch=3)
    for offset in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[offset] ^= 1 << bit
            assert FRAMING.parse(altered, 0, position=800) is None


def test_a_frame_is_whole_only_where_it_says() -> None:
    data = _frame(b"payload", 800)
    assert FRAMING.parse(data, 0, position=808) is None
    assert FRAMING.parse(data, 8, position=800) is None
    assert FRAMING.parse(b"x" * 5 + data, 5, position=800) is not None


@pytest.mark.parametrize("kept", range(FRAME_HEADER + 8))
def test_a_cut_frame_is_not_whole(kept: int) -> None:
    assert FRAMING.parse(_frame(b"payload.", 0)[:kept], 0, position=0) is None


def test_another_store_has_other_frames() -> None:
    data = b"".join(Framing(b"T" * 16).encode(b"p", position=0, synced=0, epoch=1))
    assert FRAMING.parse(data, 0, position=0) is None
    assert FRAMING.find(data, 0, offset=0).frames == []


def test_a_frame_that_promises_more_than_itself_is_none() -> None:
    assert FRAMING.parse(_frame(b"p", 64, synced=72), 0, position=64) is None


def test_buried_frames_are_found_in_order() -> None:
    data = bytearray(b"\xa5" * 64 + bytes(200_000))
    places = [0, 4_096, 4_096 + 40, 100_000, 150_008]
    for place in places:
        frame = _frame(b"buried", place)
        data[64 + place : 64 + place + len(frame)] = frame
    found = FRAMING.find(bytes(data), 64, offset=-64).frames
    assert [frame.position for frame in found] == places
    assert [f.position for f in FRAMING.find(bytes(data), 64 + 8, offset=-64).frames] == places[1:]


def test_frames_are_found_on_both_sides_of_a_window() -> None:
    """Places are searched for by their upper bytes, which change every 16 MiB."""
    edge = 1 << 24
    offset = edge - 4_096
    data = bytearray(8_192)
    places = [edge - 80, edge - 40, edge, edge + 40, edge + 4_000]
    for place in places:
        frame = _frame(b"here", place)
        data[place - offset : place - offset + len(frame)] = frame
    assert [f.position for f in FRAMING.find(bytes(data), 0, offset=offset).frames] == places


def test_frames_inside_a_whole_frame_are_not_looked_for() -> None:
    inner = _frame(b"inner", FRAME_HEADER)
    assert [f.position for f in FRAMING.find(_frame(inner, 0), 0, offset=0).frames] == [0]


def test_a_claim_is_what_a_header_says() -> None:
    data = _frame(b"p" * 100, 800, epoch=5)[:50]
    assert FRAMING.claim(data, 0, position=800) == (800 + frame_size(100), 5)
    assert FRAMING.claim(data, 0, position=808) == (808, 0)
    assert FRAMING.claim(data[:20], 0, position=800) == (800, 0)
    assert FRAMING.claim(bytes(64), 0, position=800) == (800, 0)


def test_blocks_of_another_place_are_not_taken_for_these() -> None:
    """A disk that brings what lies elsewhere brings its checksums with it."""
    payload = bytes(range(256)) * 64
    pieces = FRAMING.encode(payload, position=8_000, synced=0, epoch=1)
    table = Table(bytes(pieces[-1]))  # the payload needs no padding
    count = blocks_of(len(payload))
    here, there = (Frame(at, len(payload), 0, 1, count) for at in (8_000, 16_000))
    assert FRAMING.wrong_blocks(payload, table, here, range(count)) == []
    assert FRAMING.wrong_blocks(payload, table, there, range(count)) == list(range(count))


# ---- records with packets ------------------------------------------------------------------------

CUTS = [
    (2, 1), (100, 40), (8, 8), (4_096, 1), (4_096, 4_095), (4_097, 4_096), (9_000, 60),
    (20_000, 4_096), (20_000, 9_001), (20_000, 19_999),
    (LARGE_RECORD_BYTES - 1, 60), (LARGE_RECORD_BYTES, 1), (LARGE_RECORD_BYTES + 1, 40_000),
    (300_001, 2 * LARGE_BLOCK_BYTES), (300_001, 300_000),
]  # fmt: skip
"""Sizes of a payload, and of its head."""


@pytest.mark.parametrize(("size", "head"), CUTS)
def test_a_frame_with_packets_is_read_back(size: int, head: int) -> None:
    payload = bytes(at * 7 % 251 for at in range(size))
    data = _frame(payload, 800, synced=640, epoch=3, head=head)
    assert len(data) == frame_size(size, head)
    frame = FRAMING.parse(data, 0, position=800)
    block = LARGE_BLOCK_BYTES if size >= LARGE_RECORD_BYTES else BLOCK_BYTES
    assert frame == Frame(800, size, 640, 3, -(-size // block), True, block)
    assert frame is not None
    assert frame.end == 800 + len(data)


@pytest.mark.parametrize(("size", "head"), CUTS)
def test_damaged_packets_do_not_cost_the_record_and_anything_else_does(
    size: int, head: int
) -> None:
    data = bytearray(_frame(bytes(at * 7 % 251 for at in range(size)), 800, head=head))
    table = FRAME_HEADER + (size + 7) // 8 * 8
    inside = range(FRAME_HEADER + head, FRAME_HEADER + size)
    some = range(FRAME_HEADER, len(data), 97 if size < 60_000 else 4_999)
    places = {*range(FRAME_HEADER), *some, *range(table, len(data), 1 if size < 60_000 else 7)}
    places |= {FRAME_HEADER + head - 1, FRAME_HEADER + head, FRAME_HEADER + size - 1}
    for offset in sorted(place for place in places if place < len(data)):
        data[offset] ^= 0x10
        assert FRAMING.parse(data, 0, position=800) is None
        sound = FRAMING.sound(data, 0, position=800)
        if offset in inside:
            assert sound is not None, f"byte {offset} has cost the record"
            ((address, length),) = sound.places()
            at = 800 + offset
            assert address <= at < address + length
            assert length <= block_size(size, head)
            assert address >= 800 + FRAME_HEADER + head, "the head is no packet"
        elif offset < table:
            assert sound is None or offset >= FRAME_HEADER + size, f"byte {offset} of the head"
        else:
            assert sound is None
        data[offset] ^= 0x10


def test_a_payload_of_just_the_bit_that_marks_packets_has_that_size() -> None:
    """Stores of before had such sizes: 1 GiB was allowed, and still is."""
    raw = bytearray(_frame(b"", 0))
    raw[4:8] = (1 << 30).to_bytes(4, "little")
    assert FRAMING.head(raw, 0, position=0) == Frame(0, 1 << 30, 0, 1)
    raw[4:8] = (1 << 30 | 1).to_bytes(4, "little")
    assert FRAMING.head(raw, 0, position=0) == Frame(0, 1, 0, 1, 1, packets=True)
    raw[4:8] = (3 << 30).to_bytes(4, "little")
    assert FRAMING.head(raw, 0, position=0) == Frame(0, 1 << 30, 0, 1, 1 << 18)


def test_a_small_record_has_no_large_blocks() -> None:
    raw = bytearray(_frame(b"", 0))
    for size, blocks in ((5, 0), (LARGE_RECORD_BYTES - 1, 0), (LARGE_RECORD_BYTES + 1, 9)):
        raw[4:8] = (3 << 30 | size).to_bytes(4, "little")
        found = FRAMING.head(raw, 0, position=0)
        assert found == (Frame(0, size, 0, 1, blocks, True, LARGE_BLOCK_BYTES) if blocks else None)
