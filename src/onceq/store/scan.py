"""Reading a log again: which frames are whole, where it ends, and whether anything is damaged.

The good prefix is what was appended, from the checkpoint on. What is bad at its end is a torn tail
if nobody was ever promised more; the largest ``synced`` that any whole frame mentions, before or
behind the bad place, says what was promised (I23).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.errors import DamagedRecord
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store import framing
from onceq.store.files import Files

SEGMENT_HEADER: Final = 64
"""Bytes before the first frame of a segment file."""


@dataclass(slots=True)
class Segment:
    """One file of the log. ``end``: logical position up to which frames are in it."""

    base: int
    path: str
    file: int
    size: int
    end: int


@dataclass(slots=True)
class Found:
    """What a scan has found: (position, size, segment) of each record behind the checkpoint."""

    end: int
    synced: int
    epoch: int = 0
    records: list[tuple[int, int, Segment]] = field(default_factory=list)


def frames(files: Files, segments: Sequence[Segment], covered: int) -> Found:
    """Walk the frames from the checkpoint on; sets ``end`` of each segment.

    Raises:
        DamagedRecord: The log is bad below what was durable.
    """
    found = Found(covered, covered)
    bad: tuple[Segment, int] | None = None
    for index, segment in enumerate(segments):
        following = segments[index + 1].base if index + 1 < len(segments) else None
        if following is not None and following <= covered:
            segment.end = following
            continue
        if segment.base > found.end:
            bad = (segment, segment.base)
            break
        _walk(files, segment, found)
        segment.end = found.end
        if following is None or found.end < following:
            bad = (segment, found.end)
            break
    synced = found.synced
    if bad is not None:
        for frame in _behind(files, segments, *bad):
            synced, found.epoch = max(synced, frame.synced), max(found.epoch, frame.epoch)
    if synced > found.end:
        segment, place = bad if bad is not None else (segments[-1], found.end)
        raise DamagedRecord(
            f"{segment.path} is damaged at byte {SEGMENT_HEADER + place - segment.base} (log "
            f"position {found.end}), below the {synced} that was durable: restore a backup"
        )
    return found


def _walk(files: Files, segment: Segment, found: Found) -> None:
    """The whole frames of one segment, from where we are."""
    data = files.read(segment.file, 0, segment.size)
    while True:
        at = found.end
        frame = framing.parse(data, SEGMENT_HEADER + at - segment.base, position=at)
        if frame is None or frame.epoch < found.epoch:
            return
        found.records.append((at, frame.size, segment))
        found.synced = max(found.synced, frame.synced)
        found.epoch = max(found.epoch, frame.epoch)
        found.end = at + frame_size(frame.size)


def _behind(
    files: Files, segments: Sequence[Segment], segment: Segment, at: int
) -> list[framing.Frame]:
    """Whole frames behind a bad one: what they say tells damage from a torn tail."""
    frames_: list[framing.Frame] = []
    for other in segments:
        if other.base >= segment.base:
            data = files.read(other.file, 0, other.size)
            start = SEGMENT_HEADER + (at - other.base if other is segment else 0)
            frames_ += framing.find_behind(data, start, other.base - SEGMENT_HEADER)
    return frames_


def tail_bytes(files: Files, segments: Sequence[Segment], end: int) -> int:
    """Bytes behind the end that look like the beginning of a record that was never whole."""
    holders = [s for s in segments if s.base <= end]
    if not holders:
        return 0
    segment = holders[-1]
    head = files.read(segment.file, SEGMENT_HEADER + end - segment.base, FRAME_HEADER)
    if len(head) < FRAME_HEADER or not any(head):
        return 0
    _, size, position, _, _ = struct.unpack("<IIQQQ", head)
    return frame_size(size) if position == end and size < segment.size else 0
