"""Scrubs: every stored byte of a running queue manager is verified, slowly.

Data that nobody reads for months may be damaged for months. A scrub walks the whole log that is
kept, from the oldest segment on, a piece at a time. It runs in another thread where the host has
one, and at a limited number of bytes in a second, so that commits do not wait for it. The core sets
damaged messages aside as if a client had read them (``core/management/damage.py``). The scrub ends
at the log's end of its beginning; later writes were verified a moment ago.

Upholds: I23.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol, cast

from onceq.core.decision import Scrub
from onceq.core.inputs import Scrubbed
from onceq.errors import DamagedPiece
from onceq.model.marks import SECOND_US, Now
from onceq.model.views.managers import ScrubView
from onceq.service.clock import Due, at
from onceq.service.committer import Committer
from onceq.service.logs import event

PIECE_BYTES = 1 << 20
"""Bytes verified in one go; a larger record is verified whole."""


class Looked(Protocol):
    """The result of verifying a part of the log: ``store.verified.Looked``."""

    position: int
    damaged: list[DamagedPiece]


class Lookable(Protocol):
    """What a store on a disk offers: ``store.log.LogStore``."""

    def look(self, position: int, end: int, most: int) -> Looked:
        """Verify the log from a position on; from any thread."""


class Scrubbing:
    """The scrub of one store, if one runs."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._view = ScrubView()
        self._rate = 0
        self._at = self._end = 0
        self._due_us = 0
        self._working: Future[Looked] | None = None

    def perform(self, action: Scrub) -> None:
        """Begin, change the rate, or stop."""
        if not action.bytes_s:
            self._finish(stopped=True)
            return
        self._rate = action.bytes_s
        if self._view.running:
            return
        store = self._committer.store
        segments = store.segments()
        self._at = segments[0].base if segments else store.position
        self._end = store.synced
        now = self._committer.clock.read()
        total = sum(min(s.end, self._end) - s.base for s in segments if s.base < self._end)
        self._view = ScrubView(running=True, began=now.wall_s, total=total)
        # Another thread may still work for the scrub before; its result does not count for this
        # one.
        self._working = None
        self._due_us = now.mono_us
        self._committer.due.by(self._due_us)
        self._tell()
        event("scrub begun", bytes=total, bytes_s=self._rate)

    def due(self) -> Due:
        """Return when the next piece is due. While another thread verifies one each pump asks
        for it."""
        if not self._view.running:
            return Due()
        return at(self._due_us) if self._working is None else Due(look_us=0)

    def work(self, now: Now) -> None:
        """Verify a piece, if one is due."""
        if not self._view.running:
            return
        if self._working is not None:
            if self._working.done():
                future, self._working = self._working, None
                self._looked(future.result(), now)
            return
        if now.mono_us < self._due_us:
            return
        if not hasattr(self._committer.store, "look"):
            self._finish()
            return
        store, at, end = cast(Lookable, self._committer.store), self._at, self._end
        background = self._committer.background
        if background is None:
            self._looked(store.look(at, end, PIECE_BYTES), now)
        else:
            self._working = background(lambda: store.look(at, end, PIECE_BYTES))

    def _looked(self, found: Looked, now: Now) -> None:
        size = max(found.position - self._at, 0)
        self._at = found.position
        # From now on and not from when it was due: a scrub that was held up does not catch up by
        # force.
        self._due_us = now.mono_us + size * SECOND_US // self._rate
        view = self._view
        self._view = replace(
            view, bytes=min(view.bytes + size, view.total),
            damaged=view.damaged + len(found.damaged),
        )  # fmt: skip
        if found.damaged:
            self._committer.set_aside(tuple(found.damaged))
        if self._at >= self._end:
            self._finish()
        else:
            self._tell()

    def _finish(self, *, stopped: bool = False) -> None:
        if not self._view.running:
            return
        ended = self._committer.clock.read().wall_s
        self._view = replace(self._view, running=False, ended=ended, stopped=stopped)
        self._tell()
        level = logging.WARNING if self._view.damaged else logging.INFO
        event(
            "scrub stopped" if stopped else "scrub ended", level=level, bytes=self._view.bytes,
            damaged=self._view.damaged,
        )  # fmt: skip

    def _tell(self) -> None:
        self._committer.submit(Scrubbed(self._view))
