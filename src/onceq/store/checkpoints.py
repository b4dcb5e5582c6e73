"""Checkpoints: a whole state in one file, made current by one atomic step.

The file is written under another name, synced, renamed and the directory synced; until then the one
before counts, and it is removed only afterwards. The state is in chunks with a checksum each, so
that damage is located, and so that a large state is never held twice.

The head also lists the segments and where each ends, because nothing walks the log below the
checkpoint any more. It contains the epoch from which on frames behind the checkpoint count, so that
a stale frame right behind it is never taken for a record (``framing``).

Upholds: I22, I23.
"""

from __future__ import annotations

import os.path
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onceq.errors import DamagedRecord, NewerFormat, NoSpace, StorageFailure
from onceq.model.run import Buffer
from onceq.store.files import Files
from onceq.store.framing import crc32
from onceq.store.pool import Pool

VERSION: Final = 1
CHUNK: Final = 1 << 20
CHUNK_MAX: Final = 1 << 26
"""Largest chunk that is accepted when reading."""
_MAGIC: Final = b"onceq\0ck"
_HEAD = struct.Struct("<8sI16sQQQII")
_PAIR = struct.Struct("<QQ")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"state-([0-9a-f]{16})\.ckp")
_UNFINISHED = re.compile(r"state-[0-9a-f]{16}\.ckp\.new")


@dataclass(frozen=True, slots=True)
class CheckpointHead:
    """The head of a checkpoint.

    Attributes:
        position: It covers every record before this log position.
        epoch: Frames behind it count from this epoch on.
        segments: (base, end) of each segment that lay before it and was kept.
    """

    position: int
    epoch: int
    segments: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint on its way: ``write`` it in any thread, then let the store install it."""

    head: CheckpointHead
    state: Sequence[Buffer]
    writer: Callable[[PendingCheckpoint], None]

    def write(self) -> None:
        """Write the file and wait for the disk, the slow half; the old checkpoint still counts.

        Raises:
            NoSpace: The disk is full, also without the reserve. The store lives on.
            StorageFailure: The disk failed, and the store is dead.
        """
        self.writer(self)


def name_of(position: int) -> str:
    """Return the file name of the checkpoint that covers the log up to ``position``."""
    return f"state-{position:016x}.ckp"


def unfinished(names: Sequence[str]) -> list[str]:
    """Return the file names of checkpoints that were never finished."""
    return [name for name in names if _UNFINISHED.fullmatch(name)]


def size_of(state: Sequence[Buffer], segments: int) -> int:
    """Return the bytes that the file of a checkpoint will have."""
    size = sum(map(len, state))
    chunks = (size + CHUNK - 1) // CHUNK
    return _HEAD.size + segments * _PAIR.size + _CRC.size + size + chunks * _CRC.size


def write(
    files: Files, path: str, store_id: bytes, head: CheckpointHead, state: Sequence[Buffer]
) -> str:
    """Write a checkpoint beside the current one; return the path of the new file.

    Raises:
        NoSpace: The disk is full; a partial file is removed again.
        StorageFailure: The disk failed.
    """
    name = os.path.join(path, name_of(head.position) + ".new")
    if files.exists(name):
        files.unlink(name)
    file = files.open(name, create=True)
    try:
        try:
            packed = _HEAD.pack(
                _MAGIC, VERSION, store_id, head.position, head.epoch, sum(map(len, state)), CHUNK,
                len(head.segments),
            ) + b"".join(_PAIR.pack(*pair) for pair in head.segments)  # fmt: skip
            files.write(file, 0, [packed, _CRC.pack(crc32(packed))])
            offset = len(packed) + _CRC.size
            for chunk, size, crc in _chunks(state):
                files.write(file, offset, [*chunk, _CRC.pack(crc)])
                offset += size + _CRC.size
            files.sync(file)
        finally:
            files.close(file)
    except StorageFailure:
        files.unlink(name)
        raise
    return name


def write_with_reserve(
    files: Files, path: str, store_id: bytes, pending: PendingCheckpoint, pool: Pool
) -> None:
    """Write a checkpoint; on a full disk with the space of ready segments, if they are enough.

    Only a checkpoint lets segments go, so the reserve is well spent on one.

    Raises:
        NoSpace, StorageFailure: As ``write``.
    """
    try:
        write(files, path, store_id, pending.head, pending.state)
    except NoSpace:
        # Under a quota the system may say that there is room where there is none.
        needed = size_of(pending.state, len(pending.head.segments))
        free = files.free_bytes(path)
        missing = needed - free if free < needed else needed
        count = (missing + pool.segment_bytes - 1) // pool.segment_bytes + 1
        if count > len(pool):
            raise
        pool.sacrifice(count)
        write(files, path, store_id, pending.head, pending.state)


def _chunks(state: Sequence[Buffer]) -> Iterator[tuple[list[Buffer], int, int]]:
    """Cut the state into pieces of CHUNK bytes: (buffers, size, checksum)."""
    size, crc = 0, 0
    parts: list[Buffer] = []
    for buffer in state:
        # Arrays have items of more than one byte; here sizes are counted in bytes.
        view = memoryview(buffer).cast("B")
        while len(view):
            piece = view[: CHUNK - size]
            parts.append(piece)
            crc = crc32(piece, crc)
            size += len(piece)
            view = view[len(piece) :]
            if size == CHUNK:
                yield parts, size, crc
                size, crc, parts = 0, 0, []
    if size:
        yield parts, size, crc


def install(files: Files, path: str, written: str, position: int, *, keep: int = 0) -> None:
    """Make a written checkpoint the one that counts, and drop older ones.

    Args:
        keep: Position of an older one that stays all the same; 0: none does.
    """
    files.rename(written, os.path.join(path, name_of(position)))
    files.sync_directory(path)
    for name in files.names(path):
        if _NAME.fullmatch(name) and name < name_of(position) and name != name_of(keep):
            files.unlink(os.path.join(path, name))


def newest(files: Files, path: str, store_id: bytes) -> tuple[CheckpointHead, bytes | None]:
    """Return the newest checkpoint and its state; one of position 0 without a state if there is
    none.

    A checkpoint under its final name was durable before it got that name, so a damaged one is
    damage, and is reported.

    Raises:
        DamagedRecord, NewerFormat: It cannot be used.
    """
    # Sixteen hexadecimal digits: names and positions have the same order.
    names = [name for name in files.names(path) if _NAME.fullmatch(name)]
    if not names:
        return CheckpointHead(0, 0), None
    name = os.path.join(path, names[-1])
    file = files.open(name)
    try:
        head, state = read(files, file, name, store_id)
    finally:
        files.close(file)
    if name_of(head.position) != names[-1]:
        raise DamagedRecord(f"{name} is the checkpoint for {head.position}; it was renamed")
    return head, state


def read(files: Files, file: int, name: str, store_id: bytes) -> tuple[CheckpointHead, bytes]:
    """Return the content of a checkpoint file; raises DamagedRecord, NewerFormat."""
    total = files.size(file)
    raw = files.read(file, 0, _HEAD.size)
    if len(raw) < _HEAD.size or raw[:8] != _MAGIC:
        raise DamagedRecord(f"{name} is damaged at byte 0; restore a backup")
    _, version, owner, position, epoch, size, chunk, count = _HEAD.unpack(raw)
    if version > VERSION:
        raise NewerFormat(f"{name} has format {version}; this onceq knows up to {VERSION}")
    if _HEAD.size + count * _PAIR.size + _CRC.size > total:
        raise DamagedRecord(f"the head of {name} is damaged; restore a backup")
    table = files.read(file, _HEAD.size, count * _PAIR.size + _CRC.size)
    offset = _HEAD.size + len(table)
    if table[-_CRC.size :] != _CRC.pack(crc32(table[: -_CRC.size], crc32(raw))):
        raise DamagedRecord(f"the head of {name} is damaged; restore a backup")
    if owner != store_id or not 0 < chunk <= CHUNK_MAX:
        raise DamagedRecord(f"{name} is not a checkpoint of this store; restore a backup")
    segments = tuple(_PAIR.iter_unpack(table[: -_CRC.size]))
    parts: list[bytes] = []
    left = size
    while left:
        want = min(left, chunk)
        piece = files.read(file, offset, want + _CRC.size)
        if len(piece) != want + _CRC.size or piece[want:] != _CRC.pack(crc32(piece[:want])):
            raise DamagedRecord(f"{name} is damaged at byte {offset} or behind; restore a backup")
        parts.append(piece[:want])
        offset += want + _CRC.size
        left -= want
    return CheckpointHead(position, epoch, segments), b"".join(parts)
