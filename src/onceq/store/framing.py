"""One record on disk, and how a torn tail is told from damage.

A frame is 32 bytes of header, the payload, and padding to a multiple of 8 (``model/log.py``):

    checksum u32 | payload size u32 | place u64 | synced u64 | epoch u64

* ``checksum`` is CRC-32 over the rest of the header and the payload, begun with a value that
  comes from the store's identifier.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.model.limits import RECORD_BYTES_MAX
from onceq.model.log import FRAME_ALIGN, FRAME_HEADER, frame_size
from onceq.model.run import Buffer
from onceq.store.checksum import crc32

_HEADER = struct.Struct("<IIQQQ")
_REST = struct.Struct("<IQQQ")
"""All of a header behind its checksum."""
_CRC = struct.Struct("<I")
_PADDING: Final = [bytes(n) for n in range(FRAME_ALIGN)]
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
    """A whole frame that was read; ``size`` is that of its payload."""

    position: int
    size: int
    synced: int
    epoch: int

    @property
    def end(self) -> int:
        """Log position behind it."""
        return self.position + frame_size(self.size)


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
        rest = _REST.pack(size, position ^ self._mask, synced, epoch)
        crc = crc32(rest, self._seed)
        for piece in payload:
            crc = crc32(piece, crc)
        if size % FRAME_ALIGN:
            return [_CRC.pack(crc) + rest, *payload, _PADDING[-size % FRAME_ALIGN]]
        return [_CRC.pack(crc) + rest, *payload]

    def parse(self, data: Buffer, at: int, *, position: int) -> Frame | None:
        """The frame of a log position that begins at ``at`` in the data, if a whole one does."""
        if at + FRAME_HEADER > len(data):
            return None
        crc, size, place, synced, epoch = _HEADER.unpack_from(data, at)
        if place ^ self._mask != position:
            return None
        end = at + FRAME_HEADER + size
        if size > RECORD_BYTES_MAX or end > len(data) or synced > position:
            return None
        with memoryview(data) as view:
            if crc32(view[at + 4 : end], self._seed) != crc:
                return None
        return Frame(position, size, synced, epoch)

    def claim(self, data: Buffer, at: int, *, position: int) -> tuple[int, int]:
        """What a header says that nobody vouches for: (end of its frame, epoch).

        Returns:
            ``(position, 0)`` if these bytes do not even look like a header for this position.
        """
        if at + FRAME_HEADER <= len(data):
            _, size, place, synced, epoch = _HEADER.unpack_from(data, at)
            if place ^ self._mask == position and size <= RECORD_BYTES_MAX and synced <= position:
                return position + frame_size(size), epoch
        return position, 0

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
