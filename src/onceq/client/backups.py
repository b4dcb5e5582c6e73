"""Backups of a running queue manager: the copied files, the requests and the answers.

The process that wants the backup copies the files, not the queue manager. So the queue manager
works on undisturbed and writes to no path that somebody else names, and a backup belongs to the
user who made it. The queue manager holds its files meanwhile, as long as it hears that the copy
goes on, and answers at the end whether it has held them all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from onceq.client.address import is_data_directory
from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask, do
from onceq.client.results import BackupReport, Progress
from onceq.errors import UnsupportedOperation
from onceq.file_access import CONFIGURATION_FILE
from onceq.model import requests
from onceq.model.identity import Identity, guid_text
from onceq.model.views.managers import BackupHold
from onceq.version import __version__

if TYPE_CHECKING:
    from onceq.store.backup import Backup
    from onceq.tls.signing import Signer

KEEP_SHARE = 10
"""How much more often the queue manager is told than it asks for."""


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
        *, configuration: bool = True, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Begin.

        Args:
            held: What the queue manager has answered.
            configuration: Whether ``onceq.toml`` is copied, too.

        Raises:
            ConfigurationError: The directory cannot be used.
            NoSpace: There is no room.
            UnsupportedOperation: Its data directory cannot be seen from here.
            AccessDenied: The private key of its identity cannot be read.
        """
        from onceq.store.backup import Backup
        from onceq.store.files import RealFiles
        from onceq.store.identification import read_identification
        from onceq.tls.signing import signer_of

        self._name, self._id = session.name, guid_text(session.source)
        self._now_s = session.now_s()
        self._progress = progress
        self._clock = clock
        self._wait_s = held.keep_s / KEEP_SHARE
        self._asked = clock()
        files = RealFiles()
        path_there = held.cut.path
        known = is_data_directory(path_there)
        who = read_identification(files, path_there).identity if known else b""
        if not who or guid_text(Identity.unpack(who).guid) != self._id:
            raise UnsupportedOperation(
                f"the data directory {path_there} cannot be read from here, and a backup is copied "
                "out of it; make it where the queue manager runs"
            )
        self._signer = signer_of(path_there)
        beside = (CONFIGURATION_FILE,) if configuration else ()
        self._backup = Backup(files, held.cut, path, beside=beside)

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
        return finish(self._backup, self._signer, name=self._name, id=self._id, taken_s=self._now_s)


def finish(
    backup: Backup, signer: Signer | None, *, name: str, id: str, taken_s: int
) -> BackupReport:
    """Make a backup of what was copied, and sign it; see ``store.backup.Backup.finish``."""
    made = backup.finish(
        manager=name, id=id, taken_s=taken_s, made_by=__version__,
        sign=signer.sign if signer else None,
    )  # fmt: skip
    return BackupReport(
        backup.target, name, id, made.position, taken_s, len(made.files), made.bytes,
        signer.fingerprint if signer else "",
    )  # fmt: skip
