"""Look through a store without changing it: what is in it, and the first thing that is wrong.

For operators (``onceq qm check``) and for every crash test. It reads all segments, also those
before the checkpoint, and checks each frame that belongs to the log.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from onceq.errors import OnceqError
from onceq.model.log import frame_size
from onceq.store import checkpoints, framing
from onceq.store.files import Files
from onceq.store.identification import read_store_file
from onceq.store.scan import SEGMENT_HEADER


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check has found.

    Attributes:
        problem: What is wrong, where, and what to do; "" if nothing is.
        torn_bytes: Bytes behind the last whole record that a start would cut; no problem.
    """

    path: str
    segments: int = 0
    ready_segments: int = 0
    records: int = 0
    record_bytes: int = 0
    first_position: int = 0
    end_position: int = 0
    checkpoint_position: int = 0
    checkpoint_bytes: int = 0
    torn_bytes: int = 0
    problem: str = ""


def check(path: str, files: Files) -> CheckReport:
    """Check the store in a directory; raises NotAStore or NewerFormat if it is none of ours."""
    store_id, _ = read_store_file(files, path)
    names = files.names(path)
    ready = sum(name.startswith("ready-") for name in names)
    try:
        state, covered, _ = checkpoints.newest(files, path, store_id)
    except OnceqError as error:
        return CheckReport(path, ready_segments=ready, problem=error.text)
    walk = _Walk(files, path)
    bases = sorted(int(n[4:-4], 16) for n in names if n.startswith("log-"))
    problem = ""
    for index, base in enumerate(bases):
        following = bases[index + 1] if index + 1 < len(bases) else None
        problem = walk.segment(base, following, covered)
        if problem:
            break
    if not problem and walk.synced > max(walk.end, covered):
        problem = (
            f"the log ends at {walk.end}, but was durable up to {walk.synced}: a segment is "
            "missing or damaged; restore a backup"
        )
    return CheckReport(
        path=path,
        segments=len(bases),
        ready_segments=ready,
        records=walk.records,
        record_bytes=walk.bytes,
        first_position=bases[0] if bases else covered,
        end_position=max(walk.end, covered),
        checkpoint_position=covered,
        checkpoint_bytes=len(state) if state is not None else 0,
        torn_bytes=walk.torn,
        problem=problem,
    )


class _Walk:
    """Frames of all segments in order."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.records = self.bytes = self.torn = 0
        self.end = self.synced = self._epoch = 0
        self._broken = False

    def segment(self, base: int, following: int | None, covered: int) -> str:
        """Walk one segment; returns what is wrong with it."""
        name = os.path.join(self._path, f"log-{base:016x}.seg")
        file = self._files.open(name)
        try:
            data = self._files.read(file, 0, self._files.size(file))
        finally:
            self._files.close(file)
        if len(data) < SEGMENT_HEADER or not any(data[:SEGMENT_HEADER]):
            return ""
        at = base
        while True:
            frame = framing.parse(data, SEGMENT_HEADER + at - base, position=at)
            if frame is None or frame.epoch < self._epoch or self._broken:
                break
            self.records += 1
            self.bytes += frame.size
            self.synced = max(self.synced, frame.synced)
            self._epoch = max(self._epoch, frame.epoch)
            at += frame_size(frame.size)
        if not self._broken:
            self.end = max(self.end, at)
        if following is not None and following <= covered:
            # Segments between may have been given back, so only a whole frame behind a bad one
            # in the same file tells of damage here.
            later = framing.find_behind(data, SEGMENT_HEADER + at - base, base - SEGMENT_HEADER)
            if later:
                return (
                    f"{name} is damaged at byte {SEGMENT_HEADER + at - base} (log position {at}), "
                    "below the checkpoint; messages in it may be unreadable: restore a backup"
                )
            return ""
        if following is not None and at < following:
            self._broken = True
            self.torn += following - at
        return ""
