"""Checkpoints: a whole state in one file, made current by one atomic step.

The file is written under another name, synced, renamed and the directory synced; until then the
one before counts, and it is removed only afterwards. Contents stand in chunks with a checksum
each, so that damage is found where it is.
"""

from __future__ import annotations

import os.path
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from onceq.errors import DamagedRecord
from onceq.model.run import Buffer
from onceq.store.files import Files

MAGIC: Final = b"onceq\0ck"
CHUNK: Final = 1 << 20
_HEAD = struct.Struct("<8sI16sQQI")
_CRC = struct.Struct("<I")
VERSION: Final = 1


def name_of(position: int) -> str:
    """File name of the checkpoint that covers the log up to ``position``."""
    return f"state-{position:016x}.ckp"


def write(files: Files, path: str, store_id: bytes, state: Sequence[Buffer], position: int) -> str:
    """Write a checkpoint beside the current one; returns the path of the new file."""
    name = os.path.join(path, name_of(position) + ".new")
    if files.exists(name):
        files.unlink(name)
    size = sum(map(len, state))
    head = _HEAD.pack(MAGIC, VERSION, store_id, position, size, CHUNK)
    file = files.open(name, create=True)
    try:
        files.write(file, 0, [head + _CRC.pack(zlib.crc32(head))])
        offset = _HEAD.size + 4
        for chunk in _chunks(state):
            files.write(file, offset, [*chunk[1], _CRC.pack(chunk[2])])
            offset += chunk[0] + 4
        files.sync(file)
    finally:
        files.close(file)
    return name


def _chunks(state: Sequence[Buffer]) -> list[tuple[int, list[Buffer], int]]:
    """Cut the state into pieces of CHUNK bytes: (size, buffers, checksum)."""
    found: list[tuple[int, list[Buffer], int]] = []
    size, crc = 0, 0
    parts: list[Buffer] = []
    for buffer in state:
        view = memoryview(buffer)
        while len(view):
            piece = view[: CHUNK - size]
            parts.append(piece)
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            view = view[len(piece) :]
            if size == CHUNK:
                found.append((size, parts, crc))
                size, crc, parts = 0, 0, []
    if size:
        found.append((size, parts, crc))
    return found


def install(files: Files, path: str, written: str, position: int) -> None:
    """Make a written checkpoint the one that counts, and drop older ones."""
    files.rename(written, os.path.join(path, name_of(position)))
    files.sync_directory(path)
    for name in files.names(path):
        if name.startswith("state-") and name.endswith(".ckp") and name < name_of(position):
            files.unlink(os.path.join(path, name))


def newest(files: Files, path: str, store_id: bytes) -> tuple[bytes | None, int, bool]:
    """The newest checkpoint: its state, what it covers, and whether nothing odd lay beside it.

    A checkpoint under its final name was durable before it got that name, so a damaged one is
    damage, and is not passed over silently (I23).
    """
    names = [n for n in files.names(path) if n.startswith("state-") and n.endswith(".ckp")]
    if not names:
        return None, 0, True
    name = os.path.join(path, names[-1])
    file = files.open(name)
    try:
        return (*read(files, file, name, store_id), True)
    finally:
        files.close(file)


def read(files: Files, file: int, name: str, store_id: bytes) -> tuple[bytes, int]:
    """State and covered position of a checkpoint file; raises DamagedRecord."""
    head = files.read(file, 0, _HEAD.size + 4)
    if len(head) < _HEAD.size + 4 or _CRC.unpack_from(head, _HEAD.size)[0] != zlib.crc32(
        head[: _HEAD.size]
    ):
        raise DamagedRecord(f"the head of {name} is damaged; restore a backup")
    magic, version, owner, position, size, chunk = _HEAD.unpack_from(head)
    if magic != MAGIC or version > VERSION or owner != store_id or not 0 < chunk <= 1 << 26:
        raise DamagedRecord(f"{name} is not a checkpoint of this store")
    parts: list[bytes] = []
    offset = _HEAD.size + 4
    left = size
    while left:
        want = min(left, chunk)
        raw = files.read(file, offset, want + 4)
        if len(raw) != want + 4 or _CRC.unpack_from(raw, want)[0] != zlib.crc32(raw[:want]):
            raise DamagedRecord(f"{name} is damaged at byte {offset}; restore a backup")
        parts.append(raw[:want])
        offset += want + 4
        left -= want
    return b"".join(parts), position
