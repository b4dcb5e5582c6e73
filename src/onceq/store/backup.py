"""Backups: a store as of one position of its log, in another directory, with a manifest.

A backup has the files of a store under their names, so ``check`` reads it like a store; but the log
ends at the cut, and everything behind that is zeros. It is copied in bounded pieces while its queue
manager goes on. The manager holds the files meanwhile (``Store.hold``): nothing below a synced
position is ever changed. When all is copied and synced it is read back: each file against the
checksum of what was written, and the whole as a start would read it. Only then the manifest is
written; a directory without one is no backup. A directory with one, or with an unfinished backup,
is no data directory either: no queue manager starts in it.

The format is described in ``docs/reference/formats/backup.md``.

Also here:

* Restore a backup: a store is built beside the existing one, and takes its place in one step.

Upholds: I23 (what a backup says is durable is in it, and damage in it is noticed), I22.
"""

from __future__ import annotations

import contextlib
import hashlib
import os.path
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_other
from typing import Final

from onceq.errors import ConfigurationError, DamagedRecord, NoSpace, StorageFailure, StoreExists
from onceq.file_access import ATTEMPT_KEY_FILE, CONFIGURATION_FILE, STORE_FILE
from onceq.model.views.managers import StoreCut
from onceq.store import checkpoints, identification, promises, recovery, scan
from onceq.store.files import Files
from onceq.store.identification import (
    MANIFEST,
    RESTORING,
    SIGNATURE,
    STORE_PART,
    UNFINISHED,
    Entry,
    Manifest,
    OrderlyClose,
    encode,
    is_backup,
    read_file,
)
from onceq.store.log import LOCK_FILE
from onceq.store.pool import Pool
from onceq.store.recovery import check
from onceq.store.scan import SEGMENT_HEADER, Loaded

# ---- backup --------------------------------------------------------------------------------------


PIECE_BYTES: Final = 4 << 20
"""Bytes read, written and counted at once."""
ROOM_BYTES: Final = 1 << 20
"""Bytes left over in a target for names, the manifest and the file system itself."""


def cut_of_stopped(files: Files, path: str) -> StoreCut:
    """Return the cut of a store that nobody runs (the caller holds its lock); changes nothing.

    Raises:
        NotAStore, NewerFormat, DamagedRecord: It cannot be used.
    """
    loaded = Loaded()
    try:
        judged = recovery.judge(files, path, Pool(files, path, 0), loaded)
    finally:
        for segment in loaded.segments:
            files.close(segment.file)
    segments = tuple((s.base, s.end, s.size) for s in loaded.segments)
    return StoreCut(path, judged.end, judged.epoch, judged.head.position, segments)


class Backup:
    """A backup being made: call ``step`` until it says that all is copied, then ``finish``."""

    def __init__(
        self, files: Files, cut: StoreCut, target: str, *, beside: tuple[str, ...] = ()
    ) -> None:
        """Check that a backup is possible; nothing is written yet.

        Args:
            beside: Names of further files of the directory, which are copied if they are there.

        Raises:
            ConfigurationError: The target is not empty, or lies in the store's own directory.
            NoSpace: There is no room for it.
        """
        self._files = files
        self._cut = cut
        self.target = os.path.abspath(target)
        self._entries: list[Entry] = []
        self.done = 0
        """Bytes copied."""
        if (self.target + os.sep).startswith(os.path.abspath(cut.path) + os.sep):
            raise ConfigurationError(
                f"{target} lies in the data directory itself; choose a directory elsewhere, best "
                "on another disk"
            )
        check_empty(files, self.target)
        self._parts = list(_parts(files, cut, beside))
        self.bytes = sum(part.bytes for part in self._parts)
        """Bytes to be copied."""
        files.make_directory(self.target)
        check_room(files, self.target, self.bytes)
        self._work = self._copy()

    def step(self) -> bool:
        """Copy a bounded piece; return False when all is copied.

        Raises:
            NoSpace, StorageFailure, DamagedRecord: It cannot go on; the target is no backup.
        """
        copied = next(self._work, None)
        self.done += copied or 0
        return copied is not None

    def _copy(self) -> Iterator[int]:
        write_file(self._files, self.target, UNFINISHED, b"a backup was begun here\n")
        for part in self._parts:
            digest = hashlib.sha256()
            yield from copy_file(
                self._files, os.path.join(self._cut.path, part.name),
                os.path.join(self.target, part.name), part, digest.update,
            )  # fmt: skip
            self._entries.append(Entry(part.name, part.size, digest.hexdigest()))
        self._files.sync_directory(self.target)

    def finish(
        self, *, manager: str, id: str, taken_s: int, made_by: str,
        sign: Callable[[bytes], bytes] | None = None,
    ) -> Manifest:  # fmt: skip
        """Read everything back, and write the manifest.

        Args:
            sign: Signs the manifest; the signature is written beside it.

        Raises:
            DamagedRecord: The bytes read back differ from the copied ones, or the copied store is
                damaged.
            NoSpace, StorageFailure: The target's disk fails.
        """
        files, cut, target = self._files, self._cut, self.target
        who = identification.read_identification(files, target)
        closed = OrderlyClose(cut.position, cut.epoch)
        identification.write_closed(files, target, who.store_id, closed)
        beside = [identification.CLOSED_FILE]
        if who.version >= identification.PROMISES:
            self._promise(who.store_id)
            beside += [promises.PROMISED_FILE, promises.KEPT_FILE]
        self._entries += [_entry(files, target, name) for name in beside]
        manifest = Manifest(
            manager, id, cut.position, taken_s, cut.checkpoint, made_by,
            tuple(sorted(self._entries, key=lambda entry: entry.name)),
        )  # fmt: skip
        verify_files(files, target, manifest)
        verify_store(files, target, cut.position)
        raw = encode(manifest)
        if sign is not None:
            write_file(files, target, SIGNATURE, sign(raw))
        write_file(files, target, MANIFEST, raw)
        # After the manifest: at no moment may this directory pass for neither a backup nor the
        # beginning of one, because then a queue manager could be started in it.
        files.unlink(os.path.join(target, UNFINISHED))
        files.sync_directory(target)
        return manifest

    def _promise(self, store_id: bytes) -> None:
        """Write into the copy how far it goes, and which segments it has."""
        files, cut, target = self._files, self._cut, self.target
        here = [segment for segment in cut.segments if segment[0] < cut.position]
        base, _, size = here[-1] if here else (promises.NO_SEGMENT, 0, 0)
        promise = promises.StorePromise(cut.position, base, size, cut.checkpoint)
        promises.write_promised(files, target, store_id, promise)
        kept = [(base, end) for base, end, _ in here if end <= cut.checkpoint]
        promises.write_kept(files, target, store_id, cut.checkpoint, kept)


@dataclass(frozen=True, slots=True)
class Part:
    """A file to be copied: its first ``bytes``, and zeros up to its ``size``."""

    name: str
    bytes: int
    size: int


def _parts(files: Files, cut: StoreCut, beside: tuple[str, ...]) -> Iterator[Part]:
    state = checkpoints.name_of(cut.checkpoint)
    names = [*beside, STORE_FILE]
    if cut.checkpoint or files.exists(os.path.join(cut.path, state)):
        names.append(state)
    for name in names:
        path = os.path.join(cut.path, name)
        if name not in beside or files.exists(path):
            size = size_of(files, path)
            yield Part(name, size, size)
    for base, end, size in cut.segments:
        if base < cut.position:
            used = SEGMENT_HEADER + min(end, cut.position) - base
            yield Part(scan.segment_name(base), used, size)


def copy_file(
    files: Files, source: str, target: str, part: Part, seen: Callable[[bytes], object],
    *, plain: bool = False,
) -> Iterator[int]:  # fmt: skip
    """Copy a file in pieces, and sync it; yield the bytes of each.

    Args:
        seen: Called with the contents of the file, in order.
        plain: As for ``Files.open``, of the source.
    """
    old = files.open(source, reading=True, plain=plain)
    try:
        new = files.open(target, create=True)
        try:
            at = 0
            while at < part.bytes:
                data = files.read(old, at, min(PIECE_BYTES, part.bytes - at))
                if not data:
                    raise DamagedRecord(
                        f"{source} ends at byte {at}, and should have {part.bytes} at least"
                    )
                files.write(new, at, [data])
                seen(data)
                at += len(data)
                yield len(data)
            if part.size > at:
                # One byte at the end: the bytes between are zeros that take no room.
                files.write(new, part.size - 1, [b"\0"])
                zeros = bytes(min(part.size - at, PIECE_BYTES))
                while at < part.size:
                    seen(zeros[: part.size - at])
                    at += len(zeros)
            files.sync(new)
        finally:
            files.close(new)
    finally:
        files.close(old)


# ---- verifying one -------------------------------------------------------------------------


def verify_files(
    files: Files, path: str, manifest: Manifest, seen: Callable[[int], object] = lambda size: None
) -> None:
    """Compare every file of a backup with its manifest; raises DamagedRecord, which names it.

    Args:
        seen: Called with the bytes that were read, piece by piece.
    """
    for entry in manifest.files:
        name = os.path.join(path, entry.name)
        if not files.exists(name):
            raise DamagedRecord(f"{name} is missing from the backup; use another backup")
        found = _entry(files, path, entry.name, seen)
        if found.bytes != entry.bytes:
            raise DamagedRecord(
                f"{name} has {found.bytes} bytes, and had {entry.bytes} when the backup was made; "
                "use another backup"
            )
        if found.sha256 != entry.sha256:
            raise DamagedRecord(
                f"{name} is damaged: its contents are not those of the backup; use another backup"
            )


def verify_store(files: Files, path: str, position: int) -> None:
    """Check the store in a directory like a start does; raises DamagedRecord."""
    report = check(path, files)
    if report.problem:
        raise DamagedRecord(
            f"what was copied is damaged, maybe where it was copied from: {report.problem}"
        )
    if report.end_position != position:
        raise DamagedRecord(
            f"the log in {path} ends at position {report.end_position}, and should end at "
            f"{position}"
        )


def _entry(
    files: Files, path: str, name: str, seen: Callable[[int], object] = lambda size: None
) -> Entry:
    digest = hashlib.sha256()
    file = files.open(os.path.join(path, name), reading=True, plain=True)
    try:
        size, at = files.size(file), 0
        while at < size:
            data = files.read(file, at, PIECE_BYTES)
            if not data:
                break
            digest.update(data)
            at += len(data)
            seen(len(data))
    finally:
        files.close(file)
    return Entry(name, size, digest.hexdigest())


# ---- directories ---------------------------------------------------------------------------


def check_empty(files: Files, path: str) -> None:
    """Raise ConfigurationError unless a directory is empty, or not there."""
    if files.names(path):
        raise ConfigurationError(f"{path} is not empty; choose a new or an empty directory")


def check_room(files: Files, path: str, wanted: int) -> None:
    """Raise NoSpace if an existing directory has no room for ``wanted`` bytes."""
    free = files.free_bytes(path)
    if free < wanted + ROOM_BYTES:
        raise NoSpace(
            f"{path} has room for {free} bytes, and {wanted} are to be written; free some "
            "space, or choose another disk"
        )


def size_of(files: Files, path: str) -> int:
    """Return the bytes in a file; raises StorageFailure."""
    file = files.open(path, reading=True)
    try:
        return files.size(file)
    finally:
        files.close(file)


def write_file(files: Files, path: str, name: str, contents: bytes) -> None:
    """Write the contents of a small file in one step; it is durable afterwards."""
    new = os.path.join(path, name + ".new")
    if files.exists(new):
        files.unlink(new)
    file = files.open(new, create=True)
    try:
        files.write(file, 0, [contents])
        files.sync(file)
    finally:
        files.close(file)
    files.rename(new, os.path.join(path, name))
    files.sync_directory(path)


# ---- restoring -----------------------------------------------------------------------------------


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
    """Return the names of the files of a store in a directory, ``STORE`` first.

    Everything is copied and compared with the manifest in a directory of its own inside the target.
    Nothing of a backup is trusted but the contents of files that a store has: marks beside that
    directory, which no backup can bring, show how far a restore has come. Only when the new store
    is whole the old one, if there is one, moves aside, and the new one moves up: ``STORE``, without
    which no queue manager starts, last of all. Nothing is ever deleted but copies of a backup. If a
    restore was interrupted while the old store moved aside, the next one undoes it; if it was
    interrupted later, it is begun again.
    """
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


class RestoreTarget:
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
        names += [
            name for name in (CONFIGURATION_FILE,) if files.exists(os.path.join(self.staging, name))
        ]
        self._move([name for name in names if name != STORE_FILE], self.staging, self.path)
        self._move([STORE_FILE], self.staging, self.path)
        self._clear()
        return where if old else ""

    def _move(self, names: list[str], here: str, there: str) -> None:
        """Move files; they are durable there before this returns."""
        for name in names:
            self._files.rename(os.path.join(here, name), os.path.join(there, name))
        # The new names first: synced the other way round, a power cut could leave a file without
        # any name.
        self._files.sync_directory(there)
        self._files.sync_directory(here)
