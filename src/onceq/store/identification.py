"""The small files beside the log: whose store a directory is, and where it was closed in order.

``STORE`` is written under another name, synced and renamed, so it is there whole or not at all; a
directory without it is not a store. ``CLOSED`` is made the same way at every orderly stop. It is a
promise like the ``synced`` of a frame: up to there everything was durable. So it is never removed;
once more was written it merely says less than the log itself.

Upholds: I23: with ``CLOSED`` even the last records before a stop cannot be lost unnoticed.
"""

from __future__ import annotations

import os.path
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onceq.errors import DamagedRecord, NewerFormat, NotAStore
from onceq.model.data_directory import STORE_FILE
from onceq.model.run import Buffer
from onceq.store.files import Files

FORMAT: Final = 4
"""Version of everything in a store directory; an older store is upgraded to this version when it
is opened. ``docs/reference/formats/store.md`` describes each version."""
PROMISES: Final = 2
"""The first format with a promise beside the log."""
FILE_VERSION: Final = 1
"""Version of the note of an orderly stop."""
CLOSED_FILE: Final = "CLOSED"
MANIFEST: Final = "BACKUP.json"
"""The list of a backup's files; written last (``backup.py``)."""
SIGNATURE: Final = "BACKUP.signature"
"""The signature of a backup, if it has one; written before the manifest, which it signs."""
UNFINISHED: Final = "BACKUP.unfinished"
"""Marks a directory in which a backup was begun, until it has its manifest."""
RESTORING: Final = "restoring"
"""Directory in which a restore builds a store before it takes its place (``restoring.py``)."""
STORE_BYTES_MAX: Final = 1 << 16
"""Largest size of the identification, with the caller's content."""

_STORE_MAGIC: Final = b"onceq\0st"
_CLOSED_MAGIC: Final = b"onceq\0cl"
_STORE = struct.Struct("<8sI16sQI")
_CLOSED = struct.Struct("<8sI16sQQ")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Identification:
    """The identity of a store.

    Attributes:
        store_id: 16 bytes that are in no other store, and that nobody outside knows.
        created_s: When it was made, in seconds of the wall clock; 0 if not said.
        identity: What the caller wants to know about it; opaque here.
        version: Format of its directory.
    """

    store_id: bytes
    created_s: int = 0
    identity: bytes = b""
    version: int = FORMAT


@dataclass(frozen=True, slots=True)
class Closed:
    """Where a store was closed in order; ``epoch`` belongs to the process which did so.

    Everything behind ``end`` with an older epoch was cut before that, and is nobody's tail.
    """

    end: int = 0
    epoch: int = 0


NEVER_CLOSED: Final = Closed()


def write_identification(files: Files, path: str, what: Identification) -> None:
    """Write the file that identifies a store; it appears whole or not at all."""
    assert len(what.store_id) == 16, "a store identifier has 16 bytes"
    head = _STORE.pack(
        _STORE_MAGIC, what.version, what.store_id, what.created_s, len(what.identity)
    )
    assert len(head) + len(what.identity) + _CRC.size <= STORE_BYTES_MAX
    head += what.identity
    replace_file(files, path, STORE_FILE, [head, _CRC.pack(zlib.crc32(head))])


def read_identification(files: Files, path: str, *, plain: bool = False) -> Identification:
    """Read whose store a directory is.

    Args:
        plain: As for ``Files.open``.

    Raises:
        NotAStore, NewerFormat, DamagedRecord: It is nobody's, or cannot be understood.
    """
    name = os.path.join(path, STORE_FILE)
    if not files.exists(name):
        if files.exists(os.path.join(path, RESTORING)):
            raise NotAStore(
                f"a restore to {path} was interrupted before it was whole; run 'onceq qm restore' "
                "again"
            )
        raise NotAStore(
            f"{path} is not the directory of a queue manager (it has no file {STORE_FILE}); "
            "'onceq qm init' makes one"
        )
    raw = contents(files, name, plain=plain)
    if len(raw) < _STORE.size + _CRC.size or raw[:8] != _STORE_MAGIC:
        raise NotAStore(f"{name} was not written by onceq")
    _, version, store_id, created_s, size = _STORE.unpack_from(raw)
    if version > FORMAT:
        raise NewerFormat(
            f"{path} has format {version}; this onceq knows up to {FORMAT}: use the newer onceq"
        )
    end = _STORE.size + size
    if raw[end:] != _CRC.pack(zlib.crc32(raw[:end])):
        raise DamagedRecord(f"{name} is damaged; restore it from a backup")
    return Identification(store_id, created_s, raw[_STORE.size : end], version)


def is_backup(files: Files, path: str) -> bool:
    """Return True if a directory holds a backup, or one that was begun."""
    return any(files.exists(os.path.join(path, name)) for name in (MANIFEST, UNFINISHED))


def refuse_backup(files: Files, path: str) -> None:
    """Raise NotAStore if a directory is a backup: a start in it would destroy it."""
    if is_backup(files, path):
        raise NotAStore(
            f"{path} is a backup, and no data directory; 'onceq qm restore' makes a data "
            "directory of it"
        )


def write_closed(files: Files, path: str, store_id: bytes, closed: Closed) -> None:
    """Note that the log was closed in order, and everything before its end is durable."""
    head = _CLOSED.pack(_CLOSED_MAGIC, FILE_VERSION, store_id, closed.end, closed.epoch)
    replace_file(files, path, CLOSED_FILE, [head, _CRC.pack(zlib.crc32(head))])


def read_closed(files: Files, path: str, store_id: bytes) -> Closed:
    """Return where the log was closed in order the last time; 0 if never, or if it is unknown.

    A damaged note is the same as none: the log is then judged by its own records.
    """
    name = os.path.join(path, CLOSED_FILE)
    if not files.exists(name):
        return NEVER_CLOSED
    raw = contents(files, name)
    head = raw[: _CLOSED.size]
    if len(raw) != _CLOSED.size + _CRC.size or raw[_CLOSED.size :] != _CRC.pack(zlib.crc32(head)):
        return NEVER_CLOSED
    magic, version, owner, end, epoch = _CLOSED.unpack(head)
    if magic != _CLOSED_MAGIC or version > FILE_VERSION or owner != store_id:
        return NEVER_CLOSED
    return Closed(end, epoch)


def replace_file(files: Files, path: str, name: str, pieces: Sequence[Buffer]) -> None:
    """Replace the contents of a small file in one step; they are durable when this returns."""
    new = os.path.join(path, name + ".new")
    if files.exists(new):
        files.unlink(new)
    file = files.open(new, create=True)
    try:
        files.write(file, 0, pieces)
        files.sync(file)
    finally:
        files.close(file)
    files.rename(new, os.path.join(path, name))
    files.sync_directory(path)


def contents(files: Files, name: str, most: int = STORE_BYTES_MAX, *, plain: bool = False) -> bytes:
    """Return the contents of a small file; ``plain`` as for ``Files.open``."""
    file = files.open(name, reading=True, plain=plain)
    try:
        return files.read(file, 0, min(files.size(file), most))
    finally:
        files.close(file)
