"""One record on disk, and how a torn tail is told from damage.

A frame is 32 bytes of header, the payload, and padding to a multiple of 8 (``model/log.py``):

    checksum u32 | payload size u32 | position u64 | synced u64 | epoch u64

The checksum (CRC-32) covers the rest of the header and the payload. ``position`` is where the
frame itself lies in the log, so that a stale frame in a recycled file is never taken for a new
one; ``epoch`` is new at every start, so that what an earlier process wrote behind the point where
recovery cut is not taken for something either. ``synced`` is the position up to which everything
was known to be on the disk when the frame was written: a bad frame below the largest such value
found anywhere is damage, a bad frame at or above it is a tail that was never promised (I23).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from onceq.model.limits import RECORD_BYTES_MAX
from onceq.model.log import FRAME_ALIGN, FRAME_HEADER, frame_size
from onceq.model.run import Buffer

_HEADER = struct.Struct("<IIQQQ")
_CRC = struct.Struct("<I")
PADDING: Final = [bytes(n) for n in range(FRAME_ALIGN)]

assert _HEADER.size == FRAME_HEADER


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame that was read."""

    position: int
    size: int
    synced: int
    epoch: int


def encode(payload: Buffer, *, position: int, synced: int, epoch: int) -> list[Buffer]:
    """The pieces of a frame."""
    size = len(payload)
    head = _HEADER.pack(0, size, position, synced, epoch)
    crc = zlib.crc32(payload, zlib.crc32(head[4:]))
    frame: list[Buffer] = [_CRC.pack(crc) + head[4:], payload]
    if size % FRAME_ALIGN:
        frame.append(PADDING[-size % FRAME_ALIGN])
    return frame


def parse(data: Buffer, at: int, *, position: int | None = None) -> Frame | None:
    """The frame that begins at ``at``, if a whole one does.

    Args:
        position: Where it must say that it lies; None: anywhere.
    """
    if at + FRAME_HEADER > len(data):
        return None
    crc, size, place, synced, epoch = _HEADER.unpack_from(data, at)
    if position is not None and place != position:
        return None
    end = at + FRAME_HEADER + size
    if size > RECORD_BYTES_MAX or end > len(data) or synced > place or place % FRAME_ALIGN:
        return None
    if zlib.crc32(memoryview(data)[at + 4 : end]) != crc:
        return None
    return Frame(place, size, synced, epoch)


def find_behind(data: Buffer, start: int, offset: int) -> list[Frame]:
    """All whole frames from ``start`` on that lie where they say.

    Args:
        offset: Log position of the first byte of ``data``.
    """
    found: list[Frame] = []
    view = bytes(data)
    place = start
    while place + FRAME_HEADER <= len(view):
        if not any(view[place : place + FRAME_HEADER]):
            place = _next_bytes(view, place)
            continue
        frame = parse(view, place, position=offset + place)
        if frame is None:
            place += FRAME_ALIGN
        else:
            found.append(frame)
            place += frame_size(frame.size)
    return found


def _next_bytes(data: bytes, place: int) -> int:
    """The next multiple of FRAME_ALIGN from ``place`` on at which something but zeros stands."""
    while place < len(data):
        part = data[place : place + (1 << 16)]
        zeros = len(part) - len(part.lstrip(b"\0"))
        if zeros < len(part):
            return place + max(zeros // FRAME_ALIGN, 1) * FRAME_ALIGN
        place += len(part)
    return place
