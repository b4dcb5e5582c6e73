"""Look through a store without changing it: what is in it, and the first thing that is wrong.

For operators (``onceq qm check``) and for every crash test. It looks at every checksum: the files
that say who the store is, the checkpoint, and all frames of all segments, also those before the
checkpoint that recovery does not read. Meant for a store that nobody runs; while somebody does,
files may come and go under it.

Upholds: I23.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass

from onceq.errors import DamagedRecord
from onceq.store import checkpoints, identification, scan
from onceq.store.files import Files
from onceq.store.framing import Framing
from onceq.store.identification import Closed
from onceq.store.scan import Found, Problem, Segment


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check has found.

    Attributes:
        records: Whole records, before and behind the checkpoint; ``record_bytes`` of payload.
        end_position: Where the log ends, and the next start will go on.
        closed: The store was closed in order, and nothing was written since.
        torn_bytes: Bytes behind the last whole record that a start would cut; no problem.
        problem: What is wrong, where, what it means and what to do; "" if nothing is.
        problem_file, problem_offset: Where.
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


def check(path: str, files: Files) -> CheckReport:
    """Check the store in a directory; changes nothing.

    Raises:
        NotAStore, NewerFormat: The directory holds no store of ours.
        StorageFailure: It cannot be read.
    """
    try:
        who = identification.read_identification(files, path)
    except DamagedRecord as error:
        name = os.path.join(path, identification.STORE_FILE)
        return CheckReport(path, b"", problem=error.text, problem_file=name)
    names = files.names(path)
    ready = sum(name.startswith("ready-") for name in names)
    loaded = scan.Loaded()
    try:
        head, state = checkpoints.newest(files, path, who.store_id)
        scan.load(files, path, who.store_id, head.position, loaded)
        closed = identification.read_closed(files, path, who.store_id)
        old, found = _look(files, Framing(who.store_id), loaded.segments, head, closed)
    except DamagedRecord as error:
        return CheckReport(path, who.store_id, who.created_s, ready_segments=ready,
                           problem=error.text)  # fmt: skip
    finally:
        for segment in loaded.segments:
            files.close(segment.file)
    problem = old.problem or found.problem
    return CheckReport(
        path=path,
        store_id=who.store_id,
        created_s=who.created_s,
        segments=len(loaded.segments),
        ready_segments=ready,
        records=old.frames + found.frames,
        record_bytes=old.frame_bytes + found.frame_bytes,
        first_position=loaded.segments[0].base if loaded.segments else head.position,
        end_position=found.end,
        checkpoint_position=head.position,
        checkpoint_bytes=len(state) if state is not None else 0,
        torn_bytes=found.torn_bytes,
        closed=found.clean,
        problem=problem.text if problem is not None else "",
        problem_file=problem.path if problem is not None else "",
        problem_offset=problem.offset if problem is not None else 0,
    )


def _look(
    files: Files,
    framing: Framing,
    segments: Sequence[Segment],
    head: checkpoints.Head,
    closed: Closed,
) -> tuple[Found, Found]:
    """What lies before the checkpoint, and what lies behind it."""
    old = Found(0, 0, 0)
    scan.set_ends(segments, head.position, dict(head.segments))
    for segment in segments:
        if segment.base >= head.position:
            break
        _look_before(files, framing, segment, min(segment.end, head.position), old)
        if old.problem is not None:
            break
    found = scan.frames(
        files, framing, segments, covered=head.position, epoch=head.epoch, closed=closed
    )
    return old, found


def _look_before(files: Files, framing: Framing, segment: Segment, end: int, old: Found) -> None:
    """One segment, up to its end or the checkpoint: all of it was durable."""
    data = files.read(segment.file, 0, segment.size)
    at = segment.base
    while at < end:
        frame = framing.parse(data, segment.offset(at), position=at)
        if frame is None or frame.epoch < old.epoch or frame.end > end:
            place = segment.offset(at)
            old.problem = Problem(
                segment.path,
                place,
                f"{segment.path} is damaged at byte {place} (log position {at}), before the "
                "checkpoint: messages that still lie there are lost, the others are not; restore "
                "a backup, or receive what can be received and purge the rest",
            )
            return
        old.frames += 1
        old.frame_bytes += frame.size
        old.epoch = frame.epoch
        at = frame.end
