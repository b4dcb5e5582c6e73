"""Frames of the log: their sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onceq.model.log import (
    BLOCK_BYTES,
    CHECKSUM_BYTES,
    FRAME_ALIGN,
    FRAME_HEADER,
    blocks_of,
    frame_size,
    padded,
)


@given(st.integers(0, 1 << 30))
def test_frames_are_aligned_and_hold_their_payload(size: int) -> None:
    frame = frame_size(size)
    assert frame % FRAME_ALIGN == 0
    table = padded(CHECKSUM_BYTES * blocks_of(size))
    assert 0 <= frame - FRAME_HEADER - size - table < FRAME_ALIGN
    assert (table == 0) == (size <= BLOCK_BYTES)
