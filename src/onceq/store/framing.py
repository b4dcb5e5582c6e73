"""One record on disk, and how a torn tail is told from damage.

A frame is 32 bytes of header, the payload, and padding to a multiple of 8 (``model/log.py``):

    checksum u32 | payload size u32 | place u64 | synced u64 | epoch u64

* ``checksum`` is CRC-32 over the rest of the header and the payload, begun with a value that
  comes from the store's identifier.
* A payload larger than one block is followed by a table with a CRC-32 of each block, so that a
  part of a large record can be verified without the rest, and a changed byte costs one block. Then
  the highest bit of the size is set, and ``checksum`` covers the rest of the header and the table.
  The checksum of a block begins with a value that comes from the store and the block's place: a
  block that was written to a wrong place is not right there. Frames of format 1 have no tables.
* ``place`` is the frame's own log position, XOR a mask that comes from the store's identifier. So
  a stale frame in a recycled file is never taken for a new one, a frame can be found quickly in a
  heap of bytes, and nobody who can put bytes into a message can put a frame into the log: the
  identifier never leaves the store.
* ``synced`` is the position up to which everything was known to be on the disk when the frame was
  written: a bad frame below the largest such value found anywhere is damage, a bad frame at or
  above it is a tail that was never promised.
* ``epoch`` is new at every start, so that what an earlier process wrote behind the point where
  recovery cut is never taken for something either: neither what is whole there, nor what is half
  there and might become whole by the other half of a later write.

Upholds: I23 (damage is noticed), promise 2 of ``contract.py``.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.model.limits import RECORD_BYTES_MAX
from onceq.model.log import (
    BLOCK_BYTES,
    CHECKSUM_BYTES,
    FRAME_ALIGN,
    FRAME_HEADER,
    blocks_of,
    padded,
)
from onceq.model.run import Buffer
from onceq.store.checksum import crc32

_HEADER = struct.Struct("<IIQQQ")
_REST = struct.Struct("<IQQQ")
"""All of a header behind its checksum."""
_CRC = struct.Struct("<I")
_PADDING: Final = [bytes(n) for n in range(FRAME_ALIGN)]
WITH_BLOCKS: Final = 1 << 31
"""Bit of the size of a payload whose blocks have checksums of their own."""
_START_MASK: Final = (1 << 31) - 1
_WINDOW_BITS: Final = 24
"""Positions that agree in all but so many low bits are searched for in one go."""
_TOP_AT: Final = 8 + _WINDOW_BITS // 8
"""Where in a header the bytes lie in which they agree."""
_TOP_BYTES: Final = 8 - _WINDOW_BITS // 8

JOIN_BYTES: Final = 64 << 10
"""Pieces of a record that are smaller are joined with their neighbours: copying such a piece costs
less than carrying it along."""

assert _HEADER.size == FRAME_HEADER


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame; ``size`` is that of its payload, ``blocks`` how many of them have checksums."""

    position: int
    size: int
    synced: int
    epoch: int
    blocks: int = 0

    @property
    def end(self) -> int:
        """Log position behind it."""
        return self.position + FRAME_HEADER + padded(self.size) + table_bytes(self.blocks)


def table_bytes(blocks: int) -> int:
    """What the checksums of so many blocks take in a frame."""
    return padded(CHECKSUM_BYTES * blocks)


@dataclass(slots=True)
class Buried:
    """What was found in a heap of bytes.

    Attributes:
        frames: Whole frames, in order.
        claimed: Epochs of what looks like the header of a frame that is not whole.
    """

    frames: list[Frame] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)


class Framing:
    """Frames of one store."""

    __slots__ = ("_mask", "_seed")

    def __init__(self, store_id: bytes) -> None:
        digest = hashlib.blake2b(store_id, digest_size=12, person=b"onceq frame").digest()
        self._seed = int.from_bytes(digest[:4], "little")
        self._mask = int.from_bytes(digest[4:], "little")

    def encode(
        self, payload: Sequence[Buffer], *, position: int, synced: int, epoch: int
    ) -> list[Buffer]:
        """The pieces of a frame, around those of its payload."""
        size = sum(map(len, payload))
        padding = _PADDING[-size % FRAME_ALIGN]
        if size > BLOCK_BYTES:
            rest = _REST.pack(size | WITH_BLOCKS, position ^ self._mask, synced, epoch)
            start = self._start(position)
            table = _table(block_checksums([*payload, padding], start))
            crc = crc32(table, crc32(rest, self._seed))
            return [_CRC.pack(crc) + rest, *payload, padding + table]
        rest = _REST.pack(size, position ^ self._mask, synced, epoch)
        crc = crc32(rest, self._seed)
        for piece in payload:
            crc = crc32(piece, crc)
        if padding:
            return [_CRC.pack(crc) + rest, *payload, padding]
        return [_CRC.pack(crc) + rest, *payload]

    def _start(self, position: int) -> int:
        """What the checksum of a frame's first block begins with; the next with one more."""
        return (self._seed ^ position // FRAME_ALIGN) & _START_MASK

    def head(self, data: Buffer, at: int, *, position: int) -> Frame | None:
        """What a header says that nobody vouches for; None if it is none for this position."""
        if at + FRAME_HEADER > len(data):
            return None
        _, size, place, synced, epoch = _HEADER.unpack_from(data, at)
        if place ^ self._mask != position or synced > position:
            return None
        plain = size & ~WITH_BLOCKS
        if plain > RECORD_BYTES_MAX or (size != plain and plain <= BLOCK_BYTES):
            return None
        return Frame(position, plain, synced, epoch, blocks_of(plain) if size != plain else 0)

    def parse(self, data: Buffer, at: int, *, position: int) -> Frame | None:
        """The frame of a log position that begins at ``at`` in the data, if a whole one does."""
        frame = self.head(data, at, position=position)
        if frame is None or at + self._stored(frame) > len(data):
            return None
        with memoryview(data) as view:
            if not self._sealed(view, at, frame):
                return None
            if frame.blocks and self.damaged(view[at : at + frame.end - position], frame):
                return None
        return frame

    def _stored(self, frame: Frame) -> int:
        """Bytes that must be there: all but padding at the end."""
        if frame.blocks:
            return frame.end - frame.position
        return FRAME_HEADER + frame.size

    def _sealed(self, view: memoryview, at: int, frame: Frame) -> bool:
        """Whether the frame's own checksum is right."""
        begin, end = at + 4, at + FRAME_HEADER
        if frame.blocks:
            table = end + padded(frame.size)
            crc = crc32(view[begin:end], self._seed)
            crc = crc32(view[table : table + table_bytes(frame.blocks)], crc)
        else:
            crc = crc32(view[begin : end + frame.size], self._seed)
        return crc == int.from_bytes(view[at:begin], "little")

    def damaged(self, whole: memoryview, frame: Frame) -> list[int]:
        """Indexes of the blocks of a frame that are not what was written.

        Args:
            whole: The frame, from its header to its end.
        """
        table = FRAME_HEADER + padded(frame.size)
        return self.wrong_blocks(
            whole[FRAME_HEADER:table], whole[table:], frame.position, range(frame.blocks)
        )

    def wrong_blocks(self, data: Buffer, table: Buffer, position: int, blocks: range) -> list[int]:
        """Those of some consecutive blocks of a frame that are not what was written.

        Args:
            data: Their bytes, padding at the end of the payload included.
            table: The checksums of all blocks of the frame.
        """
        wanted = array("I", bytes(table[blocks.start * CHECKSUM_BYTES : blocks.stop * 4]))
        if sys.byteorder == "big":
            wanted.byteswap()
        found = block_checksums([data], self._start(position) + blocks.start)
        if found == wanted:
            return []
        both = min(len(found), len(wanted))
        wrong = [at for at, crc, right in zip(blocks, found, wanted, strict=False) if crc != right]
        return wrong + list(blocks[both:])

    def claim(self, data: Buffer, at: int, *, position: int) -> tuple[int, int]:
        """What a header says that nobody vouches for: (end of its frame, epoch).

        Returns:
            ``(position, 0)`` if these bytes do not even look like a header for this position.
        """
        frame = self.head(data, at, position=position)
        return (position, 0) if frame is None else (frame.end, frame.epoch)

    def find(self, data: bytes, start: int, *, offset: int) -> Buried:
        """All frames that begin at or behind ``start`` and lie where they say.

        Args:
            offset: Log position of the first byte of ``data`` (may be below 0 by a file header).
        """
        found = Buried()
        place = start
        first, last = (offset + start) >> _WINDOW_BITS, (offset + len(data)) >> _WINDOW_BITS
        for window in range(first, last + 1):
            top = ((window << _WINDOW_BITS) ^ self._mask) >> _WINDOW_BITS
            needle = top.to_bytes(_TOP_BYTES, "little")
            stop = ((window + 1) << _WINDOW_BITS) - offset
            at = data.find(needle, place + _TOP_AT, stop + FRAME_HEADER)
            while at >= 0:
                place = self._look(data, at - _TOP_AT, offset, found)
                at = data.find(needle, place + _TOP_AT, stop + FRAME_HEADER)
            place = max(place, stop)
        return found

    def _look(self, data: bytes, begin: int, offset: int, found: Buried) -> int:
        """Look at one place where a frame may begin; returns where to go on."""
        position = offset + begin
        if position % FRAME_ALIGN:
            return begin + 1
        frame = self.parse(data, begin, position=position)
        if frame is not None:
            found.frames.append(frame)
            return frame.end - offset
        end, epoch = self.claim(data, begin, position=position)
        if end > position:
            found.claimed.append(epoch)
        return begin + 1


def block_checksums(pieces: Sequence[Buffer], start: int) -> array[int]:
    """A checksum of each block of bytes that lie in several pieces, the last block perhaps short.

    Args:
        start: What the first one begins with; the next with one more, and so on.
    """
    found = array("I")
    crc, have = start, 0
    for piece in pieces:
        at, size = 0, len(piece)
        with memoryview(piece) as view:
            if have:
                at = min(BLOCK_BYTES - have, size)
                crc = crc32(view[:at], crc)
                have += at
                if have < BLOCK_BYTES:
                    continue
                found.append(crc)
                have = 0
            whole = at + (size - at) // BLOCK_BYTES * BLOCK_BYTES
            first = start + len(found)
            cuts = [slice(place, place + BLOCK_BYTES) for place in range(at, whole, BLOCK_BYTES)]
            found.extend(map(crc32, map(view.__getitem__, cuts), range(first, first + len(cuts))))
            crc, have = start + len(found), size - whole
            if have:
                crc = crc32(view[whole:], crc)
    if have:
        found.append(crc)
    return found


def _table(checksums: array[int]) -> bytes:
    """The checksums of blocks as they stand in a frame."""
    if len(checksums) % 2:
        checksums.append(0)
    if sys.byteorder == "big":
        checksums.byteswap()
    return checksums.tobytes()


def few_pieces(payload: Sequence[Buffer]) -> list[bytes | bytearray]:
    """The same bytes in as few pieces as are worth it, none of them a view of something larger
    that would have to stay for its sake."""
    if sum(map(len, payload)) < JOIN_BYTES:
        return [b"".join(payload)]
    pieces: list[bytes | bytearray] = []
    small: list[Buffer] = []
    for piece in payload:
        if len(piece) < JOIN_BYTES or isinstance(piece, memoryview):
            small.append(piece)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(piece)
    if small:
        pieces.append(b"".join(small))
    return pieces
