"""Start from what is on the disk: read everything, judge it, and only then tidy up.

Nothing is changed before the whole store was judged, so a refused store is left as it was found. A
crash during the tidying is an ordinary crash: every step may have happened or not. ``check`` uses
the same function, so it sees what a start sees.

A store of an older format is upgraded to the present one here, before anything is written in it.
For format 1 the promise is written down first, the kept segments second, the format last.

Also here:

* Read records again: at a start, and while the store is in use.
* Check a store without changing it: report what is in it, and what is wrong.

Upholds: I22 (twice the same as once), I23.
"""

from __future__ import annotations

import os.path
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceq.errors import DamagedPiece, DamagedRecord
from onceq.file_access import STORE_FILE
from onceq.model.log import FRAME_HEADER
from onceq.store import checkpoints, identification, promises, scan
from onceq.store.contract import Recovered, Replayed
from onceq.store.files import Files
from onceq.store.framing import Framing, Sound
from onceq.store.identification import FORMAT, PROMISES, OrderlyClose, StoreIdentification
from onceq.store.pool import Pool
from onceq.store.promises import NO_SEGMENT, PromisedFile, StorePromise
from onceq.store.scan import KnownSegments, Loaded, ScanResult, Segment
from onceq.store.verified import VerifiedLog

# ---- recovery ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoreSurvey:
    """The content of the directory of a store; it is damaged if ``found.problem`` says so.

    Attributes:
        state: Of the checkpoint; None if there is none.
        promise: What PROMISED said; None in a store of format 1.
    """

    who: StoreIdentification
    head: checkpoints.CheckpointHead
    state: bytes | None
    closed: OrderlyClose
    promise: StorePromise | None
    found: ScanResult


def survey(files: Files, path: str, who: StoreIdentification, loaded: Loaded) -> StoreSurvey:
    """Read all that a start needs; segments are opened into ``loaded``.

    Raises:
        NewerFormat, DamagedRecord: It cannot be used.
    """
    head, state = checkpoints.newest(files, path, who.store_id)
    closed = identification.read_closed(files, path, who.store_id)
    promise, known = None, KnownSegments(who.store_id, head.position)
    if who.version >= PROMISES:
        promise = promises.read_promised(files, path, who.store_id)
        # An older checkpoint must not count in place of a lost one: segments behind it may have
        # been let go since.
        if head.position < promise.covered:
            missing = os.path.join(path, checkpoints.name_of(promise.covered))
            raise DamagedRecord(
                f"the checkpoint {missing} is missing: put it back, or restore a backup"
            )
        kept = promises.read_kept(files, path, who.store_id, head)
        known = replace(
            known, newest=promise.segment, newest_bytes=promise.segment_bytes,
            kept=frozenset(base for base, _ in kept),
        )  # fmt: skip
    scan.load(files, path, known, loaded)
    scan.set_ends(loaded.segments, head.position, dict(head.segments))
    found = scan.frames(
        files,
        Framing(who.store_id),
        loaded.segments,
        covered=head.position,
        epoch=head.epoch,
        closed=closed,
        promised=promise.position if promise is not None else 0,
    )
    return StoreSurvey(who, head, state, closed, promise, found)


@dataclass(frozen=True, slots=True)
class JudgedRecord:
    """A store that is whole.

    Attributes:
        end: Where the next record goes.
        epoch: The newest epoch that anything has.
        half_frame: The place at the end holds the header of a record that never was whole.
        useless: Files that can go.
    """

    who: StoreIdentification
    head: checkpoints.CheckpointHead
    recovered: Recovered
    end: int
    epoch: int
    half_frame: bool
    useless: list[str]
    promise: StorePromise | None = None


def judge(files: Files, path: str, pool: Pool, loaded: Loaded) -> JudgedRecord:
    """Judge all that matters; segments are opened into ``loaded``, ready files into the pool.

    Raises:
        NotAStore, NewerFormat, DamagedRecord: It cannot be used; nothing was changed.
    """
    seen = survey(files, path, identification.read_identification(files, path), loaded)
    found = seen.found
    if found.problem is not None:
        raise DamagedRecord(found.problem.text)
    bases = {segment.base for segment in loaded.segments}
    useless = loaded.unmade + pool.load(seen.who.store_id, bases)
    useless += [os.path.join(path, name) for name in checkpoints.unfinished(files.names(path))]
    recovered = Recovered(
        seen.state, seen.head.position, found.torn_bytes, found.clean, tuple(found.damaged)
    )
    return JudgedRecord(
        seen.who, seen.head, recovered, found.end, found.epoch, found.half_frame, useless,
        seen.promise,
    )  # fmt: skip


def tidy(files: Files, path: str, judged: JudgedRecord, loaded: Loaded) -> PromisedFile:
    """Make what was found durable, and remove what is of no use.

    The last process may have been killed: then whole records may be in the system's memory only,
    and so may its last changes of names. Nothing is written before they are durable too. Data
    behind the end in the same segment stays; the next epoch ensures that it is never taken for a
    record. Only a header right at the end is wiped out, because a later write whose beginning gets
    lost might complete it, without a newer epoch before it.

    Returns:
        The promise, which now says where the log ends.
    """
    segments = loaded.segments
    useless = list(judged.useless)
    for segment in segments:
        wipe = judged.half_frame and segment.base < judged.end < segment.limit
        if wipe:
            files.write(segment.file, segment.offset(judged.end), [bytes(FRAME_HEADER)])
        # The log before the checkpoint was durable before the checkpoint was begun.
        if wipe or (segment.base < judged.end and segment.end > judged.head.position):
            files.sync(segment.file)
    # The log goes on before these, and will use their names again.
    while segments and segments[-1].base >= judged.end:
        segment = segments.pop()
        files.close(segment.file)
        useless.append(segment.path)
    # The names of files that stay must be durable before they are promised.
    files.sync_directory(path)
    promised = _promise(files, path, judged, loaded)
    if judged.who.version < FORMAT:
        # After the promise: in the newer format a store without PROMISED is damaged.
        identification.write_identification(files, path, replace(judged.who, version=FORMAT))
    for name in useless:
        files.unlink(name)
    if useless:
        files.sync_directory(path)
    return promised


def _promise(files: Files, path: str, judged: JudgedRecord, loaded: Loaded) -> PromisedFile:
    """Write down where the log ends and which segment is its last, before any file goes."""
    who, end = judged.who, judged.end
    last = loaded.segments[-1] if loaded.segments else None
    base, size = (last.base, last.size) if last is not None else (NO_SEGMENT, 0)
    covered = judged.head.position
    if judged.promise is None:
        promise = StorePromise(end, base, size, covered)
        promises.write_promised(files, path, who.store_id, promise)
        kept = [(s.base, s.end) for s in loaded.segments if s.end <= covered]
        promises.write_kept(files, path, who.store_id, covered, kept)
        return PromisedFile(files, path, who.store_id, promise)
    promised = PromisedFile(files, path, who.store_id, judged.promise)
    # A killed process may have written it and not waited for the disk. Before a file goes, or the
    # other slot is written, what was read must be what a power cut leaves.
    promised.sync()
    before = judged.promise
    said = (before.position, before.segment, before.segment_bytes, before.covered)
    if said != (end, base, size, covered):
        promised.note(end, segment=(base, size), covered=covered)
    return promised


# ---- replaying -----------------------------------------------------------------------------------


REPLAY_BYTES: Final = 4 << 20
"""Read at once when records are read again while the store is in use."""


def records(
    files: Files, framing: Framing, segments: Sequence[Segment], covered: int, end: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield position and payload of each record between the checkpoint and the end; packets in them
    may be damaged.

    They were found sound before (``scan``): their heads are right. Packets that they bring may be
    damaged; code that hands those out reads them through ``verified``.

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


# ---- check ---------------------------------------------------------------------------------------


LOOK_BYTES = 1 << 24
"""Bytes verified in one go."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check.

    For operators (``onceq qm check``) and for every crash test. It sees what a start sees, because
    it uses the same function (``recovery.survey``): a reason for a start to refuse is a
    ``problem``. Besides, it verifies every checksum of the segments before the checkpoint, which a
    start does not read. Damage there, or in packets behind it, costs the messages in it, and no
    more. It is meant for a store that nobody runs; otherwise files may come and go meanwhile.

    Attributes:
        records: Whole records, before and behind the checkpoint; ``record_bytes`` of payload.
        end_position: Where the log ends, and the next start will go on.
        closed: The store was closed in order, and nothing was written since.
        torn_bytes: Bytes behind the last whole record that a start would cut; no problem.
        problem: What is wrong, where, what it means and what to do; "" if nothing is.
        problem_file, problem_offset: Where.
        refused: A start refuses this store for that problem; else only messages are damaged.
        damaged: All damage that does not keep the store from being started.
    """

    path: str
    store_id: bytes
    created_s: int = 0
    segments: int = 0
    ready_segments: int = 0
    records: int = 0
    record_bytes: int = 0
    first_position: int = 0
    end_position: int = 0
    checkpoint_position: int = 0
    checkpoint_bytes: int = 0
    torn_bytes: int = 0
    closed: bool = False
    problem: str = ""
    problem_file: str = ""
    problem_offset: int = 0
    refused: bool = False
    damaged: tuple[DamagedPiece, ...] = ()


def check(path: str, files: Files) -> CheckReport:
    """Check the store in a directory; changes nothing.

    Raises:
        NotAStore, NewerFormat: The directory holds no store of ours.
        StorageFailure: It cannot be read.
    """
    try:
        who = identification.read_identification(files, path)
    except DamagedRecord as error:
        name = os.path.join(path, STORE_FILE)
        return CheckReport(path, b"", problem=error.text, problem_file=name, refused=True)
    ready = sum(name.startswith("ready-") for name in files.names(path))
    loaded = scan.Loaded()
    try:
        seen = survey(files, path, who, loaded)
        old = _Old()
        old.verify(files, seen, loaded)
        old.damaged += seen.found.damaged
    except DamagedRecord as error:
        return CheckReport(path, who.store_id, who.created_s, ready_segments=ready,
                           problem=error.text, refused=True)  # fmt: skip
    finally:
        for segment in loaded.segments:
            files.close(segment.file)
    found, state = seen.found, seen.state
    problem = found.problem or old.problem
    return CheckReport(
        path=path,
        store_id=who.store_id,
        created_s=who.created_s,
        segments=len(loaded.segments),
        ready_segments=ready,
        records=old.frames + found.frames,
        record_bytes=old.frame_bytes + found.frame_bytes,
        first_position=loaded.segments[0].base if loaded.segments else seen.head.position,
        end_position=found.end,
        checkpoint_position=seen.head.position,
        checkpoint_bytes=len(state) if state is not None else 0,
        torn_bytes=found.torn_bytes,
        closed=found.clean,
        problem=problem.text if problem is not None else "",
        problem_file=problem.path if problem is not None else "",
        problem_offset=problem.offset if problem is not None else 0,
        refused=found.problem is not None,
        damaged=tuple(old.damaged),
    )


class _Old:
    """The log before the checkpoint: all of it was durable."""

    def __init__(self) -> None:
        self.frames = 0
        self.frame_bytes = 0
        self.damaged: list[DamagedPiece] = []

    def verify(self, files: Files, seen: StoreSurvey, loaded: scan.Loaded) -> None:
        """Verify every record before the checkpoint."""
        log = VerifiedLog(files, Framing(seen.who.store_id))
        covered = seen.head.position
        for segment in loaded.segments:
            at, end = segment.base, min(segment.end, covered)
            while at < end:
                looked = log.verify(segment, at, end, LOOK_BYTES)
                at = looked.position
                self.frames += looked.frames
                self.frame_bytes += looked.payload_bytes
                self.damaged += looked.damaged

    @property
    def problem(self) -> scan.Problem | None:
        """Return the first damage in words."""
        if not self.damaged:
            return None
        first = self.damaged[0]
        more = f" (and {len(self.damaged) - 1} more places)" if len(self.damaged) > 1 else ""
        return scan.Problem(
            first.path,
            first.offset,
            f"{first.path} is damaged at byte {first.offset} (log position {first.address}){more}, "
            "where only messages lie: they are set aside when the store is started, or looks at "
            "them; the others are not lost. 'onceq qm scrub' finds them all",
        )
