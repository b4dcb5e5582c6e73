"""The door to the file system: the only module that opens, writes, syncs, renames or removes.

Everything else gets a ``Files``; tests hand in one that lies about the disk the way real disks do
(``onceq.testing.disk``). Errors of the operating system leave here as errors of onceq.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Protocol

from onceq.errors import NoSpace, StorageFailure, StoreLocked, SyncFailed
from onceq.model.run import Buffer

IOV_MAX = 1_000
"""Pieces of one write; the kernel takes 1,024."""


class Files(Protocol):
    """What the store needs of a file system. Paths are text; files are numbers."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Open a file for reading and writing; ``create`` makes a new one, which must not exist."""

    def close(self, file: int) -> None:
        """Close a file."""

    def size(self, file: int) -> int:
        """Bytes in a file."""

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer at the end."""

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """Write all pieces one after another from ``offset`` on."""

    def sync(self, file: int) -> None:
        """Wait until the contents written so far are on the disk."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""

    def unlink(self, path: str) -> None:
        """Remove a file."""

    def sync_directory(self, path: str) -> None:
        """Wait until names made, changed and removed in a directory are on the disk."""

    def make_directory(self, path: str) -> None:
        """Make a directory for its owner only, if it is not there."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if there is none."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""

    def lock(self, path: str) -> int:
        """Hold a lock file until ``close``; raises StoreLocked."""

    def free_bytes(self, path: str) -> int:
        """Space left on the disk that holds a directory."""


class RealFiles:
    """The file system of the operating system."""

    def open(self, path: str, *, create: bool = False) -> int:
        """See Files."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            return os.open(path, flags, 0o600)
        except OSError as error:
            raise _failure(error, f"opening {path}") from error

    def close(self, file: int) -> None:
        """See Files."""
        os.close(file)

    def size(self, file: int) -> int:
        """See Files."""
        return os.fstat(file).st_size

    def read(self, file: int, offset: int, size: int) -> bytes:
        """See Files."""
        try:
            data = os.pread(file, size, offset)
            while 0 < len(data) < size:
                more = os.pread(file, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise _failure(error, "reading") from error

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """See Files."""
        try:
            for start in range(0, len(pieces), IOV_MAX):
                part = pieces[start : start + IOV_MAX]
                size = sum(map(len, part))
                done = os.pwritev(file, part, offset)
                if done < size:
                    rest = memoryview(b"".join(part))[done:]
                    while rest:
                        done += (more := os.pwrite(file, rest, offset + done))
                        rest = rest[more:]
                offset += size
        except OSError as error:
            raise _failure(error, "writing") from error

    def sync(self, file: int) -> None:
        """See Files."""
        try:
            os.fdatasync(file)
        except OSError as error:
            raise SyncFailed(f"a sync failed ({error.strerror}); nothing after it was said") from (
                error
            )

    def rename(self, old: str, new: str) -> None:
        """See Files."""
        try:
            os.rename(old, new)
        except OSError as error:
            raise _failure(error, f"renaming {old}") from error

    def unlink(self, path: str) -> None:
        """See Files."""
        try:
            os.unlink(path)
        except OSError as error:
            raise _failure(error, f"removing {path}") from error

    def sync_directory(self, path: str) -> None:
        """See Files."""
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise SyncFailed(f"syncing the directory {path} failed ({error.strerror})") from error

    def make_directory(self, path: str) -> None:
        """See Files."""
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise _failure(error, f"making {path}") from error

    def names(self, path: str) -> list[str]:
        """See Files."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure(error, f"listing {path}") from error

    def exists(self, path: str) -> bool:
        """See Files."""
        return os.path.exists(path)

    def lock(self, path: str) -> int:
        """See Files."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _failure(error, f"opening {path}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(file, 32, 0).split(b"\n")[0].decode(errors="replace") or "unknown"
            os.close(file)
            raise StoreLocked(
                f"process {holder} runs the queue manager in {os.path.dirname(path)}; stop it "
                "first, or connect to it instead of opening its directory"
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return file

    def free_bytes(self, path: str) -> int:
        """See Files."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


def _failure(error: OSError, what: str) -> StorageFailure:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"{what}: the disk is full; free some space and start again")
    return StorageFailure(f"{what} failed: {error.strerror}")
