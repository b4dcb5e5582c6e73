"""Frames: whole ones are read back, others are not, and buried ones are found."""

from __future__ import annotations

import pytest

from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store.framing import Frame, Framing, blocks_of

FRAMING = Framing(b"S" * 16)


def _frame(payload: bytes, position: int, synced: int = 0, epoch: int = 1) -> bytes:
    return b"".join(FRAMING.encode([payload], position=position, synced=synced, epoch=epoch))


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
    data = b"".join(Framing(b"T" * 16).encode([b"p"], position=0, synced=0, epoch=1))
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
    pieces = FRAMING.encode([payload], position=8_000, synced=0, epoch=1)
    table = bytes(pieces[-1])  # the payload needs no padding
    count = blocks_of(len(payload))
    assert FRAMING.wrong_blocks(payload, table, 8_000, range(count)) == []
    assert FRAMING.wrong_blocks(payload, table, 16_000, range(count)) == list(range(count))
