"""The manifest of a backup: the list of its parts, read as untrusted input.

A manifest is accepted only if it contains what a generated one could contain: names of files of a
store, each once, numbers, a time, and texts that can be shown. The format is described in
``docs/reference/formats/backup.md``.

Upholds: I23 (damage in a backup is noticed).
"""

from __future__ import annotations

import hashlib
import json
import os.path
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from onceq.errors import DamagedRecord, NewerFormat, NotABackup
from onceq.model.data_directory import CONFIGURATION_FILE, STORE_FILE
from onceq.store.files import Files
from onceq.store.identification import MANIFEST, SIGNATURE, UNFINISHED

FORMAT: Final = 1
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
    """One file of a backup; ``sha256`` in hexadecimal digits."""

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
class Signed:
    """A manifest with the signed bytes ``raw``; ``signature`` is b"" if there is none."""

    manifest: Manifest
    raw: bytes
    signature: bytes


def read_manifest(files: Files, path: str) -> Manifest:
    """Return the manifest of a backup, read as by ``read_signed``."""
    return read_signed(files, path).manifest


def read_signed(files: Files, path: str) -> Signed:
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
    return Signed(manifest, raw, read_file(files, signature, plain=True) if signed else b"")


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON that contains its own checksum."""
    values = {"format": FORMAT, **asdict(manifest)}
    return json.dumps({**values, "checksum": _checksum(values)}, indent=1).encode() + b"\n"


def decode(raw: bytes) -> Manifest:
    """Parse the bytes of ``encode``; raises ValueError and its like, or NewerFormat."""
    values = json.loads(raw)
    checksum, version = values.pop("checksum"), values["format"]
    # Before the checksum, which a newer format may compute in another way.
    if isinstance(version, int) and version > FORMAT:
        raise NewerFormat(f"the backup has format {version}; this onceq knows up to {FORMAT}")
    if type(version) is not int or version != FORMAT or checksum != _checksum(values):
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
