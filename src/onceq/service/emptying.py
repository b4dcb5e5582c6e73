"""Empty segments that are kept for a few old messages: those are written again.

They are written at the end of the log, and the segment goes. Each check of the space allows a fixed
amount of work, and it is done in portions. A search through many positions, reads of cold parts of
the disk, and a record take time in which no request is served. So a pump does one portion, and the
next one goes on.

Upholds: I24 (no pump is longer the more there is to move).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from onceq.core.decision import Decision
from onceq.core.inputs.inputs import Relocate, Spoiled
from onceq.core.management.sparse_segments import Cursor
from onceq.errors import DamagedRecord
from onceq.model.limits import SPARSE_POSITIONS_MAX
from onceq.model.run import Run
from onceq.model.time import Now
from onceq.service.committer import Committer
from onceq.store.contract import SegmentUse

SPARSE_SHARE: Final = 4
"""A segment is emptied if less than one byte in SPARSE_SHARE is needed..."""
SLACK_BYTES = 64 << 20
"""... and the log is larger than SPARSE_SHARE times what is needed, and this."""
MOVE_BYTES = 1 << 20
"""Bytes of messages written again after one check..."""
SEGMENTS_MAX = 8
"""... of at most this number of segments, ..."""
PORTION_BYTES: Final = 128 << 10
"""... and bytes of these in one pump; a message that is larger is one portion."""
PORTION_POSITIONS: Final = 20_000
"""Positions of queues examined in one pump; some 2 ms."""


class Emptying:
    """Empties segments of one store.

    Attributes:
        more: Whether the last check allows another portion.
    """

    def __init__(self, committer: Committer, reclaim: Callable[[], int]) -> None:
        self._committer = committer
        self._reclaim = reclaim
        self.more = False
        self._moved = self._looked = self._positions = 0
        """Since the last check: bytes, segments, positions."""
        self._at: tuple[SegmentUse, Cursor] | None = None
        """Where a search was interrupted: its segment, and where it goes on."""
        self._barren: dict[int, int] = {}
        """Base of a segment whose search has ended, to the bytes of it that are still needed."""
        self._searched = (-1, -1, -1)
        """State of the log when a search last found nothing to move."""

    def begin(self, now: Now, covered: int) -> bool:
        """Do the first portion after a check of the space.

        Args:
            covered: Up to where the log is covered by a checkpoint.

        Returns:
            Whether there was anything to do; there may be more then.
        """
        store = self._committer.store
        disk_bytes = store.disk_bytes()
        log = (store.position, covered, disk_bytes)
        if disk_bytes < SLACK_BYTES or log == self._searched:
            self.more = False
            return False
        self._moved = self._looked = self._positions = 0
        if not self.go_on(now, covered):
            self._searched = log
        return self._looked > 0

    def go_on(self, now: Now, covered: int) -> bool:
        """Do a portion; return whether there was one to do."""
        committer, self.more = self._committer, False
        sparse, after = self._at or (None, None)
        if sparse is None:
            sparse = self._sparsest([s for s in committer.store.segments() if s.end <= covered])
        if sparse is None:
            self._end()
            return False
        self._looked += after is None or not self._looked
        found = committer.manager.sparse(
            sparse.base, sparse.end, min(PORTION_BYTES, MOVE_BYTES - self._moved), after=after,
            positions_max=min(PORTION_POSITIONS, SPARSE_POSITIONS_MAX - self._positions),
        )  # fmt: skip
        self._positions += found.looked
        decisions: list[Decision] = []
        for part in found.parts:
            try:
                run = Run(committer.fetch(part.extents), part.lengths)
            except DamagedRecord:
                damaged = committer.verifying.damaged(part.extents)
                decisions.append(committer.manager.step(now, Spoiled(damaged)))
                break  # other messages to move may be among those set aside
            self._moved += len(run.data)
            move = Relocate(part.queue, part.lane, part.counters, run)
            decisions.append(committer.manager.step(now, move))
        committer.settle(decisions)
        if found.cursor is not None:
            self._at = sparse, found.cursor
        else:
            # What still counts here after that is in a region of the core's that reaches in from a
            # neighbour.
            self._at = None
            self._barren[sparse.base] = committer.manager.live_bytes(sparse.base, sparse.end)
            self._reclaim()
        self.more = (
            self._moved < MOVE_BYTES and self._positions < SPARSE_POSITIONS_MAX
            and (self._looked < SEGMENTS_MAX or self._at is not None)
        )  # fmt: skip
        if not self.more:
            self._end()
        return True

    def _end(self) -> None:
        """End the work that one check allows."""
        if self._moved:
            # Messages moved from one segment may have held regions that reach into its neighbours.
            self._barren.clear()
            self._moved = 0

    def _sparsest(self, segments: Sequence[SegmentUse]) -> SegmentUse | None:
        """Return the old segment with the fewest needed bytes, if too much log is kept for too
        little."""
        used = sum(s.disk_bytes for s in segments)
        live = {s.base: self._committer.manager.live_bytes(s.base, s.end) for s in segments}
        self._barren = {b: size for b, size in self._barren.items() if live.get(b) == size}
        worth = [
            s
            for s in segments
            if s.base not in self._barren and live[s.base] * SPARSE_SHARE < s.disk_bytes
        ]
        if not worth or used < SPARSE_SHARE * sum(live.values()) + SLACK_BYTES:
            return None
        return min(worth, key=lambda s: live[s.base] / s.disk_bytes)
