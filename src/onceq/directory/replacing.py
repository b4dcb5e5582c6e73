"""Files that several processes read and change: never in place, one writer at a time.

A writer holds the lock, reads the file, writes all of it under another name, makes that durable and
renames it. So a reader sees the old file or the new one, and a crash in between leaves the old one.

Upholds: I24 (a file has a limit).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from onceq.errors import DirectoryError

MODE = 0o664
"""Mode of a file, less the umask of the process: several accounts may share it by a group."""


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock for changing the files of this name; raises OSError."""
    file = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def read(path: str, bytes_max: int) -> bytes:
    """Return all of a file; raises OSError, or DirectoryError if it is too long."""
    with open(path, "rb") as file:
        raw = file.read(bytes_max + 1)
    if len(raw) > bytes_max:
        raise DirectoryError(f"{path} has more than {bytes_max >> 20} MiB")
    return raw


def replace(path: str, raw: bytes) -> None:
    """Replace a file whole, or leave the old one; raises OSError."""
    fresh = path + ".new"
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A file that a crash has left may be another account's.
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(fresh, flags, MODE), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        os.fsync(folder)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise
    finally:
        os.close(folder)


def why(error: OSError) -> str:
    """Return the system's description of an error, for the end of a sentence."""
    return os.strerror(error.errno or 0).lower()
