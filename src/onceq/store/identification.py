"""The small files beside the log: whose store a directory is, and where it was closed in order.

``STORE`` is written under another name, synced and renamed, so it is there whole or not at all; a
directory without it is not a store. ``CLOSED`` is made the same way at every orderly stop. It is a
promise like the ``synced`` of a frame: up to there everything was durable. So it is never removed;
once more was written it merely says less than the log itself.

Also here:

* The manifest of a backup: the list of its parts, read as untrusted input.

Upholds: I23: with ``CLOSED`` even the last records before a stop cannot be lost unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os.path
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from onceq.errors import DamagedRecord, NewerFormat, NotABackup, NotAStore
from onceq.file_access import CONFIGURATION_FILE, STORE_FILE
from onceq.model.run import Buffer
from onceq.store.files import Files

# ---- identification ------------------------------------------------------------------------------


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
"""Directory in which a restore builds a store before it takes its place (``backup.py``)."""
STORE_BYTES_MAX: Final = 1 << 16
"""Largest size of the identification, with the caller's content."""

_STORE_MAGIC: Final = b"onceq\0st"
_CLOSED_MAGIC: Final = b"onceq\0cl"
_STORE = struct.Struct("<8sI16sQI")
_CLOSED = struct.Struct("<8sI16sQQ")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class StoreIdentification:
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
class OrderlyClose:
    """Where a store was closed in order; ``epoch`` belongs to the process which did so.

    Everything behind ``end`` with an older epoch was cut before that, and is nobody's tail.
    """

    end: int = 0
    epoch: int = 0


NEVER_CLOSED: Final = OrderlyClose()


def write_identification(files: Files, path: str, what: StoreIdentification) -> None:
    """Write the file that identifies a store; it appears whole or not at all."""
    assert len(what.store_id) == 16, "a store identifier has 16 bytes"
    head = _STORE.pack(
        _STORE_MAGIC, what.version, what.store_id, what.created_s, len(what.identity)
    )
    assert len(head) + len(what.identity) + _CRC.size <= STORE_BYTES_MAX
    head += what.identity
    replace_file(files, path, STORE_FILE, [head, _CRC.pack(zlib.crc32(head))])


def read_identification(files: Files, path: str, *, plain: bool = False) -> StoreIdentification:
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
    return StoreIdentification(store_id, created_s, raw[_STORE.size : end], version)


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


def write_closed(files: Files, path: str, store_id: bytes, closed: OrderlyClose) -> None:
    """Note that the log was closed in order, and everything before its end is durable."""
    head = _CLOSED.pack(_CLOSED_MAGIC, FILE_VERSION, store_id, closed.end, closed.epoch)
    replace_file(files, path, CLOSED_FILE, [head, _CRC.pack(zlib.crc32(head))])


def read_closed(files: Files, path: str, store_id: bytes) -> OrderlyClose:
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
    return OrderlyClose(end, epoch)


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


# ---- manifest ------------------------------------------------------------------------------------


MANIFEST_FORMAT: Final = 1
"""Version of the manifest."""
MANIFEST_BYTES_MAX: Final = 256 << 20
"""Largest accepted manifest: a line of some 120 bytes for each segment."""
TEXT_CHARS_MAX: Final = 256
"""Largest length of a name or a version in a manifest."""
NUMBER_MAX: Final = (1 << 53) - 1
"""Largest number in a manifest: every reader of JSON takes it."""
TAKEN_S_MAX: Final = 253_402_300_799
"""The end of the year 9999, which calendars end with."""
STORE_PART: Final = r"STORE|CLOSED|log-[0-9a-f]{16}\.seg|state-[0-9a-f]{16}\.ckp|PROMISED|KEPT"
"""Names of the files of a store that a backup may have."""

_MAY_HAVE = re.compile(rf"{STORE_PART}|{re.escape(CONFIGURATION_FILE)}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a backup; ``sha256`` in hexadecimal digits.

    A manifest is accepted only if it contains what a generated one could contain: names of files of
    a store, each once, numbers, a time, and texts that can be shown. The format is described in
    ``docs/reference/formats/backup.md``.
    """

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest.

    Attributes:
        manager, id: Name and GUID of the queue manager that it was made of.
        position: Up to where its log goes.
        taken_s: When that was, in seconds since 1970 by the clock of its maker.
        checkpoint: What its checkpoint covers; 0 without one.
        made_by: Version of onceq.
    """

    manager: str
    id: str
    position: int
    taken_s: int
    checkpoint: int
    made_by: str
    files: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        """Return the size of all its files."""
        return sum(entry.bytes for entry in self.files)


@dataclass(frozen=True, slots=True)
class SignedManifest:
    """A manifest with the signed bytes ``raw``; ``signature`` is b"" if there is none."""

    manifest: Manifest
    raw: bytes
    signature: bytes


def read_manifest(files: Files, path: str) -> Manifest:
    """Return the manifest of a backup, read as by ``read_signed``."""
    return read_signed(files, path).manifest


def read_signed(files: Files, path: str) -> SignedManifest:
    """Return the manifest of a backup, and its signature, which is not verified here.

    Raises:
        NotABackup: The directory holds none, or an unfinished one.
        NewerFormat: It was made by a newer onceq.
        DamagedRecord: The manifest is damaged.
    """
    name, signature = os.path.join(path, MANIFEST), os.path.join(path, SIGNATURE)
    if not files.exists(name):
        if files.exists(os.path.join(path, UNFINISHED)):
            raise NotABackup(
                f"{path} holds a backup that was interrupted before it was whole; use another "
                "one, and remove this"
            )
        raise NotABackup(f"{path} is not a backup: it has no file {MANIFEST}")
    raw = read_file(files, name, plain=True)
    try:
        manifest = decode(raw)
    except NewerFormat as error:
        raise NewerFormat(f"{name}: {error.text}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedRecord(f"{name} is damaged; use another backup") from None
    signed = files.exists(signature)
    return SignedManifest(manifest, raw, read_file(files, signature, plain=True) if signed else b"")


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON that contains its own checksum."""
    values = {"format": MANIFEST_FORMAT, **asdict(manifest)}
    return json.dumps({**values, "checksum": _checksum(values)}, indent=1).encode() + b"\n"


def decode(raw: bytes) -> Manifest:
    """Parse the bytes of ``encode``; raises ValueError and its like, or NewerFormat."""
    values = json.loads(raw)
    checksum, version = values.pop("checksum"), values["format"]
    # Before the checksum, which a newer format may compute in another way.
    if isinstance(version, int) and version > MANIFEST_FORMAT:
        raise NewerFormat(
            f"the backup has format {version}; this onceq knows up to {MANIFEST_FORMAT}"
        )
    if type(version) is not int or version != MANIFEST_FORMAT or checksum != _checksum(values):
        raise ValueError("the manifest was changed")
    del values["format"]
    entries = tuple(Entry(**entry) for entry in values.pop("files"))
    manifest = Manifest(**values, files=entries)
    _check_manifest(manifest)
    return manifest


def _check_manifest(manifest: Manifest) -> None:
    """Raise ValueError if a manifest contains what no generated one does."""
    m = manifest
    for text in (m.manager, m.id, m.made_by):
        if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX or not text.isprintable():
            raise ValueError("a name that is none")
    numbers = (m.position, m.checkpoint, m.taken_s, *(entry.bytes for entry in m.files))
    if any(type(one) is not int or not 0 <= one <= NUMBER_MAX for one in numbers):
        raise ValueError("a number that is none")
    if m.taken_s > TAKEN_S_MAX:
        raise ValueError("a time that is none")
    for entry in m.files:
        if not isinstance(entry.name, str) or not _MAY_HAVE.fullmatch(entry.name):
            raise ValueError(f"a file that no backup has: {entry.name!r}")
        if not isinstance(entry.sha256, str) or not _DIGEST.fullmatch(entry.sha256):
            raise ValueError("a checksum that is none")
    names = [entry.name for entry in m.files]
    if len(set(names)) != len(names) or STORE_FILE not in names:
        raise ValueError("a file twice, or no store")


def _checksum(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_file(files: Files, path: str, *, plain: bool = False) -> bytes:
    """Return all of a small file; ``plain`` as for ``Files.open``."""
    file = files.open(path, reading=True, plain=plain)
    try:
        return files.read(file, 0, min(files.size(file), MANIFEST_BYTES_MAX))
    finally:
        files.close(file)
