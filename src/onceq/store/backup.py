"""Backups: a store as of one position of its log, in another directory, with a manifest.

A backup has the files of a store under their names, so ``check`` reads it like a store; but the log
ends at the cut, and everything behind that is zeros. It is copied in bounded pieces while its queue
manager goes on. The manager holds the files meanwhile (``Store.hold``): nothing below a synced
position is ever changed. When all is copied and synced it is read back: each file against the
checksum of what was written, and the whole as a start would read it. Only then the manifest is
written; a directory without one is no backup. A directory with one, or with an unfinished backup,
is no data directory either: no queue manager starts in it.

The format is described in ``docs/reference/formats/backup.md``.

Upholds: I23 (what a backup says is durable is in it, and damage in it is noticed).
"""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from onceq.errors import (
    ConfigurationError,
    DamagedRecord,
    NoSpace,
)
from onceq.model.data_directory import STORE_FILE
from onceq.model.views.managers import Cut
from onceq.store import checkpoints, identification, promises, recovery, scan
from onceq.store.check import check
from onceq.store.files import Files
from onceq.store.identification import MANIFEST, SIGNATURE, UNFINISHED, Closed
from onceq.store.manifest import Entry, Manifest, encode
from onceq.store.pool import Pool
from onceq.store.scan import SEGMENT_HEADER, Loaded

PIECE_BYTES: Final = 4 << 20
"""Bytes read, written and counted at once."""
ROOM_BYTES: Final = 1 << 20
"""Bytes left over in a target for names, the manifest and the file system itself."""


def cut_of_stopped(files: Files, path: str) -> Cut:
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
    return Cut(path, judged.end, judged.epoch, judged.head.position, segments)


class Backup:
    """A backup being made: call ``step`` until it says that all is copied, then ``finish``."""

    def __init__(
        self, files: Files, cut: Cut, target: str, *, beside: tuple[str, ...] = ()
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
        closed = Closed(cut.position, cut.epoch)
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
        promise = promises.Promise(cut.position, base, size, cut.checkpoint)
        promises.write_promised(files, target, store_id, promise)
        kept = [(base, end) for base, end, _ in here if end <= cut.checkpoint]
        promises.write_kept(files, target, store_id, cut.checkpoint, kept)


@dataclass(frozen=True, slots=True)
class Part:
    """A file to be copied: its first ``bytes``, and zeros up to its ``size``."""

    name: str
    bytes: int
    size: int


def _parts(files: Files, cut: Cut, beside: tuple[str, ...]) -> Iterator[Part]:
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
                for zeros in _zeros(part.size - at):
                    seen(zeros)
            files.sync(new)
        finally:
            files.close(new)
    finally:
        files.close(old)


def _zeros(count: int) -> Iterator[bytes]:
    piece = bytes(min(count, PIECE_BYTES))
    while count:
        yield piece[:count]
        count -= min(count, len(piece))


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
