"""Restore a backup: a store is built beside the existing one, and takes its place in one step.

Everything is copied and compared with the manifest in a directory of its own inside the target.
Nothing of a backup is trusted but the contents of files that a store has: marks beside that
directory, which no backup can bring, show how far a restore has come. Only when the new store is
whole the old one, if there is one, moves aside, and the new one moves up: ``STORE``, without which
no queue manager starts, last of all. Nothing is ever deleted but copies of a backup. If a restore
was interrupted while the old store moved aside, the next one undoes it; if it was interrupted
later, it is begun again.

Upholds: I22, I23 (a crash leaves the store that was there, or the new one, or none that starts).
"""

from __future__ import annotations

import contextlib
import hashlib
import os.path
import re
from collections.abc import Iterator
from dataclasses import replace as with_other
from typing import Final

from onceq.errors import ConfigurationError, DamagedRecord, StorageFailure, StoreExists
from onceq.model.data_directory import ATTEMPT_KEY_FILE, CONFIGURATION_FILE, STORE_FILE
from onceq.store import identification
from onceq.store.backup import Part, check_room, copy_file, write_file
from onceq.store.files import Files
from onceq.store.identification import RESTORING, is_backup
from onceq.store.log import LOCK_FILE
from onceq.store.manifest import STORE_PART, Manifest, read_file

ASIDE: Final = RESTORING + ".aside"
"""In the target: the old store moves to the directory that this file names."""
MOVING: Final = RESTORING + ".moving"
"""The old store is out of the way: the store in the target is the new one."""

_PART = re.compile(
    rf"(?:{STORE_PART}|ready-[0-9]{{1,18}}\.seg|{re.escape(ATTEMPT_KEY_FILE)})(?:\.new)?"
)
# Attempts at batches end with the life that is undone, so their key goes with its store.
_REPLACED = re.compile(r"replaced[0-9A-Za-z-]{0,64}")
"""Names of directories that an old store moves to."""


def parts_of_store(files: Files, path: str) -> list[str]:
    """Return the names of the files of a store in a directory, ``STORE`` first."""
    found = [name for name in files.names(path) if _PART.fullmatch(name)]
    return sorted(found, key=lambda name: (name != STORE_FILE, name))


def check_target(files: Files, path: str, backup: str, *, replace: bool) -> None:
    """Check that a backup could be restored to a directory; changes nothing.

    Raises:
        ConfigurationError: The directory is a backup itself, or lies in one.
        StoreExists: There is a store, and it may not be replaced.
    """
    path = os.path.abspath(path)
    inside = (path + os.sep).startswith(os.path.abspath(backup) + os.sep)
    if inside or is_backup(files, path):
        raise ConfigurationError(
            f"{path} is a backup, or lies in one; choose the directory where the queue manager "
            "shall live"
        )
    if not replace and files.exists(os.path.join(path, STORE_FILE)):
        raise StoreExists(
            f"{path} holds a queue manager; restore to another directory, or say that it is to be "
            "replaced (its files are kept aside)"
        )


class Target:
    """The target directory of a restore, locked for as long as this is open."""

    def __init__(self, files: Files, path: str, backup: str) -> None:
        """Lock it, and undo what an interrupted restore has left.

        Raises:
            StoreLocked: A queue manager runs there.
            ConfigurationError: It is a backup itself, or lies in one.
        """
        check_target(files, path, backup, replace=True)
        self._files = files
        self._backup = backup
        self.path = os.path.abspath(path)
        self.staging = os.path.join(self.path, RESTORING)
        files.make_directory(self.path)
        self._lock = files.lock(os.path.join(self.path, LOCK_FILE))
        try:
            self._undo()
        except BaseException:
            files.close(self._lock)
            raise

    def close(self) -> None:
        """Unlock the directory; files that were not installed are removed, as far as the disk
        lets us."""
        with contextlib.suppress(StorageFailure):
            self._undo()
        self._files.close(self._lock)

    def check(self, *, replace: bool) -> None:
        """Raise StoreExists if there is a store, or a part of one, that may not be replaced."""
        check_target(self._files, self.path, self._backup, replace=replace)
        if not replace and parts_of_store(self._files, self.path):
            raise StoreExists(
                f"{self.path} holds parts of a store; restore to another directory, or say that "
                "they are to be replaced (they are kept aside)"
            )

    def _undo(self) -> None:
        files = self._files
        places = (self.staging, self._mark(ASIDE), self._mark(MOVING))
        if not any(files.exists(place) for place in places):
            return
        if not files.exists(os.path.join(self.path, STORE_FILE)):
            if files.exists(self._mark(MOVING)):
                for name in parts_of_store(files, self.path):
                    files.unlink(os.path.join(self.path, name))
                # Before the marks go: without them this would be a foreign store.
                files.sync_directory(self.path)
            elif parts_of_store(files, aside := self._aside()):
                *names, last = reversed(parts_of_store(files, aside))
                self._move(names, aside, self.path)
                self._move([last], aside, self.path)
        self._clear()

    def _mark(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _aside(self) -> str:
        """Return where the old store was moving; a missing directory if it was not."""
        mark = self._mark(ASIDE)
        if not self._files.exists(mark):
            return mark
        name = read_file(self._files, mark).decode(errors="replace")
        if not _REPLACED.fullmatch(name):
            raise DamagedRecord(
                f"{mark} names no directory that a restore makes: move the old store back by hand "
                "(STORE last), and remove this file"
            )
        return os.path.join(self.path, name)

    def _clear(self) -> None:
        """Remove what a restore leaves. The marks go first, and durably: the rest is then a
        directory of copies, independent of the store."""
        files = self._files
        names = (ASIDE, MOVING, ASIDE + ".new", MOVING + ".new")
        marks = [name for name in names if files.exists(self._mark(name))]
        for mark in marks:
            files.unlink(self._mark(mark))
        if marks:
            files.sync_directory(self.path)
        if not files.exists(self.staging):
            return
        for name in files.names(self.staging):
            files.unlink(os.path.join(self.staging, name))
        files.sync_directory(self.staging)
        files.remove_directory(self.staging)
        files.sync_directory(self.path)

    def stage(
        self, backup: str, manifest: Manifest, *, without: tuple[str, ...] = ()
    ) -> Iterator[int]:
        """Copy a backup into the directory of the restore; yield the bytes of each piece.

        Args:
            without: Names of files that are not wanted.

        Raises:
            DamagedRecord: A file is not what the manifest says.
            NoSpace: There is no room.
        """
        files = self._files
        files.make_directory(self.staging)
        check_room(files, self.staging, manifest.bytes)
        for entry in manifest.files:
            if entry.name in without:
                continue
            source = os.path.join(backup, entry.name)
            if not files.exists(source):
                raise DamagedRecord(f"{source} is missing from the backup; use another backup")
            digest = hashlib.sha256()
            part = Part(entry.name, entry.bytes, entry.bytes)
            where = os.path.join(self.staging, entry.name)
            yield from copy_file(files, source, where, part, digest.update, plain=True)
            if digest.hexdigest() != entry.sha256:
                raise DamagedRecord(
                    f"{source} is damaged: its contents are not those of the backup; use another "
                    "backup"
                )
        files.sync_directory(self.staging)

    def rename(self, identity: bytes) -> None:
        """Give the staged store another identity."""
        who = identification.read_identification(self._files, self.staging)
        other = with_other(who, identity=identity)
        identification.write_identification(self._files, self.staging, other)

    def install(self, aside: str) -> str:
        """Move the staged store to its place.

        Args:
            aside: Name of a new directory in the target, for the store that is there.

        Returns:
            The path of that directory; "" if there was no store.
        """
        assert _REPLACED.fullmatch(aside), "a name that an interrupted restore is undone with"
        files = self._files
        old = parts_of_store(files, self.path)
        where = os.path.join(self.path, aside)
        if old:
            files.make_directory(where)
            write_file(files, self.path, ASIDE, aside.encode())
            # STORE, alone and durably: from here on no start takes the rest for a store.
            self._move(old[:1], self.path, where)
            self._move(old[1:], self.path, where)
        write_file(files, self.path, MOVING, b"")
        names = parts_of_store(files, self.staging)
        names += [name for name in (CONFIGURATION_FILE,) if self._staged(name)]
        self._move([name for name in names if name != STORE_FILE], self.staging, self.path)
        self._move([STORE_FILE], self.staging, self.path)
        self._clear()
        return where if old else ""

    def _staged(self, name: str) -> bool:
        return self._files.exists(os.path.join(self.staging, name))

    def _move(self, names: list[str], here: str, there: str) -> None:
        """Move files; they are durable there before this returns."""
        for name in names:
            self._files.rename(os.path.join(here, name), os.path.join(there, name))
        # The new names first: synced the other way round, a power cut could leave a file without
        # any name.
        self._files.sync_directory(there)
        self._files.sync_directory(here)
