"""Upkeep between pumps: checkpoints, freed disk space, and a watch on what is left.

A checkpoint makes recovery short and frees old segments. A segment that is kept only for a few old
messages is emptied: those messages are written again at the log's end. All of it is done in small
steps, a bounded amount in each pump. Slow work (writing a checkpoint) is done in another thread
where the host offers one: a commit must not wait for housekeeping.

Upholds: I22 (recovery in proportion to what was written since), the reserve of ``contract.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from onceq.core.inputs.inputs import Space
from onceq.errors import NoSpace
from onceq.model.limits import HISTORY_LOG_BYTES, HISTORY_NOTES_MAX
from onceq.model.run import Buffer
from onceq.model.time import SECOND_US, Now
from onceq.service import endings
from onceq.service.committer import Committer
from onceq.service.due import Due
from onceq.service.emptying import Emptying
from onceq.service.giving_back import GivingBack
from onceq.service.logs import event
from onceq.service.on_disk import OnDisk
from onceq.service.turns import leave_turn

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
        self._look(now)
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
        self._look(now)
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
            due = position - self._covered >= self._due_bytes()
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

    def _due_bytes(self) -> int:
        most = self._committer.settings.checkpoint_log_bytes
        wanted = SMALL_STATE_LOG_BYTES + STATE_SHARE * self._state_bytes
        # Never before the log has grown by four times the size of the state: otherwise checkpoints
        # would be a large part of all that is written.
        return max(min(most, wanted), 4 * self._state_bytes)

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

    def _look(self, now: Now) -> None:
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
            committer.submit(Space(low=True))
        elif self._low and free >= enough:
            self._low = False
            event("disk has room again", level=logging.WARNING, free_bytes=free)
            committer.submit(Space(low=False))

    def tell_endings(self) -> None:
        """Log how messages have ended since the last time."""
        endings.tell(self._committer.rates, self._committer.manager.counts.taken())

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

        def told(_: None) -> None:
            self.reclaim()

        self._begin(lambda: history.project(upto, wall_us), told)

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
                self._no_room()

        self._begin(write, written)

    def _no_room(self) -> None:
        """Keep the checkpoint before in force; try again when the log has moved on."""
        self._full_at = self._committer.store.position
        event("no room for a checkpoint", level=logging.WARNING, position=self._full_at)

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
