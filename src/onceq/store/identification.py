"""The file that says whose store a directory is, and in which format.

It is written once, under another name, synced and renamed, so it is there whole or not at all; a
directory without it is not a store.
"""

from __future__ import annotations

import os.path
import struct
import zlib
from typing import Final

from onceq.errors import DamagedRecord, NewerFormat, NotAStore
from onceq.store.files import Files

FORMAT: Final = 1
MAGIC: Final = b"onceq\0st"
STORE_FILE = "STORE"
_STORE = struct.Struct("<8sI16sI")
_CRC = struct.Struct("<I")


def write_store_file(files: Files, path: str, store_id: bytes, identity: bytes) -> None:
    """Make the file that says who a store is; it appears whole or not at all."""
    head = _STORE.pack(MAGIC, FORMAT, store_id, len(identity)) + identity
    file = files.open(os.path.join(path, STORE_FILE + ".new"), create=True)
    files.write(file, 0, [head + _CRC.pack(zlib.crc32(head))])
    files.sync(file)
    files.close(file)
    files.rename(os.path.join(path, STORE_FILE + ".new"), os.path.join(path, STORE_FILE))
    files.sync_directory(path)


def read_store_file(files: Files, path: str) -> tuple[bytes, bytes]:
    """Store identifier and identity; raises NotAStore, NewerFormat, DamagedRecord."""
    name = os.path.join(path, STORE_FILE)
    if not files.exists(name):
        raise NotAStore(
            f"{path} is not the directory of a queue manager (it has no file {STORE_FILE}); "
            "'onceq qm init' makes one"
        )
    file = files.open(name)
    try:
        raw = files.read(file, 0, 1 << 16)
    finally:
        files.close(file)
    if len(raw) < _STORE.size + 4 or raw[:8] != MAGIC:
        raise NotAStore(f"{name} was not written by onceq")
    _, version, store_id, size = _STORE.unpack_from(raw)
    if version > FORMAT:
        raise NewerFormat(
            f"{path} has format {version}; this onceq knows up to {FORMAT}: use the newer onceq"
        )
    end = _STORE.size + size
    if raw[end : end + 4] != _CRC.pack(zlib.crc32(raw[:end])):
        raise DamagedRecord(f"{name} is damaged; restore it from a backup")
    return store_id, raw[_STORE.size : end]
