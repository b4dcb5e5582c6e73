"""Upkeep between pumps: checkpoints, freed disk space, and a watch on what is left.

It empties segments that few old messages keep, gives unneeded ones back a few at a time, and
verifies every stored byte again (the scrub).

A checkpoint makes recovery short and frees old segments. A segment that is kept only for a few old
messages is emptied: those messages are written again at the log's end. All of it is done in small
steps, a bounded amount in each pump. Slow work (writing a checkpoint) is done in another thread
where the host offers one: a commit must not wait for housekeeping.

Upholds: I22 (recovery in proportion to what was written since), the reserve of
``store/contract.py``, I24 (no pump is longer the more there is to move).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar, cast

from onceq.core.decision import Decision, Scrub
from onceq.core.inputs import Relocate, Scrubbed, SpaceChanged, Spoiled
from onceq.core.management.damage import Cursor
from onceq.errors import DamagedPiece, DamagedRecord, NoSpace
from onceq.model.limits import HISTORY_LOG_BYTES, HISTORY_NOTES_MAX, SPARSE_POSITIONS_MAX
from onceq.model.marks import SECOND_US, Now
from onceq.model.run import Buffer, Run
from onceq.model.views.managers import ScrubView
from onceq.service import pacing
from onceq.service.clock import Due, at
from onceq.service.committer import Committer
from onceq.service.logs import event
from onceq.service.pacing import leave_turn
from onceq.store.contract import SegmentUse, Store

# ---- emptying ------------------------------------------------------------------------------------
#
# Empty segments that are kept for a few old messages: those are written again.


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


# ---- giving back ---------------------------------------------------------------------------------
#
# Give unneeded segments back a few at a time.


GIVEN_BACK_AT_ONCE: Final = 4
"""Segments given back in one pump."""


class GivingBack:
    """Gives back segments of one store.

    Attributes:
        more: Whether the last check left some.
    """

    def __init__(self, store: Store, needed: Callable[[int, int], bool]) -> None:
        self._store = store
        self._needed = needed
        self.more = False

    def some(self, *, at_once: bool = False) -> int:
        """Give back a few segments; return the number of bytes.

        Args:
            at_once: All that there are.
        """
        left, self.more = GIVEN_BACK_AT_ONCE, False

        def keep(base: int, end: int) -> bool:
            nonlocal left
            if self._needed(base, end):
                return True
            self.more = not left and not at_once
            left = max(left - 1, 0)
            return self.more

        return self._store.reclaim(keep)


# ---- on disk -------------------------------------------------------------------------------------
#
# What housekeeping asks of a store that is on a disk, beside its contract.


class Pending(Protocol):
    """A checkpoint on its way."""

    def write(self) -> str:
        """Write it; may run in another thread."""


class OnDisk(Protocol):
    """What a store on a disk has besides its contract: ``store.log.LogStore``."""

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> Pending:
        """Begin a checkpoint."""

    def checkpoint_install(self, pending: Any) -> None:
        """Put it in force."""

    def prepare(self) -> bool:
        """Prepare a segment before the log needs it, without waiting for it."""

    def note(self) -> None:
        """Write down the length of the log, without waiting for the disk."""

    @property
    def segment_bytes(self) -> int:
        """Return the size of the next segment of the log."""

    def room_bytes(self) -> int:
        """Return the free bytes of the disk and the bytes of the store, together."""

    @property
    def plenty(self) -> bool:
        """Return True if more segments are prepared than the reserve needs."""

    def trim(self, *, half: bool = False) -> None:
        """Give back prepared segments beyond the reserve, or half of these."""


# ---- upkeep --------------------------------------------------------------------------------------


T = TypeVar("T")

CHECK_US = SECOND_US
"""Interval of the checks of space, and of preparing segments while little happens."""
CHECK_BYTES = 8 << 20
"""Bytes of log after which a check comes sooner."""
SMALL_STATE_LOG_BYTES = 64 << 20
"""Log after which a checkpoint is made while the state is small..."""
STATE_SHARE = 8
"""... plus this multiple of the state's own size; never more than the setting allows."""
IDLE_LOG_BYTES = 16 << 20
"""Log after which a checkpoint is made when nothing has happened for CHECK_US..."""
WASTED_BYTES = 32 << 20
"""... and bytes of unneeded segments after which a checkpoint is made just to free them: a
drained queue writes little log and leaves much behind."""
RESERVE_SHARE = 4
"""The reserve is at most this fraction (one part in RESERVE_SHARE) of the disk space for this
store..."""
AGAIN_SHARE = 8
"""... and sends are accepted again when that, and one part in AGAIN_SHARE, are free."""
TRIM_US = 10 * SECOND_US
"""Quiet time after which half of the segments that lie ready for another burst are given back to
the file system; half of the rest follows after another such time."""


class Upkeep:
    """Does the upkeep of one store, in portions."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        on_disk = hasattr(committer.store, "checkpoint_begin")
        self._disk = cast(OnDisk, committer.store) if on_disk else None
        self._covered = 0
        self._state_bytes = 0
        self._looked_us = 0
        self._looked_at = 0
        self._low = False
        self._moved = self._to_empty = False
        self._giving_back = GivingBack(committer.store, self._live)
        self._emptying = Emptying(committer, self.reclaim)
        self._quiet_at = -1
        self._quiet_us = 0
        """Start of the quiet time, or the time when segments were last given back for it."""
        self._writing: tuple[Future[Any], Callable[[], None]] | None = None
        self._full_at = -1
        self._told_us = -1
        self._told_at = 0

    def started(self) -> None:
        """Begin after recovery: the log since the checkpoint counts at once."""
        found = self._committer.store.recovered
        self._covered = found.checkpoint_position
        event(
            "recovered", position=self._committer.store.position, checkpoint=self._covered,
            torn_bytes=found.torn_bytes,
        )  # fmt: skip
        now = self._committer.clock.read()
        self._check_disk(now)
        self._quiet_us = now.mono_us
        if self._covered == self._committer.store.position:
            self._quiet_at = self._covered

    def due(self) -> Due:
        """Return when the next check is due.

        After the last event two checks are due although nothing else happens. Only the second one
        sees that all is quiet, and that there is time for postponed work.
        """
        again_us = self._looked_us + CHECK_US
        at_it = self._giving_back.more or self._to_empty or (self._emptying.more and not self._low)
        wanted = Due(again_us if self._writing is None and not at_it else 0)
        quiet = self._committer.store.position == self._quiet_at
        wanted.position = self._quiet_at + 1 if quiet else self._looked_at + CHECK_BYTES
        if self._low or self._moved or not quiet:
            wanted.timer_us = again_us
        else:
            later = []
            if self._untold:
                wanted_at = 0 if self._committer.history_wanted else self._told_us + self._roll_us
                later.append(wanted_at)
            if self._disk is not None and self._disk.plenty:
                later.append(self._quiet_us + TRIM_US)
            if later:
                wanted.timer_us = max(min(later), again_us)
        if at_it:
            wanted.timer_us = 0
        return wanted

    def work(self, now: Now) -> None:
        """Do a portion of the work that is due: one thing that may take milliseconds, and no
        more."""
        if self._collect(wait=False):
            return
        position = self._committer.store.position
        idle = now.mono_us - self._looked_us >= CHECK_US
        if not idle and position - self._looked_at < CHECK_BYTES:
            self._go_on(now)
            return
        quiet = position == self._looked_at
        self._check_disk(now)
        under_way = self._writing is not None
        self._begin_due(now, position, quiet=quiet)
        self._to_empty = True
        if under_way or self._writing is None:
            self._begin_emptying(now)

    def _go_on(self, now: Now) -> None:
        """Do a portion of the work that the last check began, or postponed."""
        if self._giving_back.more:
            self.reclaim()
        elif self._to_empty:
            self._begin_emptying(now)
        elif self._emptying.more and not self._low:
            self._emptying.go_on(now, self._covered)

    def _begin_due(self, now: Now, position: int, *, quiet: bool) -> None:
        """Begin a checkpoint or a part of the history, if it is time for one."""
        if self._writing is None:
            most = self._committer.settings.checkpoint_log_bytes
            wanted = min(most, SMALL_STATE_LOG_BYTES + STATE_SHARE * self._state_bytes)
            # Never before the log has grown by four times the size of the state: otherwise
            # checkpoints would be a large part of all that is written.
            due = position - self._covered >= max(wanted, 4 * self._state_bytes)
            if quiet:
                # Nothing was written since the last check, so nobody waits for a checkpoint.
                if self._quiet_at != position:
                    self._quiet_at, self._quiet_us = position, now.mono_us
                due = due or self._worth_it(position)
                self._trim(now)
            # After a lack of space it would fail again before the log has moved on.
            if due and position != self._full_at:
                self._begin_checkpoint()
        if self._writing is None and self._history_due(now):
            self._begin_history(now)

    def _begin_emptying(self, now: Now) -> None:
        self._to_empty = False
        self._moved = not self._low and self._emptying.begin(now, self._covered)

    def _worth_it(self, position: int) -> bool:
        """Return True if a checkpoint gains something now that there is time for one."""
        if position == self._covered:
            return False
        if position - self._covered >= IDLE_LOG_BYTES:
            return True
        wanted = 1 if self._low else WASTED_BYTES
        if self._committer.store.disk_bytes() < wanted:
            return False
        old = self._committer.store.segments()[:-1]
        live = self._committer.manager.live
        return sum(s.disk_bytes for s in old if not live(s.base, s.end)) >= wanted

    # ---- space ------------------------------------------------------------------------------

    def _trim(self, now: Now) -> None:
        """Give back half of the segments kept for a burst, if none has come for a while."""
        if self._disk is not None and now.mono_us - self._quiet_us >= TRIM_US:
            self._quiet_us = now.mono_us
            self._disk.trim(half=True)

    def _check_disk(self, now: Now) -> None:
        committer = self._committer
        self._looked_us = now.mono_us
        self._looked_at = committer.store.position
        if committer.manager.counts.noted:
            self.tell_endings()
        if self._disk is not None:
            if not self._low:
                self._disk.prepare()
            self._disk.note()
        reserve, enough = self._reserves()
        free = committer.store.free_bytes()
        if not self._low and free < reserve:
            self._low = True
            event("disk nearly full: sends are refused", level=logging.WARNING, free_bytes=free)
            committer.submit(SpaceChanged(low=True))
        elif self._low and free >= enough:
            self._low = False
            event("disk has room again", level=logging.WARNING, free_bytes=free)
            committer.submit(SpaceChanged(low=False))

    def tell_endings(self) -> None:
        """Log how messages have ended since the last time."""
        pacing.tell(self._committer.rates, self._committer.manager.counts.taken())

    @property
    def low(self) -> bool:
        """Return True if the disk is nearly full."""
        return self._low

    def reclaim(self, *, all_of_it: bool = False) -> int:
        """Give back segments that nothing needs any more, a few in each pump."""
        return self._giving_back.some(at_once=all_of_it or self._low)

    def _reserves(self) -> tuple[int, int]:
        """Return the free bytes below which sends are refused, and above which they are accepted
        again.

        Both depend on the disk space for this store: an empty store must have enough on any disk.
        But sends never take the next segment of the log: removals and checkpoints, which alone free
        space, need it. A disk that has no more than that takes no sends.
        """
        wanted = self._committer.settings.disk_reserve_bytes
        if self._disk is None:
            return wanted, 2 * wanted
        room = self._disk.room_bytes()
        segment = self._disk.segment_bytes
        # This much is written before the next check.
        least = segment + min(segment, CHECK_BYTES)
        reserve = max(min(wanted, room // RESERVE_SHARE), least)
        return reserve, reserve + min(reserve, room // AGAIN_SHARE)

    # ---- the history --------------------------------------------------------------------------

    @property
    def _untold(self) -> bool:
        """Return True if the history does not contain everything yet."""
        history = self._committer.history
        if history is None:
            return False
        return history.position < self._committer.store.position or history.notes > 0

    @property
    def _roll_us(self) -> int:
        return self._committer.settings.history_roll_s * SECOND_US

    def _history_due(self, now: Now) -> bool:
        history = self._committer.history
        if history is None or not self._untold:
            return False
        # A failed write of the last time does not count here: it is retried in its time.
        log = self._committer.store.position - max(self._told_at, history.position)
        return (
            self._told_us < 0
            or self._committer.history_wanted
            or now.mono_us - self._told_us >= self._roll_us
            or log >= HISTORY_LOG_BYTES
            or history.notes >= HISTORY_NOTES_MAX // 2
        )

    def _begin_history(self, now: Now) -> None:
        """Bring the history up to what is durable now."""
        committer, history = self._committer, self._committer.history
        assert history is not None, "it is due"
        self._told_us, committer.history_wanted = now.mono_us, False
        # The history takes only what is durable, or it would report what never happened.
        committer.store.sync()
        upto, wall_us = committer.store.position, committer.clock.read().wall_us
        self._told_at = upto

        def reclaim_log(_: None) -> None:
            self.reclaim()

        self._begin(lambda: history.project(upto, wall_us), reclaim_log)

    def _tell(self, upto: int) -> None:
        """Bring the history up to the position of a checkpoint: the log before it may go then."""
        if self._committer.history is not None:
            self._committer.history.project(upto, self._committer.clock.read().wall_us)

    def _live(self, base: int, end: int) -> bool:
        """Return True if messages or the history need a part of the log."""
        history = self._committer.history
        if self._committer.manager.live(base, end):
            return True
        # While another thread projects it must not be asked: everything counts as needed.
        return history is not None and (self._writing is not None or history.needs(base, end))

    # ---- checkpoints --------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the whole state now, and give back what only the log before it needed."""
        self._collect(wait=True)
        store = self._committer.store
        store.sync()
        position = store.position
        self._tell(position)
        state = self._committer.manager.snapshot().encode()
        self._state_bytes = sum(map(len, state))
        store.checkpoint(state, position)
        self._covers(position)
        if self._giving_back.more:
            self.reclaim(all_of_it=True)

    def stop(self) -> None:
        """Make the last checkpoint of an orderly end, and give back prepared segments that are not
        needed.

        A full disk leaves the checkpoint before in force.
        """
        self._collect(wait=True)
        if self._committer.store.position != self._covered:
            self._begin_checkpoint()
            self._collect(wait=True)
        elif self._untold:
            self._committer.store.sync()
            self._tell(self._committer.store.position)
        if self._giving_back.more:
            self.reclaim(all_of_it=True)
        if self._disk is not None:
            self._disk.trim()

    def _begin_checkpoint(self) -> None:
        store, disk = self._committer.store, self._disk
        if disk is None:
            self.checkpoint()
            return
        store.sync()
        position = store.position
        snapshot, state = self._committer.manager.snapshot(), list[Buffer]()
        pending = disk.checkpoint_begin(state, position)

        def write() -> bool:
            state.extend(snapshot.encode(leave_turn))
            # Before the checkpoint: it frees the log from which the history is made.
            self._tell(position)
            try:
                pending.write()
            except NoSpace:
                return False
            return True

        def written(whole: bool) -> None:
            self._state_bytes = sum(map(len, state))
            if whole:
                disk.checkpoint_install(pending)
                self._covers(position)
            else:
                # The checkpoint before stays in force; it is tried again when the log has moved on.
                self._full_at = self._committer.store.position
                event("no room for a checkpoint", level=logging.WARNING, position=self._full_at)

        self._begin(write, written)

    def _covers(self, position: int) -> None:
        committer = self._committer
        self._covered = position
        if committer.history is not None:
            committer.history.covered(position)
        freed = self.reclaim()
        event(
            "checkpoint", level=logging.DEBUG, position=position, bytes=self._state_bytes,
            freed_bytes=freed,
        )  # fmt: skip

    # ---- work in another thread -----------------------------------------------------------------

    def _begin(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do ``work`` in the background, if the host offers that, and then ``then`` in a pump."""
        assert self._writing is None, "one checkpoint at a time"
        background = self._committer.background
        if background is None:
            then(work())
        else:
            future = background(work)
            self._writing = (future, lambda: then(future.result()))

    def _collect(self, *, wait: bool) -> bool:
        """Complete what has ended in another thread; with ``wait``, wait for the work under way.

        Returns:
            Whether there was something.
        """
        if self._writing is None or not (wait or self._writing[0].done()):
            return False
        # Cleared first: `then` may begin the next work, and `_live` asks for it.
        (_, then), self._writing = self._writing, None
        then()
        return True


# ---- scrub ---------------------------------------------------------------------------------------
#
# Scrubs: every stored byte of a running queue manager is verified, slowly.
#
# Data that nobody reads for months may be damaged for months. A scrub walks the whole log that is
# kept, from the oldest segment on, a piece at a time, in another thread where the host has one. It
# reads a limited number of bytes in a second, so that commits do not wait for it. The core sets
# damaged messages aside as if a client had read them (``core/management/damage.py``). The scrub
# ends at the log's end of its beginning; later writes were verified a moment ago.


PIECE_BYTES = 1 << 20
"""Bytes verified in one go; a larger record is verified whole."""


class LookedPart(Protocol):
    """The result of verifying a part of the log: ``store.verified.VerifiedPart``."""

    position: int
    damaged: list[DamagedPiece]


class Lookable(Protocol):
    """What a store on a disk offers: ``store.log.LogStore``."""

    def verify(self, position: int, end: int, most: int) -> LookedPart:
        """Verify the log from a position on; from any thread."""


class Scrubbing:
    """The scrub of one store, if one runs."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._view = ScrubView()
        self._rate = 0
        self._at = self._end = 0
        self._due_us = 0
        self._working: Future[LookedPart] | None = None

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
        if not hasattr(self._committer.store, "verify"):
            self._finish()
            return
        store, at, end = cast(Lookable, self._committer.store), self._at, self._end
        background = self._committer.background
        if background is None:
            self._looked(store.verify(at, end, PIECE_BYTES), now)
        else:
            self._working = background(lambda: store.verify(at, end, PIECE_BYTES))

    def _looked(self, found: LookedPart, now: Now) -> None:
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
