"""One record on disk, and how a torn tail is told from damage.

A frame is 32 bytes of header, the payload, and padding to a multiple of 8 (``model/log.py``):

    checksum u32 | payload size u32 | place u64 | synced u64 | epoch u64

* ``checksum`` is CRC-32 over the rest of the header and the payload, begun with a value that comes
  from the store's identifier.
* A payload that brings packets has a *head* before them, which says what happened. It is followed
  by a table: the size of the head, and a CRC-32 of each block, as far as packets lie in it. Then
  ``checksum`` covers the rest of the header, the head and the table, and bit 30 of the size is set.
  So damaged packets do not cost the record: it is *sound* if all but packets is right.
* Another payload larger than one block is followed by a table with a CRC-32 of each block, so that
  a part of a large record can be verified without the rest. Then the highest bit of the size is
  set, and ``checksum`` covers the rest of the header and the table. In format 2 records with
  packets are so, too; frames of format 1 have no tables.
* The checksum of a block begins with a value that comes from the store and the block's place: a
  block that was written to a wrong place is not right there.
* ``place`` is the frame's own log position, XOR a mask that comes from the store's identifier. So a
  stale frame in a recycled file is never taken for a new one, and a frame can be found quickly in a
  heap of bytes. The identifier never leaves the store, so a sender that can put bytes into a
  message cannot put a frame into the log.
* ``synced`` is the position up to which everything was known to be on the disk when the frame was
  written: a bad frame below the largest such value found anywhere is damage, a bad frame at or
  above it is a tail that was never promised.
* ``epoch`` is new at every start, so that the writes of an earlier process behind the point where
  recovery cut are never taken for something either: neither what is whole there, nor what is half
  there and might become whole by the other half of a later write.

Also here:

* CRC-32 of data on disk, as quickly as this machine can.
* The checksums of the blocks that a record consists of.

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
    HEAD_SIZE_BYTES,
    LARGE_RECORD_BYTES,
    block_size,
    blocks_of,
    padded,
)
from onceq.model.record import Record
from onceq.model.run import Buffer

# ---- checksum ------------------------------------------------------------------------------------
#
# zlib-ng sums eight times as many bytes a second as zlib, with the instructions that processors
# have for it; the sum is the same. It comes with the extra `speed` (decision 0001).


try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]


# ---- blocks --------------------------------------------------------------------------------------


def block_checksums(
    pieces: Sequence[Buffer], start: int, skipped: int = 0, block: int = BLOCK_BYTES
) -> array[int]:
    """Return a checksum of each block of bytes that lie in several pieces, the last block perhaps
    short.

    Args:
        start: Start value of the first one; the next has one more, and so on.
        skipped: Bytes of the first block that do not count, and are not among these.
        block: Bytes of a block.
    """
    found = array("I")
    crc, have = start, skipped
    for piece in pieces:
        at, size = 0, len(piece)
        with memoryview(piece) as view:
            if have:
                at = min(block - have, size)
                crc = crc32(view[:at], crc)
                have += at
                if have < block:
                    continue
                found.append(crc)
                have = 0
            whole = at + (size - at) // block * block
            first = start + len(found)
            cuts = [slice(place, place + block) for place in range(at, whole, block)]
            found.extend(map(crc32, map(view.__getitem__, cuts), range(first, first + len(cuts))))
            crc, have = start + len(found), size - whole
            if have:
                crc = crc32(view[whole:], crc)
    if have:
        found.append(crc)
    return found


# ---- framing -------------------------------------------------------------------------------------


_HEADER = struct.Struct("<IIQQQ")
_REST = struct.Struct("<IQQQ")
"""All of a header behind its checksum."""
_CRC = struct.Struct("<I")
_ONE_BLOCK = struct.Struct("<II")
"""The table of a payload of one block: the size of its head, and a checksum."""
_PADDING: Final = [bytes(n) for n in range(FRAME_ALIGN)]
WITH_BLOCKS: Final = 1 << 31
"""Bit of the size of a payload whose blocks have checksums of their own."""
WITH_PACKETS: Final = 1 << 30
"""Bit of the size of a payload that is a head and packets. A size of just this is a size."""
# One bit below what a checksum has: the number of a block is added to it and must not overflow.
_START_MASK: Final = (1 << 31) - 1
_WINDOW_BITS: Final = 24
"""Positions that agree in all but this number of low bits are searched for in one go."""
_TOP_AT: Final = 8 + _WINDOW_BITS // 8
"""Offset in a header of the bytes in which they agree."""
_TOP_BYTES: Final = 8 - _WINDOW_BITS // 8

assert _HEADER.size == FRAME_HEADER


class Frame(Record, frozen=True):
    """A frame.

    Attributes:
        size: Of its payload.
        blocks: How many blocks of it have checksums.
        packets: The payload is a head and packets.
        block_bytes: Size of its blocks.
    """

    position: int
    size: int
    synced: int
    epoch: int
    blocks: int = 0
    packets: bool = False
    block_bytes: int = BLOCK_BYTES

    @property
    def payload(self) -> int:
        """Return the log address of its payload."""
        return self.position + FRAME_HEADER

    @property
    def table(self) -> int:
        """Return the log address of the checksums of its blocks."""
        return self.position + FRAME_HEADER + padded(self.size)

    @property
    def end(self) -> int:
        """Return the log position behind it."""
        extra = HEAD_SIZE_BYTES if self.packets else 0
        return self.table + padded(CHECKSUM_BYTES * self.blocks + extra)


@dataclass(frozen=True, slots=True)
class Table:
    """The table behind the payload of a frame.

    Attributes:
        checksums: Of all blocks.
        head: Bytes at the beginning of the payload that these do not cover.
    """

    checksums: Buffer
    head: int = 0


@dataclass(frozen=True, slots=True)
class Sound:
    """A frame that says what happened; ``wrong`` are blocks of packets that are damaged."""

    frame: Frame
    table: Table | None = None
    wrong: Sequence[int] = ()

    def places(self) -> list[tuple[int, int]]:
        """Return address and size of the damaged parts."""
        head = self.table.head if self.table is not None else 0
        return [block_place(self.frame, at, head) for at in self.wrong]


def block_place(frame: Frame, at: int, head: int = 0) -> tuple[int, int]:
    """Return address and size of a block, as far as it lies behind the head."""
    begin = max(at * frame.block_bytes, head)
    end = min((at + 1) * frame.block_bytes, padded(frame.size))
    return frame.payload + begin, end - begin


@dataclass(slots=True)
class Buried:
    """The frames found in a heap of bytes.

    Attributes:
        frames: Sound frames, in order.
        claimed: Epochs in bytes that look like the header of a frame that is not whole.
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
        self, payload: bytes, *, position: int, synced: int, epoch: int, head: int = 0
    ) -> list[bytes]:
        """Return the pieces of a frame: its header, its payload, and what follows.

        Args:
            head: Bytes of the payload before its packets; 0: it brings none.
        """
        size = len(payload)
        padding = _PADDING[-size % FRAME_ALIGN]
        if head:
            flags = WITH_PACKETS if size < LARGE_RECORD_BYTES else WITH_PACKETS | WITH_BLOCKS
            rest = _REST.pack(size | flags, position ^ self._mask, synced, epoch)
            view = memoryview(payload)
            if size <= BLOCK_BYTES and flags == WITH_PACKETS:
                # One block, as of every single send: 1.1 us instead of 2.8.
                crc = crc32(padding, crc32(view[head:], self._start(position)))
                table = _ONE_BLOCK.pack(head, crc)
            else:
                block = block_size(size, head)
                before, skipped = divmod(head, block)
                packets: list[Buffer] = [view[head:], padding]
                start = self._start(position) + before
                found = block_checksums(packets, start, skipped, block)
                table = _CRC.pack(head) + bytes(CHECKSUM_BYTES * before) + _raw(found)
                table += _PADDING[-len(table) % FRAME_ALIGN]
            crc = crc32(table, crc32(view[:head], crc32(rest, self._seed)))
            return [_CRC.pack(crc) + rest, payload, padding + table]
        if size > BLOCK_BYTES:
            rest = _REST.pack(size | WITH_BLOCKS, position ^ self._mask, synced, epoch)
            start = self._start(position)
            table = _table(block_checksums([payload, padding], start))
            crc = crc32(table, crc32(rest, self._seed))
            return [_CRC.pack(crc) + rest, payload, padding + table]
        rest = _REST.pack(size, position ^ self._mask, synced, epoch)
        crc = crc32(payload, crc32(rest, self._seed))
        frame = [_CRC.pack(crc) + rest, payload]
        return [*frame, padding] if padding else frame

    def _start(self, position: int) -> int:
        """Return the start value of the checksum of a frame's first block; the next has one
        more."""
        return (self._seed ^ position // FRAME_ALIGN) & _START_MASK

    def head(self, data: Buffer, at: int, *, position: int) -> Frame | None:
        """Return an unverified header; None if it is none for this position."""
        if at + FRAME_HEADER > len(data):
            return None
        _, size, place, synced, epoch = _HEADER.unpack_from(data, at)
        # Only data before a frame can have been durable when it was written.
        if place ^ self._mask != position or synced > position:
            return None
        plain = size & ~WITH_BLOCKS
        # No payload is so large: it is the bit of packets, which formats 1 and 2 do not have.
        if plain > RECORD_BYTES_MAX:
            plain ^= WITH_PACKETS
            if not size & WITH_BLOCKS:  # of any size in format 3
                blocks = (plain + BLOCK_BYTES - 1) // BLOCK_BYTES
                return Frame(position, plain, synced, epoch, blocks, packets=True)
            if plain < LARGE_RECORD_BYTES:
                return None
            block = block_size(plain, 1)
            return Frame(position, plain, synced, epoch, blocks_of(plain, 1), True, block)
        if size != plain and plain <= BLOCK_BYTES:
            return None
        return Frame(position, plain, synced, epoch, blocks_of(plain) if size != plain else 0)

    def parse(self, data: Buffer, at: int, *, position: int) -> Frame | None:
        """Return the frame of a log position if a whole one begins at ``at`` in the data."""
        found = self.sound(data, at, position=position)
        return None if found is None or found.wrong else found.frame

    def sound(self, data: Buffer, at: int, *, position: int) -> Sound | None:
        """Return the frame of a log position if one begins at ``at`` in the data that is right
        but for packets."""
        frame = self.head(data, at, position=position)
        if frame is None or at + self._stored(frame) > len(data):
            return None
        with memoryview(data) as view:
            if not frame.blocks:
                return Sound(frame) if self._sealed(view, at, frame) else None
            whole = view[at : at + frame.end - position]
            table = table_of(whole[frame.table - position :], frame)
            if not self._sealed(view, at, frame, table.head):
                return None
            wrong = self.damaged(whole, frame)
            # The frame's own checksum covers the table, so the table is right and the blocks are
            # wrong.
            if wrong and not frame.packets:
                return None  # the blocks that say what happened are unknown
            return Sound(frame, Table(b"", table.head), wrong)

    def _stored(self, frame: Frame) -> int:
        """Return the number of bytes that must be there: all but padding at the end."""
        if frame.blocks:
            return frame.end - frame.position
        return FRAME_HEADER + frame.size

    def _sealed(self, view: memoryview, at: int, frame: Frame, head: int = 0) -> bool:
        """Return True if the frame's own checksum is right."""
        begin, end = at + 4, at + FRAME_HEADER
        if frame.blocks:
            # The size of the head was read from bytes that are not verified yet.
            if frame.packets and not 0 < head <= frame.size:
                return False
            crc = crc32(view[begin : end + head], self._seed)
            crc = crc32(view[at + frame.table - frame.position : at + frame.end - frame.position],
                        crc)  # fmt: skip
        else:
            crc = crc32(view[begin : end + frame.size], self._seed)
        return crc == int.from_bytes(view[at:begin], "little")

    def damaged(self, whole: memoryview, frame: Frame) -> list[int]:
        """Return the indexes of the blocks of a frame that are not what was written.

        Args:
            whole: The frame, from its header to its end.
        """
        at = frame.table - frame.position
        table = table_of(whole[at:], frame)
        return self.wrong_blocks(whole[FRAME_HEADER:at], table, frame, range(frame.blocks))

    def wrong_blocks(self, data: Buffer, table: Table, frame: Frame, blocks: range) -> list[int]:
        """Return those of some consecutive blocks of a frame that are not what was written.

        Args:
            data: Their bytes, padding at the end of the payload included.
            table, frame: What they belong to.
        """
        block = frame.block_bytes
        skip = table.head - blocks.start * block
        if skip > 0:
            blocks = blocks[skip // block :]
            data = memoryview(data)[skip:]
        if not blocks:
            return []
        where = slice(blocks.start * CHECKSUM_BYTES, blocks.stop * CHECKSUM_BYTES)
        wanted = array("I", bytes(table.checksums[where]))
        if sys.byteorder == "big":
            wanted.byteswap()
        start = self._start(frame.position) + blocks.start
        found = block_checksums([data], start, max(skip, 0) % block, block)
        if found == wanted:
            return []
        both = min(len(found), len(wanted))
        wrong = [at for at, crc, right in zip(blocks, found, wanted, strict=False) if crc != right]
        return wrong + list(blocks[both:])

    def claim(self, data: Buffer, at: int, *, position: int) -> tuple[int, int]:
        """Return (end of its frame, epoch) of an unverified header.

        Returns:
            ``(position, 0)`` if these bytes do not even look like a header for this position.
        """
        frame = self.head(data, at, position=position)
        return (position, 0) if frame is None else (frame.end, frame.epoch)

    def find(self, data: bytes, start: int, *, offset: int) -> Buried:
        """Find all sound frames that begin at or behind ``start`` and lie where they say.

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
                place = self._check(data, at - _TOP_AT, offset, found)
                at = data.find(needle, place + _TOP_AT, stop + FRAME_HEADER)
            place = max(place, stop)
        return found

    def _check(self, data: bytes, begin: int, offset: int, found: Buried) -> int:
        """Look for a frame at one place; return where to go on."""
        position = offset + begin
        # The needle is five bytes of a place, which may also occur elsewhere by chance.
        if position % FRAME_ALIGN:
            return begin + 1
        sound = self.sound(data, begin, position=position)
        if sound is not None:
            found.frames.append(sound.frame)
            # The inside of a whole frame is not searched: messages may be bytes of some log.
            return sound.frame.end - offset
        end, epoch = self.claim(data, begin, position=position)
        if end > position:
            found.claimed.append(epoch)
        return begin + 1


def table_of(raw: Buffer, frame: Frame) -> Table:
    """Read the table behind the payload of a frame with blocks."""
    if not frame.packets:
        return Table(raw)
    return Table(raw[HEAD_SIZE_BYTES:], _CRC.unpack_from(raw)[0])


def _table(checksums: array[int]) -> bytes:
    """Return the checksums of blocks in their form behind a payload without a head."""
    if len(checksums) % 2:
        checksums.append(0)
    return _raw(checksums)


def _raw(checksums: array[int]) -> bytes:
    if sys.byteorder == "big":
        checksums.byteswap()
    return checksums.tobytes()
