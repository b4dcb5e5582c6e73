"""Backups of a queue manager that runs: what is copied, what is asked of it, what comes back.

The files are copied by the process that wants the backup, not by the queue manager: so its work
goes on undisturbed, it writes to no path that somebody else names, and a backup belongs to whoever
made it. The queue manager holds its files meanwhile, as long as it is told that somebody is still
at it, and answers at the end whether it has held them all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from onceq.client.plans.plan import Plan, ask, do
from onceq.client.reports import BackupReport, Progress
from onceq.client.session import Session
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.views.managers import BackupHold

KEEP_SHARE = 10
"""The queue manager is told so many times more often than it wants to be."""


def begin() -> Plan[BackupHold]:
    """Ask a queue manager to hold its files."""
    return ask(requests.HoldLog(requests.Grip.BEGIN), BackupHold)


def hold(verb: str, number: int) -> Plan[None]:
    """Say that somebody is still at it (keep), or let go (end)."""
    return do(requests.HoldLog(requests.Grip(verb), number))


class Making:
    """A backup on its way: ``step`` until it is False, with ``keep`` asked when it is ``due``."""

    def __init__(
        self, path: str, held: BackupHold, session: Session, progress: Progress | None,
        *, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Begin.

        Args:
            held: What the queue manager has answered.

        Raises:
            ConfigurationError: The directory cannot be used.
            NoSpace: There is no room.
            UnsupportedOperation: Its data directory cannot be seen from here.
        """
        from onceq.client import offline

        self._name, self._id = session.name, guid_text(session.source)
        self._now_s = session.now_s()
        self._progress = progress
        self._clock = clock
        self._wait_s = held.keep_s / KEEP_SHARE
        self._asked = clock()
        self._backup = offline.backup_of_cut(path, held.cut, self._id)

    @property
    def due(self) -> bool:
        """Whether the queue manager is to be told that this goes on."""
        if self._clock() - self._asked < self._wait_s:
            return False
        self._asked = self._clock()
        return True

    def step(self) -> bool:
        """Copy a piece; False when everything is copied."""
        more = self._backup.step()
        if self._progress is not None:
            self._progress(self._backup.done, self._backup.bytes)
        return more

    def finish(self) -> BackupReport:
        """Read it back, and make it a backup."""
        from onceq.client import offline

        return offline.finish_backup(
            self._backup, name=self._name, id=self._id, taken_s=self._now_s
        )
