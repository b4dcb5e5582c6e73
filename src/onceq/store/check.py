"""Check a store without changing it: report what is in it, and what is wrong.

For operators (``onceq qm check``) and for every crash test. It sees what a start sees, because it
uses the same function (``recovery.survey``): a reason for a start to refuse is a ``problem``.
Besides, it verifies every checksum of the segments before the checkpoint, which a start does not
read. Damage there, or in packets behind it, costs the messages in it, and no more. It is meant for
a store that nobody runs; otherwise files may come and go meanwhile.

Upholds: I23.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.settings import STORE_FILE
from onceq.store import identification, recovery, scan
from onceq.store.files import Files
from onceq.store.framing import Framing
from onceq.store.verified import VerifiedLog

LOOK_BYTES = 1 << 24
"""Bytes verified in one go."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check.

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
        seen = recovery.survey(files, path, who, loaded)
        old = _Old()
        old.look(files, seen, loaded)
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

    def look(self, files: Files, seen: recovery.Survey, loaded: scan.Loaded) -> None:
        """Verify every record before the checkpoint."""
        log = VerifiedLog(files, Framing(seen.who.store_id))
        covered = seen.head.position
        for segment in loaded.segments:
            at, end = segment.base, min(segment.end, covered)
            while at < end:
                looked = log.look(segment, at, end, LOOK_BYTES)
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
