"""The rights of a directory, in a file beside it: ``FILE.rights``.

It is JSON, made to be read and, with care, changed by people; format in
``docs/reference/formats/directory-rights.md``. It is written like the directory's own file, under
the same lock. It is a file of its own, because older versions refuse a directory with unknown
content.

An account that can change it grants rights at every queue manager that reads it. So a file that
everybody on the computer can change is not read.

Also here:

* Files that several processes read and change: never in place, one writer at a time.

Upholds: I24 (a file has a limit, and so has each part of it), I28.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from onceq.directory.contract import SeenRights
from onceq.errors import DirectoryError, OnceqError
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.limits import SHARED_GRANTS_MAX, SHARED_RIGHTS_BYTES_MAX, SHARED_RIGHTS_NUMBER_MAX
from onceq.model.patterns import ActorPattern, QueuePattern
from onceq.model.rights import (
    NO_RIGHTS,
    Grant,
    Regrant,
    SharedRights,
    grant_of,
    regranted,
    words_of,
)

# ---- replacing -----------------------------------------------------------------------------------


MODE = 0o664
"""Mode of a file, less the umask of the process: several accounts may share it by a group."""


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock for changing the files of this name; raises OSError.

    A writer holds the lock, reads the file, writes all of it under another name, makes that durable
    and renames it. So a reader sees the old file or the new one, and a crash in between leaves the
    old one.
    """
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


# ---- rights file ---------------------------------------------------------------------------------


FORMAT = 1
SUFFIX = ".rights"


class _Grant(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    who: str
    rights: list[str]
    queues: str = ""


class _RightsContent(msgspec.Struct, forbid_unknown_fields=True):
    onceq_rights: int
    id: str
    number: int
    grants: list[_Grant] = []


_decoder = msgspec.json.Decoder(_RightsContent)


class RightsFile:
    """The rights beside one directory, as one queue manager uses them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.path = directory + SUFFIX
        self._stamp: tuple[int, ...] | None = None
        self._seen: SeenRights | None = None

    def read_changes(self) -> SeenRights:
        """Return its current content; the same object as before where nothing has changed."""
        try:
            found = os.stat(self.path)
            modes = self._modes()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino, *modes)
            if stamp == self._stamp and self._seen is not None:
                return self._seen
            self._stamp = stamp
            return self._says(SeenRights(self._read(modes)))
        except FileNotFoundError:
            self._stamp = None
            return self._says(SeenRights(None))
        except OSError as error:
            self._stamp = None
            return self._says(SeenRights(None, f"{self.path}: {why(error)}"))
        except OnceqError as error:
            return self._says(SeenRights(None, error.text))

    def _says(self, seen: SeenRights) -> SeenRights:
        if seen != self._seen:
            self._seen = seen
        assert self._seen is not None
        return self._seen

    def change(self, change: Regrant) -> None:
        """Grant or revoke rights in it.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """
        try:
            with locked(self._directory):
                # Where the disk is away there is a folder with nothing in it: no place to begin.
                os.stat(self._directory)
                now = self._now()
                after = regranted(now, change)
                if after is not now:
                    replace(self.path, dump(after))
        except OSError as error:
            raise DirectoryError(
                f"the rights in the directory, {self.path}, cannot be changed: {why(error)}"
            ) from None

    def _modes(self) -> tuple[int, ...]:
        return os.stat(self.path).st_mode, os.stat(os.path.dirname(self.path)).st_mode

    def _now(self) -> SharedRights:
        try:
            return self._read(self._modes())
        except FileNotFoundError:
            return NO_RIGHTS

    def _read(self, modes: tuple[int, ...]) -> SharedRights:
        if any(mode & stat.S_IWOTH for mode in modes):
            raise DirectoryError(
                f"{self.path}, or its folder, can be changed by everybody on this computer: take "
                "that right away (chmod o-w), and look whether it says what it should"
            )
        return parse(read(self.path, SHARED_RIGHTS_BYTES_MAX), self.path)


def dump(book: SharedRights) -> bytes:
    """Return a book as the bytes of a file."""
    grants = [_Grant(str(one.who), words_of(one.rights), str(one.pattern)) for one in book.grants]
    raw = msgspec.json.encode(_RightsContent(FORMAT, guid_text(book.id), book.number, grants))
    return msgspec.json.format(raw, indent=2) + b"\n"


def parse(raw: bytes, where: str = "the file of rights") -> SharedRights:
    """Parse the bytes of a file; every grant is checked. Grants that a book may not give are kept.

    Raises:
        DirectoryError: They are not one; the text names the grant.
    """
    try:
        found = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DirectoryError(f"{where} is not a file of rights of onceq: {error}") from None
    if found.onceq_rights != FORMAT:
        raise DirectoryError(
            f"{where} has format {found.onceq_rights}; this onceq reads format {FORMAT}"
        )
    if not 0 < found.number <= SHARED_RIGHTS_NUMBER_MAX:
        raise DirectoryError(f"{where}: its number is not between 1 and 2^53 - 1")
    if len(found.grants) > SHARED_GRANTS_MAX:
        raise DirectoryError(f"{where} has more than {SHARED_GRANTS_MAX:,} grants")
    grants: dict[tuple[ActorPattern, QueuePattern], Grant] = {}
    for at, entry in enumerate(found.grants):
        one: Grant = _each(
            f"{where}: grants[{at}]", grant_of, entry.who, entry.rights, entry.queues
        )
        if (one.who, one.pattern) in grants:
            raise DirectoryError(
                f"{where}: grants[{at}]: {one.who} at {str(one.pattern) or 'the queue manager'} "
                "stands twice; write it once, with all its rights"
            )
        grants[one.who, one.pattern] = one
    id: bytes = _each(f"{where}: id", guid_bytes, found.id)
    return SharedRights(id, found.number, tuple(grants.values()))


def _each(what: str, make: Any, *values: Any) -> Any:
    try:
        return make(*values)
    except (ValueError, OnceqError) as error:
        raise DirectoryError(f"{what}: {error}") from None
