"""Where records lie in the log: arithmetic that the core and the store must agree on.

The log is one endless sequence of frames. A *position* is a logical byte offset in it; it only
grows and is never reused, however files come and go. A frame is a header of FRAME_HEADER bytes,
the payload of one record, and padding to a multiple of FRAME_ALIGN; behind a payload that brings
packets, or has more than one block, stands a checksum of each of its blocks. So the core, which
knows the sizes of the records it decides on, knows where every message will lie before it is
written, and the engine checks that the store agrees.

The *head* of a payload with packets is what comes before them: it says what happened. It has a
checksum apart from theirs, so that damaged packets do not cost the record.
"""

from __future__ import annotations

FRAME_HEADER = 32
"""Bytes before the payload of every record."""

FRAME_ALIGN = 8
"""Frames begin at multiples of this many bytes."""

BLOCK_BYTES = 4096
"""Bytes of a payload that share a checksum (decision 0012 has the reason for this number)."""

LARGE_BLOCK_BYTES = 32 << 10
"""The same in a large record with packets: reading much of it takes an eighth of the calls."""

LARGE_RECORD_BYTES = 256 << 10
"""A payload of packets with at least this many bytes is large: its blocks are at most an eighth."""

CHECKSUM_BYTES = 4
"""Bytes of the checksum of one block."""

HEAD_SIZE_BYTES = 4
"""Bytes before the checksums of the blocks that say how large the head is."""


def padded(size: int) -> int:
    """Return a size, rounded up to the next multiple of FRAME_ALIGN."""
    return (size + FRAME_ALIGN - 1) // FRAME_ALIGN * FRAME_ALIGN


def block_size(payload_size: int, head: int = 0) -> int:
    """Bytes of a payload that share a checksum."""
    return LARGE_BLOCK_BYTES if head and payload_size >= LARGE_RECORD_BYTES else BLOCK_BYTES


def blocks_of(payload_size: int, head: int = 0) -> int:
    """How many blocks of a payload have checksums of their own; 0 if the frame's covers it all."""
    if payload_size <= BLOCK_BYTES and not head:
        return 0
    block = block_size(payload_size, head)
    return (payload_size + block - 1) // block


def frame_size(payload_size: int, head: int = 0) -> int:
    """Bytes that a record with this payload takes in the log.

    Args:
        head: Bytes of the payload before its packets; 0: it brings none.
    """
    size = FRAME_HEADER + (payload_size + FRAME_ALIGN - 1) // FRAME_ALIGN * FRAME_ALIGN
    if head:
        block = LARGE_BLOCK_BYTES if payload_size >= LARGE_RECORD_BYTES else BLOCK_BYTES
        blocks = (payload_size + block - 1) // block
        return size + (blocks + 2) // 2 * FRAME_ALIGN
    if payload_size <= BLOCK_BYTES:
        return size
    blocks = (payload_size + BLOCK_BYTES - 1) // BLOCK_BYTES
    return size + (blocks + 1) // 2 * FRAME_ALIGN
