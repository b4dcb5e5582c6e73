"""Upkeep between pumps: checkpoints, space given back, and a watch on what is left.

A checkpoint makes recovery short and lets old segments go; a segment in which a few old messages
keep all the rest is emptied by writing those few again at the log's end. All of it is done in
small steps, a bounded amount in each pump.

Upholds: I22 (recovery in proportion to what was written since), the reserve of ``contract.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceq.core.inputs import Relocate, Space
from onceq.model.run import Run
from onceq.model.time import SECOND_US, Now

if TYPE_CHECKING:
    from onceq.service.engine import Engine

CHECK_US = SECOND_US
"""How often space is looked at, and how often segments are prepared while little happens."""
CHECK_BYTES = 8 << 20
"""Log written after which they are looked at sooner."""
SPARSE_SHARE = 4
"""A segment is emptied if less than one byte in so many is needed..."""
SLACK_BYTES = 64 << 20
"""... and the log is larger than that many times what is needed, and this."""
MOVE_BYTES = 1 << 20
"""Bytes of messages written again in one pump."""


class Upkeep:
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._covered = 0
        self._state_bytes = 0
        self._looked_us = 0
        self._looked_at = 0
        self._low = False

    def started(self) -> None:
        """After recovery: what the log has since the checkpoint counts at once."""
        self._covered = self._engine.store.recovered.checkpoint_position
        self._look(self._engine.clock.read())

    def work(self, now: Now) -> None:
        """A little of whatever is due."""
        position = self._engine.store.position
        if now.mono_us - self._looked_us < CHECK_US and position - self._looked_at < CHECK_BYTES:
            return
        self._look(now)
        due = max(self._engine.settings.checkpoint_log_bytes, 4 * self._state_bytes)
        if position - self._covered >= due:
            self.checkpoint()
        self._empty_sparse()

    def _look(self, now: Now) -> None:
        engine = self._engine
        self._looked_us = now.mono_us
        self._looked_at = engine.store.position
        prepare = getattr(engine.store, "prepare", None)
        if prepare is not None and not self._low:
            prepare()
        reserve = engine.settings.disk_reserve_bytes
        free = engine.store.free_bytes()
        if not self._low and free < reserve:
            self._low = True
            engine.submit(Space(low=True))
        elif self._low and free >= 2 * reserve:
            self._low = False
            engine.submit(Space(low=False))

    def checkpoint(self) -> None:
        """Write the whole state, and give back what only the log before it needed."""
        engine = self._engine
        engine.store.sync()
        position = engine.store.position
        state = engine.manager.snapshot()
        self._state_bytes = sum(map(len, state))
        engine.store.checkpoint(state, position)
        self._covered = position
        engine.store.reclaim(engine.manager.live)

    def _empty_sparse(self) -> None:
        """Write the last messages of the emptiest old segment again at the end of the log."""
        engine = self._engine
        segments = [s for s in engine.store.segments() if s.end <= self._covered]
        if not segments:
            return
        used = sum(s.disk_bytes for s in segments)
        live = {s.base: engine.manager.live_bytes(s.base, s.end) for s in segments}
        if used < SPARSE_SHARE * sum(live.values()) + SLACK_BYTES:
            return
        emptiest = min(segments, key=lambda s: live[s.base] / s.disk_bytes)
        if live[emptiest.base] * SPARSE_SHARE >= emptiest.disk_bytes:
            return
        for part in engine.manager.sparse(emptiest.base, emptiest.end, MOVE_BYTES):
            data = engine.fetch(part.extents)
            engine.decide(Relocate(part.holder, part.lane, part.counters, Run(data, part.lengths)))
        if not engine.manager.live(emptiest.base, emptiest.end):
            engine.store.reclaim(engine.manager.live)
