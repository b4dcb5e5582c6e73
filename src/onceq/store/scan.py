"""Read a log again: which frames are whole, where it ends, and whether anything is damaged.

The good prefix is the sound data that was appended from the checkpoint on. Bad data at its end is a
torn tail if it was never promised. The promised part ends at the largest of: the end of the
checkpoint, the place where the store was closed in order, and every ``synced`` that any sound frame
mentions, before or behind the bad place. A promised record stays if only packets of it are bad:
these packets are damage, and everything else goes on. A record that was not promised is a torn tail
as ever. Nothing is changed here; ``check`` uses the same functions as recovery.

Upholds: I22, I23.
"""

from __future__ import annotations

import os.path
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.log import FRAME_HEADER
from onceq.store.files import Files
from onceq.store.framing import Frame, Framing
from onceq.store.identification import NEVER_CLOSED, OrderlyClose

SEGMENT_HEADER: Final = 64
"""Bytes before the first frame of a segment file."""
SEGMENT_VERSION: Final = 2
EPOCH_STEP_MAX: Final = 1 << 32
"""Epochs of one store never differ by more; larger ones in half frames are noise."""
_MAGIC: Final = b"onceq\0sg"
_HEADER = struct.Struct("<8sI16sQ")
_HEADER_2 = struct.Struct("<8sI16sQQ")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"log-([0-9a-f]{16})\.seg")


def segment_name(base: int) -> str:
    """Return the file name of the segment that begins at a log position."""
    return f"log-{base:016x}.seg"


def segment_header(store_id: bytes, base: int, size: int = 0) -> bytes:
    """Return the header of a segment file.

    Args:
        size: Of the file; 0: not said, as in format 1.
    """
    if size:
        head = _HEADER_2.pack(_MAGIC, SEGMENT_VERSION, store_id, base, size)
    else:
        head = _HEADER.pack(_MAGIC, 1, store_id, base)
    return (head + _CRC.pack(zlib.crc32(head))).ljust(SEGMENT_HEADER, b"\0")


def base_of_header(head: bytes, store_id: bytes) -> int | None:
    """Return the base of this store's segment that a header begins; None if it is no such
    header."""
    said = said_by_header(head, store_id)
    return None if said is None else said[0]


def said_by_header(head: bytes, store_id: bytes) -> tuple[int, int] | None:
    """Return base and size of the segment file that a header begins; None if it is no such
    header."""
    if len(head) < SEGMENT_HEADER:
        return None
    _, version, _, base, size = _HEADER_2.unpack_from(head)
    if version == 1:
        size = 0
    elif not size:
        return None
    return (base, size) if head == segment_header(store_id, base, size) else None


@dataclass(slots=True)
class Segment:
    """One file of the log.

    Attributes:
        size: Bytes that the file has, or shall have.
        end: Log position up to which frames are in it.
        limit: Log position at which no more fits.
        shift: What is added to a log position for its place in the file.
    """

    base: int
    path: str
    file: int
    size: int
    end: int
    limit: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        self.limit = self.base + self.size - SEGMENT_HEADER
        self.shift = SEGMENT_HEADER - self.base

    def offset(self, position: int) -> int:
        """Return the offset of a log position in the file."""
        return position + self.shift


NOWHERE: Final = (1 << 64) - 1
"""Base of no segment."""


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """What the files beside the log say of its segments.

    Attributes:
        covered: Position of the checkpoint.
        newest: Base of the last segment that was begun; NOWHERE if that is not known.
        newest_bytes: Size of its file.
        kept: Bases of those before the checkpoint that must be there.
    """

    store_id: bytes
    covered: int = 0
    newest: int = NOWHERE
    newest_bytes: int = 0
    kept: frozenset[int] = frozenset()


@dataclass(slots=True)
class Loaded:
    """Segment files of a directory, opened, in order; and paths of those never finished."""

    segments: list[Segment] = field(default_factory=list)
    unmade: list[str] = field(default_factory=list)


def load(files: Files, path: str, known: KnownSegments, into: Loaded) -> None:
    """Open all segments of a store; ``into`` has the opened ones even after an error.

    A file whose header is not right was being made when the last process ended, and holds nothing;
    unless it had been begun, records lie in it, or the checkpoint is behind it: then its header is
    damaged. The same goes for one that is shorter than it says.

    Raises:
        DamagedRecord: A segment that must be there is not, is cut short, or has a damaged header.
    """
    for name in files.names(path):
        match = _NAME.fullmatch(name)
        if match is not None:
            _load_one(files, os.path.join(path, name), int(match[1], 16), known, into)
    into.segments.sort(key=lambda segment: segment.base)
    here = {segment.base for segment in into.segments}
    for base in sorted({*known.kept, known.newest} - here - {NOWHERE}):
        raise DamagedRecord(
            f"the segment {os.path.join(path, segment_name(base))} is missing, and the log needs "
            "it: put it back, or restore a backup"
        )


def _load_one(files: Files, whole: str, base: int, known: KnownSegments, into: Loaded) -> None:
    file = files.open(whole)
    size = files.size(file)
    said = said_by_header(files.read(file, 0, SEGMENT_HEADER), known.store_id)
    begun = base < known.covered or (known.newest != NOWHERE and base <= known.newest)
    if said is not None and said[0] == base:
        wanted = max(said[1], known.newest_bytes if base == known.newest else 0)
        # In the list before it is judged: after an error the caller closes the files in it.
        into.segments.append(Segment(base, whole, file, said[1] or size, base))
        if size >= wanted:
            return
        if begun:
            raise DamagedRecord(
                f"{whole} is damaged: it was cut short to {size} of {wanted} bytes; put the whole "
                "file back, or restore a backup"
            )
        into.segments.pop()
    try:
        data = files.read(file, 0, size)
    finally:
        files.close(file)
    found = Framing(known.store_id).find(data, SEGMENT_HEADER, offset=base - SEGMENT_HEADER)
    if begun or found.frames:
        raise DamagedRecord(
            f"{whole} is damaged in its first {SEGMENT_HEADER} bytes: it does not say any "
            "more which part of the log it holds; restore a backup"
        )
    into.unmade.append(whole)


def set_ends(segments: Sequence[Segment], covered: int, ends: dict[int, int]) -> None:
    """Set the ends of segments before the checkpoint, because nothing will walk them.

    Args:
        ends: What the checkpoint says, by base.
    """
    for index, segment in enumerate(segments):
        following = segments[index + 1].base if index + 1 < len(segments) else covered
        segment.end = ends.get(segment.base, max(segment.base, min(following, segment.limit)))


@dataclass(slots=True)
class ScanResult:
    """The result of a scan.

    Attributes:
        end: Where the good prefix ends.
        synced: What was promised, as far as anything shows.
        epoch: The newest epoch of anything; the next process takes a newer one.
        half_frame: A header for the place at the end is there, and may be used for a record yet.
        torn_bytes: How far unfinished frames of the last process reach behind the end.
        frames, frame_bytes: Whole frames from the checkpoint on, and their payloads.
        damaged: Damaged packets, in records that are there.
        problem: Damage that makes the store unusable; None if there is none.
    """

    end: int
    synced: int
    epoch: int
    closed: OrderlyClose = NEVER_CLOSED
    torn_bytes: int = 0
    half_frame: bool = False
    frames: int = 0
    frame_bytes: int = 0
    damaged: list[DamagedPiece] = field(default_factory=list)
    problem: Problem | None = None

    @property
    def clean(self) -> bool:
        """Return True if it was closed in order, and nothing was written since."""
        return self.end == self.closed.end and self.torn_bytes == 0

    @property
    def epoch_wanted(self) -> int:
        """Return the epoch below which frames do not count here any more."""
        if self.end >= self.closed.end:
            return max(self.epoch, self.closed.epoch)
        return self.epoch


CURES: Final = (
    "; restore a backup ('onceq qm restore'), and keep this directory: what it has beyond the "
    "backup is in it"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Damage: in which file, at which byte, and what it means."""

    path: str
    offset: int
    text: str


def frames(
    files: Files,
    framing: Framing,
    segments: Sequence[Segment],
    *,
    covered: int,
    epoch: int,
    closed: OrderlyClose,
    promised: int = 0,
) -> ScanResult:
    """Walk the frames from the checkpoint on; set ``end`` of each segment that it walks.

    Args:
        covered: Where the checkpoint ends, and so the walk begins.
        epoch: Frames behind the checkpoint are of this epoch or a later one.
        closed: Where the log was closed in order; the same goes for frames behind that.
        promised: Everything before it was durable.
    """
    found = ScanResult(covered, max(covered, closed.end, promised), epoch, closed)
    doubtful = _walk_all(files, framing, segments, found)
    torn = [frame for frame in doubtful if frame.end > found.synced]
    if torn:
        # The first of them was not promised: there the log ends, with anything behind it.
        found = ScanResult(covered, found.synced, epoch, closed)
        _walk_all(files, framing, segments, found, torn[0].position)
    found.epoch = found.epoch_wanted
    if found.synced > found.end:
        found.problem = _problem(files, framing, segments, found)
    return found


def _walk_all(
    files: Files, framing: Framing, segments: Sequence[Segment], found: ScanResult,
    stop: int | None = None,
) -> list[Frame]:  # fmt: skip
    """Walk one segment after the other; return the frames with bad packets.

    Args:
        stop: Here the good prefix ends.
    """
    doubtful: list[Frame] = []
    for index, segment in enumerate(segments):
        following = segments[index + 1].base if index + 1 < len(segments) else None
        if following is not None and following <= found.end:
            continue
        if segment.base > found.end:
            _behind(files, framing, segments[index:], found, segment.base)
            break
        doubtful += _walk(files, framing, segment, found, following, stop)
        if found.end != following or found.end == stop:
            _behind(files, framing, segments[index:], found, found.end)
            break
    return doubtful


def _walk(
    files: Files, framing: Framing, segment: Segment, found: ScanResult, following: int | None,
    stop: int | None,
) -> list[Frame]:  # fmt: skip
    """Walk the sound frames of one segment, from the present position up to the next segment;
    return those with bad packets."""
    data = files.read(segment.file, 0, segment.size)
    doubtful: list[Frame] = []
    while found.end not in (following, stop):
        sound = framing.sound(data, segment.offset(found.end), position=found.end)
        # A whole frame of an older epoch was cut by a start: the present log was written around it.
        if sound is None or sound.frame.epoch < found.epoch_wanted:
            break
        frame = sound.frame
        # The log went on in the next segment from its base on: this one was cut before that.
        if following is not None and frame.end > following:
            break
        if sound.wrong:
            doubtful.append(frame)
            found.damaged += [
                DamagedPiece(address, size, segment.path, segment.offset(address))
                for address, size in sound.places()
            ]
        found.frames += 1
        found.frame_bytes += frame.size
        found.synced = max(found.synced, frame.synced)
        found.epoch = frame.epoch
        found.end = frame.end
    segment.end = max(segment.base, min(found.end, segment.limit))
    return doubtful


def _behind(
    files: Files, framing: Framing, segments: Sequence[Segment], found: ScanResult, place: int
) -> None:
    """Collect sound frames behind a bad place: they tell damage from a torn tail.

    Frames of earlier epochs may be there since long ago; they are no torn tail, but what they call
    durable was so. Of half frames only the epoch is of interest: the next process must have a newer
    one. A stored epoch that is out of all bounds is noise.
    """
    wanted = found.epoch_wanted
    reach = found.end
    claimed: list[int] = []
    for segment in segments:
        data = files.read(segment.file, 0, segment.size)
        start = max(segment.offset(place), SEGMENT_HEADER)
        if segment.base <= place == found.end:
            claim, epoch = framing.claim(data, start, position=place)
            found.half_frame = claim > place
            if epoch >= wanted:
                reach = max(reach, min(claim, segment.limit))
        buried = framing.find(data, start, offset=segment.base - SEGMENT_HEADER)
        claimed += buried.claimed
        for frame in buried.frames:
            found.synced = max(found.synced, frame.synced)
            found.epoch = max(found.epoch, frame.epoch)
            if frame.epoch >= wanted:
                reach = max(reach, frame.end)
    most = found.epoch_wanted + EPOCH_STEP_MAX
    found.epoch = max([found.epoch, *(epoch for epoch in claimed if epoch <= most)])
    found.torn_bytes = reach - found.end


def _problem(
    files: Files, framing: Framing, segments: Sequence[Segment], found: ScanResult
) -> Problem:
    """Describe damage at the end of the good prefix."""
    meaning = (
        f"the log is whole only up to position {found.end}, but everything up to {found.synced} "
        f"was durable{CURES}"
    )
    missing = segment_name(found.end)
    for segment in reversed(segments):
        if segment.base <= found.end < segment.limit:
            place = segment.offset(found.end)
            # The next record may also have been in a segment of its own.
            last = segment is segments[-1] and segment.base < found.end
            other = f", or {missing} is missing" if last else ""
            known = _known(files, framing, segment, found.end)
            text = f"{segment.path} is damaged at byte {place}{other}: {known}{meaning}"
            return Problem(segment.path, place, text)
    return Problem(missing, 0, f"the segment {missing} is missing: {meaning}")


def _known(files: Files, framing: Framing, segment: Segment, position: int) -> str:
    """Describe what is known of the record at a place without a sound one."""
    data = files.read(segment.file, 0, segment.size)
    at = segment.offset(position)
    frame = framing.head(data, at, position=position)
    if frame is None:
        return "no record begins there any more; "
    kind = {1: "a change of messages", 2: "a setup", 3: "a prepared branch", 4: "a decision"}.get(
        data[at + FRAME_HEADER] if at + FRAME_HEADER < len(data) else 0, "of unknown kind"
    )
    return (
        f"the record there seems to be {kind} of {frame.size} bytes, written by start "
        f"{frame.epoch} of this store, and what it says cannot be known any more; "
    )
