"""A hold on the files of the log, for a backup that a client process copies.

The client asks for it, renews it regularly, and ends it when everything is copied. It writes its
manifest only if all of those requests were answered. The hold ends by itself when its connection is
gone, when it was not renewed for BACKUP_HOLD_S, and when the disk is nearly full: a backup must not
be the reason to refuse messages. It does not survive this process: the client then hears that its
backup is over.

Upholds: I24 (a lost backup keeps segments for a bounded time only).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from onceq.core.decision import Hold
from onceq.errors import BackupOver, InsufficientResources, OnceqError, StorageReserve
from onceq.model.limits import BACKUP_HOLD_S
from onceq.model.marks import SECOND_US, Now
from onceq.model.requests import Grip
from onceq.model.views.managers import BackupHold
from onceq.service.clock import Due, at
from onceq.service.committer import Committer
from onceq.service.logs import event


class Holding:
    """At most one hold."""

    def __init__(self, committer: Committer, reclaim: Callable[[], None]) -> None:
        self._committer, self._reclaim = committer, reclaim
        self._owner = 0
        self._number = 0
        self._until_us = 0
        """When (monotonic us) it ends by itself; 0 if nothing is held."""
        self._low = False
        self._over = "it is not known to this queue manager, which may have been started since"
        """Why the last one is over."""

    def perform(self, action: Hold) -> None:
        """Perform a request about the hold, and answer."""
        try:
            result: object = None
            if action.grip == Grip.BEGIN.value:
                result = self._begin(action)
            else:
                self._go_on(action)
        except OnceqError as error:
            if error.exit_code == 7:  # a disk that fails is everybody's matter
                raise
            result = error
        self._committer.answer(action.owner, action.request, result)

    def _begin(self, action: Hold) -> BackupHold:
        if self._until_us:
            raise InsufficientResources(
                "a backup of this queue manager is being made; wait until it has ended"
            )
        if self._low:
            raise StorageReserve(
                "the disk is nearly full, and a backup would keep the log from being given back; "
                "free some space first"
            )
        cut = self._committer.store.hold()
        self._owner = action.owner
        self._number += 1
        self._hold_on()
        event("backup begun", position=cut.position)
        return BackupHold(self._number, cut, BACKUP_HOLD_S)

    def _hold_on(self) -> None:
        self._until_us = self._committer.clock.read().mono_us + int(BACKUP_HOLD_S * SECOND_US)
        self._committer.due.by(self._until_us)

    def _go_on(self, action: Hold) -> None:
        mine = (action.owner, action.number) == (self._owner, self._number)
        if not (self._until_us and mine):
            raise BackupOver(f"the backup cannot be finished: {self._over}")
        if action.grip == Grip.KEEP.value:
            self._hold_on()
        else:
            self._let_go("it was ended")

    def _let_go(self, why: str, level: int = logging.INFO) -> None:
        self._until_us = 0
        self._over = why
        self._committer.store.release()
        self._reclaim()
        event("backup let go", level=level, reason=why)

    # ---- how it ends otherwise ----------------------------------------------------------------

    def gone(self, owner: int) -> None:
        """End the hold of an application that is gone."""
        if self._until_us and owner == self._owner:
            # Not here: this may be called outside of a pump, where segments must not be given back.
            self._until_us = 1  # with the next pump, which has the engine to itself
            self._committer.due.by(self._until_us)
            self._over = "its connection was lost"

    def look(self, now: Now, *, low: bool) -> None:
        """End a hold that lasts too long, or is on a disk that is nearly full."""
        self._low = low
        if not self._until_us:
            return
        if low:
            self._let_go("the disk got nearly full meanwhile", logging.WARNING)
        elif self._until_us <= now.mono_us:
            lost = self._until_us == 1
            why = self._over if lost else f"nothing was heard of it for {BACKUP_HOLD_S:.0f} s"
            self._let_go(why, logging.WARNING)

    def due(self) -> Due:
        """Return when it ends by itself."""
        return at(self._until_us or None)
