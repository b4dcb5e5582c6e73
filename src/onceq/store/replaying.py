"""Read records again: at a start, and while the store is in use.

They were found sound before (``scan``): their heads are right. Packets that they bring may be
damaged; code that hands those out reads them through ``verified``.

Upholds: I22, I23.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.log import FRAME_HEADER
from onceq.store.contract import Replayed
from onceq.store.files import Files
from onceq.store.framing import Framing, Sound
from onceq.store.scan import Segment

REPLAY_BYTES: Final = 4 << 20
"""Read at once when records are read again while the store is in use."""


def records(
    files: Files, framing: Framing, segments: Sequence[Segment], covered: int, end: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield position and payload of each record between the checkpoint and the end; packets in them
    may be damaged.

    Raises:
        DamagedRecord: One is not sound any more.
    """
    position = covered
    for segment in segments:
        if not segment.base <= position < segment.end:
            continue
        data = memoryview(files.read(segment.file, 0, segment.size))
        while position < min(end, segment.end):
            at = segment.offset(position)
            frame = _sound(framing, segment, data, at, position).frame
            yield position, data[at + FRAME_HEADER : at + FRAME_HEADER + frame.size]
            position = frame.end


def _sound(framing: Framing, segment: Segment, data: memoryview, at: int, position: int) -> Sound:
    """Return a frame that was found sound before."""
    sound = framing.sound(data, at, position=position)
    if sound is None:
        offset = segment.offset(position)
        piece = DamagedPiece(position, FRAME_HEADER, segment.path, offset)
        raise DamagedRecord(
            f"{segment.path} is damaged at byte {offset}: the record there is not whole any more",
            (piece,),
        )
    return sound


def replay(
    files: Files,
    framing: Framing,
    table: Callable[[], tuple[list[int], list[Segment]]],
    start: int,
    end: int,
) -> Iterator[Replayed]:
    """Yield each record from ``start`` up to ``end``, read piece by piece.

    For a reader in another thread than the owner's, who goes on appending meanwhile.

    Args:
        table: Returns the current bases of the segments and the segments.
        start, end: Where frames begin; everything between is durable, and its segments are kept.

    Raises:
        DamagedRecord: A record is not sound any more.
    """
    position = start
    while position < end:
        # Read again each time: the owner may have begun a segment since.
        bases, segments = table()
        segment = segments[bisect_right(bases, position) - 1]
        stop = min(end, segment.end)
        assert segment.base <= position < stop, "a part of the log that is not kept"
        size = min(stop - position, REPLAY_BYTES)
        data = memoryview(files.read(segment.file, segment.offset(position), size))
        at = 0
        while at + FRAME_HEADER <= size:
            head = framing.head(data, at, position=position)
            if head is not None and head.end - position > size - at:
                # The record goes on behind this piece: the next piece begins with it, or this one
                # grows to all of it.
                if at or head.end > stop:
                    break
                size = head.end - position
                data = memoryview(files.read(segment.file, segment.offset(position), size))
            sound = _sound(framing, segment, data, at, position)
            frame = sound.frame
            payload = data[at + FRAME_HEADER : at + FRAME_HEADER + frame.size]
            yield Replayed(position, payload, tuple(sound.places()))
            at += frame.end - position
            position = frame.end
        if not at:
            # The piece is too short for a header, so its file was cut short: this raises, and names
            # the place.
            _sound(framing, segment, data, 0, position)
            raise AssertionError("a whole frame that is not read")
