"""The promised length of a store, beside the log itself; and the list of its old segments.

A log that contains its own end cannot show that its last file is missing. So ``PROMISED`` says
which segment was begun last, how large its file is, and up to where everything was durable. It is
written in place: durably when a segment is begun, before it has any content, and at its first sync;
and without waiting for the disk as the log grows, so that a commit waits for one sync. Two slots
take turns for durable notes, a third one is for the rest: if a crash tears one slot, another is
whole.

``KEPT`` says which segments before the checkpoint there still are. It is replaced before any of
them is let go; a newer checkpoint lists them again. A segment that neither gave up and that is not
there is missing.

Upholds: I23: for any file of the log that is missing, emptied or cut short.
"""

from __future__ import annotations

import os.path
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceq.errors import DamagedRecord, NoSpace
from onceq.store.checkpoints import CheckpointHead
from onceq.store.files import Files
from onceq.store.framing import crc32
from onceq.store.identification import contents, replace_file
from onceq.store.pool import Pool
from onceq.store.scan import NOWHERE

PROMISED_FILE: Final = "PROMISED"
KEPT_FILE: Final = "KEPT"
VERSION: Final = 1
SLOT_BYTES: Final = 512
"""Each slot has a sector of its own."""
DURABLE_SLOTS: Final = 2
NO_SEGMENT: Final = NOWHERE
KEPT_BYTES_MAX: Final = 1 << 26
"""Largest size of the list of segments: four million of them."""
LAZY_BYTES: Final = 1 << 20
"""Log after which the promise is updated, without waiting for the disk."""

_PROMISED_MAGIC: Final = b"onceq\0pr"
_KEPT_MAGIC: Final = b"onceq\0kp"
_PROMISED = struct.Struct("<8sI16sQQQQQ")
_KEPT = struct.Struct("<8sI16sQI")
_PAIR = struct.Struct("<QQ")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class StorePromise:
    """The promise of a store.

    Attributes:
        position: Everything before it was durable.
        segment: Base of the newest segment that was begun; NO_SEGMENT: none was.
        segment_bytes: Size of its file.
        covered: Position of the newest checkpoint.
        turn: Rises with each note.
        slot: Which of the durable slots has the last durable note.
    """

    position: int = 0
    segment: int = NO_SEGMENT
    segment_bytes: int = 0
    covered: int = 0
    turn: int = 0
    slot: int = 0

    def begun(self, base: int) -> bool:
        """Return True if a segment was begun: then its file was there, whole and durable."""
        return self.segment != NO_SEGMENT and base <= self.segment


class PromisedFile:
    """The file PROMISED of an open store. Not thread-safe: it belongs to the store's owner."""

    def __init__(self, files: Files, path: str, store_id: bytes, found: StorePromise) -> None:
        self._files = files
        self._store_id = store_id
        self.file = files.open(os.path.join(path, PROMISED_FILE))
        self.last = found

    def note(
        self,
        position: int,
        *,
        segment: tuple[int, int] | None = None,
        covered: int = 0,
        durable: bool = True,
    ) -> None:
        """Write down a new promise; with ``durable``, wait until it is on the disk.

        Args:
            segment: Base and file size of the newest one, if that is another one now.
            covered: Position of a checkpoint.
        """
        last = self.last
        base, size = segment or (last.segment, last.segment_bytes)
        # Never over the last durable slot: the one that is being written may be torn.
        slot = (last.slot + 1) % DURABLE_SLOTS if durable else DURABLE_SLOTS
        self.last = StorePromise(
            max(position, last.position), base, size, max(covered, last.covered), last.turn + 1,
            slot if durable else last.slot,
        )  # fmt: skip
        self._files.write(self.file, slot * SLOT_BYTES, [_slot(self._store_id, self.last)])
        if durable:
            self.sync()

    def sync(self) -> None:
        """Wait until the content of the file is on the disk."""
        self._files.sync(self.file)

    def close(self) -> None:
        """Close the file."""
        self._files.close(self.file)


def _slot(store_id: bytes, promise: StorePromise) -> bytes:
    head = _PROMISED.pack(
        _PROMISED_MAGIC, VERSION, store_id, promise.turn, promise.position, promise.segment,
        promise.segment_bytes, promise.covered,
    )  # fmt: skip
    return head + _CRC.pack(crc32(head))


def write_promised(files: Files, path: str, store_id: bytes, promise: StorePromise) -> None:
    """Write the whole file, or nothing: of a new store, an upgraded one, or a copy."""
    slot = _slot(store_id, promise).ljust(SLOT_BYTES, b"\0")
    raw = slot.ljust(SLOT_BYTES * (DURABLE_SLOTS + 1), b"\0")
    replace_file(files, path, PROMISED_FILE, [raw])


def read_promised(files: Files, path: str, store_id: bytes) -> StorePromise:
    """Read the promise.

    Raises:
        DamagedRecord: The file is missing or says nothing any more.
    """
    name = os.path.join(path, PROMISED_FILE)
    if not files.exists(name):
        raise DamagedRecord(
            f"{name} is missing: nobody can tell any more whether the log is whole; put it back, "
            "or restore a backup"
        )
    raw = contents(files, name)
    found = [
        replace(promise, slot=at)
        for at in range(DURABLE_SLOTS + 1)
        if (promise := _promise(raw[at * SLOT_BYTES :][: _PROMISED.size + _CRC.size], store_id))
    ]
    durable = [promise for promise in found if promise.slot < DURABLE_SLOTS]
    if not durable:
        raise DamagedRecord(f"{name} is damaged; restore a backup")
    # The slot to spare holds the newest durable promise, even if the lazy one is newer.
    slot = max(durable, key=lambda promise: promise.turn).slot
    newest = max(found, key=lambda promise: promise.turn)
    return replace(newest, slot=slot)


def _promise(raw: bytes, store_id: bytes) -> StorePromise | None:
    if len(raw) < _PROMISED.size + _CRC.size:
        return None
    head = raw[: _PROMISED.size]
    magic, version, owner, turn, position, segment, size, covered = _PROMISED.unpack(head)
    if magic != _PROMISED_MAGIC or version > VERSION or owner != store_id:
        return None
    if raw[_PROMISED.size :] != _CRC.pack(crc32(head)):
        return None
    return StorePromise(position, segment, size, covered, turn)


# ---- kept segments ----------------------------------------------------------------------------


def write_kept(
    files: Files, path: str, store_id: bytes, covered: int, kept: Sequence[tuple[int, int]]
) -> None:
    """Write which segments before the checkpoint stay; durable before the others are let go.

    Args:
        covered: Position of the checkpoint.
        kept: (base, end) of each.
    """
    head = _KEPT.pack(_KEPT_MAGIC, VERSION, store_id, covered, len(kept))
    head += b"".join(_PAIR.pack(*pair) for pair in kept)
    replace_file(files, path, KEPT_FILE, [head, _CRC.pack(crc32(head))])


def tell_kept(
    files: Files, path: str, store_id: bytes, covered: int, kept: Sequence[tuple[int, int]],
    pool: Pool,
) -> bool:  # fmt: skip
    """Write the same, with the reserve if need be; return False if there is no room, and nothing
    may go.

    Only this lets segments go, so the reserve is well spent on it.
    """
    try:
        write_kept(files, path, store_id, covered, kept)
    except NoSpace:
        if not len(pool):
            return False
        pool.sacrifice(1)
        try:
            write_kept(files, path, store_id, covered, kept)
        except NoSpace:
            return False
    return True


def read_kept(
    files: Files, path: str, store_id: bytes, head: CheckpointHead
) -> tuple[tuple[int, int], ...]:
    """Return base and end of each segment before the checkpoint that must be there.

    The head of a checkpoint lists the segments at its beginning. The file, which belongs to the
    checkpoint before, says which were let go while the checkpoint was written. For segments before
    that one, nothing counts but the file, because a segment that was let go never comes back.

    Raises:
        DamagedRecord: The file is damaged.
    """
    name = os.path.join(path, KEPT_FILE)
    if not files.exists(name):
        return head.segments
    raw = contents(files, name, KEPT_BYTES_MAX)
    covered, pairs = _kept(raw, store_id)
    if covered < 0:
        raise DamagedRecord(f"{name} is damaged; restore a backup")
    return (*pairs, *((base, end) for base, end in head.segments if end > covered))


def _kept(raw: bytes, store_id: bytes) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the position of the checkpoint and the pairs; -1 if it is none of this store."""
    if len(raw) >= _KEPT.size + _CRC.size:
        magic, version, owner, covered, count = _KEPT.unpack_from(raw)
        end = _KEPT.size + count * _PAIR.size
        if (
            (magic, owner) == (_KEPT_MAGIC, store_id)
            and version <= VERSION
            and raw[end:] == _CRC.pack(crc32(raw[:end]))
        ):
            return covered, tuple(_PAIR.iter_unpack(raw[_KEPT.size : end]))
    return -1, ()
