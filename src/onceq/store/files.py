"""The door to the file system: the only module that opens, writes, syncs, renames or removes.

Everything else gets a ``Files``; tests hand in one that lies about the disk the way real disks do
(``onceq.testing.disk``). Errors of the operating system leave here as errors of onceq.

Also here:

* File descriptors that the store never loses to other users of the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from onceq.errors import DamagedRecord, NoSpace, StorageFailure, StoreLocked, SyncFailed
from onceq.file_access import there
from onceq.model.limits import SPARE_DESCRIPTORS
from onceq.model.run import Buffer

# ---- spares --------------------------------------------------------------------------------------


T = TypeVar("T")
SHORT: Final = frozenset((errno.EMFILE, errno.ENFILE))
"""The system's errors when there are no descriptors left."""


class Spares:
    """Descriptors held ready; any thread may ask.

    A process may have only a limited number of files open. Connections are counted
    (``service/admission.py``), but a queue manager inside an application shares its process with
    all files that the application opens. So a few descriptors are held ready: if there is none left
    when the store needs one, a spare is given up for it, and taken back as soon as there is room.
    On a working disk the store never fails because others have opened too much.
    """

    def __init__(self, wanted: int = SPARE_DESCRIPTORS) -> None:
        self._wanted = wanted
        self._held: list[int] = []
        self._given = False
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._held)

    def refill(self) -> bool:
        """Hold the wanted number again; return False if the system has none to give."""
        with self._lock, contextlib.suppress(OSError):
            while len(self._held) < self._wanted:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            self._given = False
        return not self._given

    def call_when_short(self, listener: Callable[[], None]) -> None:
        """Register a listener, which is called, in any thread, each time that a spare was given
        up."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        with contextlib.suppress(ValueError):
            self._listeners.remove(listener)

    def use(self, work: Callable[[], T]) -> T:
        """Run work that needs a descriptor; a spare is given up for it if there is no other."""
        while True:
            try:
                done = work()
            except OSError as error:
                if error.errno not in SHORT or not self._give_up():
                    raise
            else:
                if self._given:
                    self.refill()
                return done

    def _give_up(self) -> bool:
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            self._given = True
        for listener in list(self._listeners):
            listener()
        return True


SPARES: Final = Spares()
"""The spares of this process, for all its queue managers. The first that starts takes them."""


# ---- files ---------------------------------------------------------------------------------------


IOV_MAX = 1_000
"""Pieces of one write; the kernel takes 1,024."""


class Files(Protocol):
    """The file system, as far as the store needs it. Paths are text; files are numbers."""

    def open(
        self, path: str, *, create: bool = False, reading: bool = False, plain: bool = False
    ) -> int:
        """Open a file for reading and writing, or (``reading``) only for reading.

        Args:
            create: Make a new one, which must not exist.
            plain: Refuse anything but a regular file, also a link to one: others may have put it
                there. Raises DamagedRecord then.
        """

    def close(self, file: int) -> None:
        """Close a file."""

    def size(self, file: int) -> int:
        """Return the bytes in a file."""

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer at the end."""

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """Write all pieces one after another from ``offset`` on."""

    def allocate(self, file: int, size: int) -> None:
        """Give a new file its size and its room on the disk: zeros are read from it, and no
        later write into it finds the disk full."""

    def sync(self, file: int) -> None:
        """Wait until the contents written so far are on the disk."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""

    def unlink(self, path: str) -> None:
        """Remove a file."""

    def sync_directory(self, path: str) -> None:
        """Wait until names made, changed and removed in a directory are on the disk."""

    def make_directory(self, path: str) -> None:
        """Make a directory for its owner only, if it is not there; it is durable afterwards."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none."""

    def exists(self, path: str) -> bool:
        """Return True if there is such a file or directory."""

    def lock(self, path: str) -> int:
        """Hold a lock file until ``close``; raises StoreLocked, which names the holder."""

    def changed_ns(self, path: str) -> int:
        """Return when a file or its attributes were changed last, in nanoseconds. Any copy of it
        has another time, because nobody can set this one."""

    def free_bytes(self, path: str) -> int:
        """Return the space left on the disk that holds a directory."""


class RealFiles:
    """The file system of the operating system."""

    def open(
        self, path: str, *, create: bool = False, reading: bool = False, plain: bool = False
    ) -> int:
        """Open a file."""
        flags = (os.O_RDONLY if reading else os.O_RDWR) | os.O_CLOEXEC
        flags |= os.O_CREAT | os.O_EXCL if create else 0
        # Without waiting: a pipe has no other end until another process opens it.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK if plain else 0
        with _telling(f"opening {path}"):
            try:
                file = SPARES.use(lambda: os.open(path, flags, 0o600))
            except OSError as error:
                if plain and error.errno in (errno.ELOOP, errno.ENXIO):
                    raise _no_file(path) from None
                raise
        if plain and not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _no_file(path)
        return file

    def close(self, file: int) -> None:
        """Close a file."""
        with _telling("closing a file"):
            os.close(file)

    def size(self, file: int) -> int:
        """Return the bytes in a file."""
        with _telling("asking for the size of a file"):
            return os.fstat(file).st_size

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        try:
            # One call gives 2 GiB at most, and a signal may cut it short.
            data = os.pread(file, size, offset)
            if len(data) in (0, size):
                return data
            parts, got = [data], len(data)
            while got < size and (data := os.pread(file, size - got, offset + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            raise _failure(error, "reading") from error

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """Write all pieces."""
        try:
            if len(pieces) <= IOV_MAX and os.pwritev(file, pieces, offset) == sum(map(len, pieces)):
                return
            # Cut short or in many pieces: from the beginning, the same bytes to the same places.
            for start in range(0, len(pieces), IOV_MAX):
                part = pieces[start : start + IOV_MAX]
                size = sum(map(len, part))
                done = os.pwritev(file, part, offset)
                if done < size:
                    _write_rest(file, offset + done, memoryview(b"".join(part))[done:])
                offset += size
        except OSError as error:
            raise _failure(error, "writing") from error

    def allocate(self, file: int, size: int) -> None:
        """Give a new file its size and its room."""
        # Where a file system cannot do it, the C library writes a byte to each of its blocks.
        with _telling("taking room on the disk"):
            os.posix_fallocate(file, 0, size)

    def sync(self, file: int) -> None:
        """Wait until the contents are on the disk."""
        try:
            # The size of a file that has grown is written by this as well; times are not, and
            # nobody needs them.
            os.fdatasync(file)
        except OSError as error:
            raise _sync_failure(error, "a sync") from error

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing the one with that name."""
        with _telling(f"renaming {old}"):
            os.rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        with _telling(f"removing {path}"):
            os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Wait until the names are on the disk."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with _telling(f"opening {path}"):
            directory = SPARES.use(lambda: os.open(path, flags))
        try:
            os.fsync(directory)
        except OSError as error:
            raise _sync_failure(error, f"a sync of the directory {path}") from error
        finally:
            os.close(directory)

    def make_directory(self, path: str) -> None:
        """Make a directory for its owner only; it is durable afterwards."""
        path = os.path.abspath(path)
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        self.make_directory(parent)
        with _telling(f"making {path}"), contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        # Else a power cut could take the directory away with all that was synced in it.
        self.sync_directory(parent)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        with _telling(f"removing {path}"):
            os.rmdir(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        with _telling(f"listing {path}"):
            try:
                return sorted(SPARES.use(lambda: os.listdir(path)))
            except FileNotFoundError:
                return []

    def exists(self, path: str) -> bool:
        """Return True if there is such a file or directory."""
        return there(path)

    def lock(self, path: str) -> int:
        """Hold a lock file until ``close``; raises StoreLocked."""
        return hold(
            path,
            f"runs the queue manager in {os.path.dirname(path)}; stop it first, or connect to it "
            "instead of opening its directory",
        )

    def changed_ns(self, path: str) -> int:
        """Return when a file or its attributes were changed last."""
        with _telling(f"looking at {path}"):
            return os.stat(path).st_ctime_ns

    def free_bytes(self, path: str) -> int:
        """Return the space left on the disk."""
        with _telling(f"asking for the space left in {path}"):
            found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


def hold(path: str, doing: str) -> int:
    """Hold a lock file until its descriptor is closed, or the process ends for any reason.

    Args:
        doing: What its holder does, and what to do about it, for the text behind "process N".

    Raises:
        StoreLocked: Another process holds it.
    """
    with _telling(f"opening {path}"):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with _telling(f"locking {path}"):
            try:
                # Not a lock of `fcntl`: that would let a second one of the same process in, and
                # fall when any descriptor of the file is closed. The file is never removed: a lock
                # on a removed file excludes nobody.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(file, 32, 0).split(b"\n")[0].decode(errors="replace")
                raise StoreLocked(f"process {holder or 'unknown'} {doing}") from error
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _write_rest(file: int, offset: int, rest: memoryview) -> None:
    """Write the rest of an interrupted write: after a signal, or more than the kernel takes at
    once."""
    while rest:
        done = os.pwrite(file, rest, offset)
        offset += done
        rest = rest[done:]


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    """Turn errors of the operating system into errors of onceq that say what was tried."""
    try:
        yield
    except OSError as error:
        raise _failure(error, what) from error


def _no_file(path: str) -> DamagedRecord:
    return DamagedRecord(f"{path} is no regular file (a link, a pipe, a device, a directory)")


def _failure(error: OSError, what: str) -> StorageFailure:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"{what}: the disk is full; free some space and start again")
    return StorageFailure(f"{what} failed: {error.strerror}")


def _sync_failure(error: OSError, what: str) -> StorageFailure:
    """Return the error of a failed sync, for any reason: the data that it should have covered
    may be lost."""
    return SyncFailed(
        f"{what} failed ({error.strerror}); nothing that depends on it was said to anybody; look "
        "at the disk, then start again"
    )
