"""The store on files: segments of one log, written ahead, and checkpoints beside them.

A commit costs one write and one sync of data: the place it goes to was filled with zeros before,
or is an old segment used again, so that the file system has nothing else to note. Sealed parts of
the log are never changed. What lies behind the newest checkpoint is read at the start; older
segments are kept only while messages live in them.

Files of a store directory (``docs/reference/formats/store.md``):

    STORE                     who it is, which format
    LOCK                      held by the one process that runs it
    log-<position>.seg        segment that begins at that log position (16 hex digits)
    ready-<n>.seg             segment for later use, already written once
    state-<position>.ckp      checkpoint that covers the log up to there

Upholds: I1 (as the contract says), I22, I23.
"""

from __future__ import annotations

import os.path
import struct
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from onceq.errors import (
    DamagedRecord,
    NoSpace,
    StorageFailure,
    StoreExists,
)
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.run import Buffer
from onceq.store import checkpoints, framing, scan
from onceq.store.contract import Recovered, SegmentUse
from onceq.store.files import Files
from onceq.store.identification import FORMAT, STORE_FILE, read_store_file, write_store_file
from onceq.store.scan import SEGMENT_HEADER, Segment

SEGMENT_MAGIC: Final = b"onceq\0sg"
LOCK_FILE = "LOCK"
SEGMENT_BYTES: Final = 16 << 20
READY_MIN: Final = 2
"""Segments kept ready: they are the reserve with which removing and acknowledging go on when the
disk is full."""
READY_MAX: Final = 6
CACHE_BYTES: Final = 64 << 20
ZEROS: Final = bytes(1 << 20)

_SEGMENT = struct.Struct("<8sI16sQ")
_CRC = struct.Struct("<I")


class LogStore:
    """A store in a directory; see ``contract.py`` for what it promises."""

    def __init__(self, path: str, files: Files, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.path = path
        self._files = files
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._ready: deque[str] = deque()
        self._ready_next = 1
        self._cache: list[Buffer] = []
        self._cache_at: list[int] = []
        self._cache_from = 0
        self._cache_bytes = 0
        self._pending: list[Buffer] = []
        self._unsynced: list[Segment] = []
        self._position = self._synced = self._written = 0
        self._epoch = 0
        self._covered = 0
        self._dead: StorageFailure | None = None
        self._lock = -1
        self.store_id = b""
        self.identity = b""
        self.recovered = Recovered(None, 0, 0, True)
        self._found: list[tuple[int, int, Segment]] = []

    # ---- making and opening -----------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str,
        files: Files,
        *,
        store_id: bytes,
        identity: bytes = b"",
        segment_bytes: int = SEGMENT_BYTES,
    ) -> LogStore:
        """Make a new store in a directory and open it; raises StoreExists, StoreLocked."""
        files.make_directory(path)
        if files.exists(os.path.join(path, STORE_FILE)):
            raise StoreExists(f"{path} holds a queue manager already")
        if any(name.startswith(("state-", "log-")) for name in files.names(path)):
            raise StoreExists(f"{path} holds parts of a store; choose an empty directory")
        if files.exists(os.path.join(path, STORE_FILE + ".new")):
            files.unlink(os.path.join(path, STORE_FILE + ".new"))
        write_store_file(files, path, store_id, identity)
        return cls.open(path, files, segment_bytes=segment_bytes)

    @classmethod
    def open(cls, path: str, files: Files, *, segment_bytes: int = SEGMENT_BYTES) -> LogStore:
        """Open a store and find out what is whole in it.

        Raises:
            NotAStore, NewerFormat: The directory holds something else.
            StoreLocked: Another process has it open.
            DamagedRecord: It is damaged below what was promised.
        """
        store = cls(path, files, segment_bytes=segment_bytes)
        store.store_id, store.identity = read_store_file(files, path)
        store._lock = files.lock(os.path.join(path, LOCK_FILE))
        try:
            store._recover()
        except BaseException:
            store._abandon()
            raise
        return store

    def _recover(self) -> None:
        state, covered, clean = checkpoints.newest(self._files, self.path, self.store_id)
        self._covered = covered
        self._load_segments()
        found = scan.frames(self._files, self._segments, covered)
        self._found = found.records
        end, torn = found.end, scan.tail_bytes(self._files, self._segments, found.end)
        self._position = self._written = self._synced = end
        self._epoch = found.epoch + 1
        self.recovered = Recovered(state, covered, torn, clean and torn == 0)
        self._cut_tail(end)

    def _load_segments(self) -> None:
        for name in self._files.names(self.path):
            path = os.path.join(self.path, name)
            if name.startswith("ready-"):
                self._ready.append(path)
                self._ready_next = max(self._ready_next, int(name[6:-4]) + 1)
            elif name.startswith("log-"):
                self._load_segment(path, int(name[4:-4], 16))
            elif name.endswith(".new"):
                self._files.unlink(path)
        self._segments.sort(key=lambda segment: segment.base)
        self._bases = [segment.base for segment in self._segments]

    def _load_segment(self, path: str, base: int) -> None:
        file = self._files.open(path)
        head = self._files.read(file, 0, SEGMENT_HEADER)
        wanted = self._segment_head(base)
        if head != wanted:
            # A segment whose making a crash cut short holds nothing; what was promised to be in
            # it would be missed by the check of the durable end.
            self._files.close(file)
            self._files.unlink(path)
            return
        self._segments.append(Segment(base, path, file, self._files.size(file), base))

    def _segment_head(self, base: int) -> bytes:
        head = _SEGMENT.pack(SEGMENT_MAGIC, FORMAT, self.store_id, base)
        return (head + _CRC.pack(zlib.crc32(head))).ljust(SEGMENT_HEADER, b"\0")

    def _cut_tail(self, end: int) -> None:
        """Nothing behind the end may ever be taken for a record: the next epoch sees to that in
        the same segment; whole segments behind it go. What was found whole may stand in the
        system's memory only, if a kill was the end of the last process: now it is synced."""
        gone = False
        while self._segments and self._segments[-1].base >= end:
            segment = self._segments.pop()
            self._bases.pop()
            self._files.close(segment.file)
            self._files.unlink(segment.path)
            gone = True
        if gone:
            self._files.sync_directory(self.path)
        for segment in {id(s): s for _, _, s in self._found}.values():
            self._files.sync(segment.file)
        if self._segments:
            self._segments[-1].end = end

    def _abandon(self) -> None:
        for segment in self._segments:
            self._files.close(segment.file)
        self._segments.clear()
        if self._lock >= 0:
            self._files.close(self._lock)
            self._lock = -1

    # ---- the contract -------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """See the contract."""
        return self._position

    @property
    def synced(self) -> int:
        """See the contract."""
        return self._synced

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """See the contract."""
        data, loaded = b"", None
        for position, size, segment in self._found:
            if segment is not loaded:
                data, loaded = self._files.read(segment.file, 0, segment.size), segment
            start = SEGMENT_HEADER + position - segment.base + FRAME_HEADER
            yield position, memoryview(data)[start : start + size]
        self._found = []

    def append(self, payload: Sequence[Buffer]) -> int:
        """See the contract."""
        self._alive()
        size = sum(map(len, payload))
        total = frame_size(size)
        position = self._position
        segment = self._segments[-1] if self._segments else None
        if segment is None or position - segment.base + total > segment.size - SEGMENT_HEADER:
            self._roll(total)
        joined = payload[0] if len(payload) == 1 else b"".join(payload)
        self._pending += framing.encode(
            joined, position=position, synced=self._synced, epoch=self._epoch
        )
        self._position = position + total
        self._keep(position + FRAME_HEADER, joined)
        return position

    def _keep(self, address: int, payload: Buffer) -> None:
        """Remember what was appended last: it is what will be read first."""
        self._cache.append(payload)
        self._cache_at.append(address)
        self._cache_bytes += len(payload)
        while self._cache_bytes > CACHE_BYTES and self._cache_at[self._cache_from] < self._written:
            self._cache_bytes -= len(self._cache[self._cache_from])
            self._cache[self._cache_from] = b""
            self._cache_from += 1
        if self._cache_from > 4_096 and self._cache_from * 2 > len(self._cache):
            del self._cache[: self._cache_from], self._cache_at[: self._cache_from]
            self._cache_from = 0

    def _roll(self, needed: int) -> None:
        """Go on in another segment, large enough for a frame of ``needed`` bytes."""
        self.flush()
        size = max(self._segment_bytes, SEGMENT_HEADER + needed)
        base = self._position
        path = os.path.join(self.path, f"log-{base:016x}.seg")
        try:
            if size == self._segment_bytes and self._ready:
                old = self._ready.popleft()
                self._files.rename(old, path)
                file = self._files.open(path)
            else:
                file = self._files.open(path, create=True)
                self._fill(file, size)
            self._files.write(file, 0, [self._segment_head(base)])
            self._files.sync(file)
            self._files.sync_directory(self.path)
        except StorageFailure as error:
            self._die(error)
        self._segments.append(Segment(base, path, file, self._files.size(file), base))
        self._bases.append(base)

    def _fill(self, file: int, size: int) -> None:
        """Write zeros ahead, so that a sync later has only data to write."""
        for offset in range(0, size, len(ZEROS)):
            self._files.write(file, offset, [ZEROS[: min(len(ZEROS), size - offset)]])

    def prepare(self) -> bool:
        """Make one segment ready ahead of need, if fewer than READY_MIN are; True if one was made.

        A full disk is no failure here: the pool stays as it is and ``free_bytes`` tells.
        """
        self._alive()
        if len(self._ready) >= READY_MIN:
            return False
        path = os.path.join(self.path, f"ready-{self._ready_next}.seg")
        self._ready_next += 1
        file = -1
        try:
            file = self._files.open(path, create=True)
            self._fill(file, self._segment_bytes)
            self._files.sync(file)
            self._files.close(file)
            self._files.sync_directory(self.path)
        except NoSpace:
            if file >= 0:
                self._files.close(file)
                self._files.unlink(path)
            return False
        self._ready.append(path)
        return True

    def flush(self) -> None:
        """See the contract."""
        self._alive()
        if not self._pending:
            return
        segment = self._segments[-1]
        offset = SEGMENT_HEADER + self._written - segment.base
        try:
            self._files.write(segment.file, offset, self._pending)
        except StorageFailure as error:
            self._die(error)
        self._pending = []
        self._written = segment.end = self._position
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)

    def sync(self) -> None:
        """See the contract."""
        self.flush()
        try:
            for segment in self._unsynced:
                self._files.sync(segment.file)
        except StorageFailure as error:
            self._die(error)
        self._unsynced.clear()
        self._synced = self._written

    def read(self, address: int, size: int) -> Buffer:
        """See the contract."""
        places = self._cache_at
        if places and address >= places[self._cache_from]:
            index = bisect_right(places, address) - 1
            at = address - places[index]
            piece = memoryview(self._cache[index])[at : at + size]
            if len(piece) == size:
                return piece
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            raise DamagedRecord(f"log position {address} is not kept any more")
        segment = self._segments[index]
        found = self._files.read(segment.file, SEGMENT_HEADER + address - segment.base, size)
        if len(found) != size or address + size > segment.end:
            raise DamagedRecord(f"{segment.path} has no {size} bytes at log position {address}")
        return found

    def checkpoint(self, state: Sequence[Buffer], position: int) -> None:
        """See the contract."""
        self.checkpoint_install(*self.checkpoint_write(state, position))

    def checkpoint_write(self, state: Sequence[Buffer], position: int) -> tuple[str, int]:
        """First half of ``checkpoint``, the slow one: may run in another thread meanwhile.

        Everything before ``position`` must be durable already.
        """
        assert position <= self._synced, "a checkpoint of what is not durable"
        path = checkpoints.write(self._files, self.path, self.store_id, state, position)
        return path, position

    def checkpoint_install(self, path: str, position: int) -> None:
        """Second half: makes it count."""
        self._alive()
        try:
            checkpoints.install(self._files, self.path, path, position)
        except StorageFailure as error:
            self._die(error)
        self._covered = position

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        """See the contract."""
        self._alive()
        freed = 0
        kept: list[Segment] = []
        changed = False
        for index, segment in enumerate(self._segments):
            last = index == len(self._segments) - 1
            if last or segment.end > self._covered or live(segment.base, segment.end):
                kept.append(segment)
                continue
            freed += segment.size
            changed = True
            self._files.close(segment.file)
            self._retire(segment)
        if changed:
            self._segments = kept
            self._bases = [segment.base for segment in kept]
            self._files.sync_directory(self.path)
        return freed

    def _retire(self, segment: Segment) -> None:
        if segment.size == self._segment_bytes and len(self._ready) < READY_MAX:
            path = os.path.join(self.path, f"ready-{self._ready_next}.seg")
            self._ready_next += 1
            self._files.rename(segment.path, path)
            self._ready.append(path)
        else:
            self._files.unlink(segment.path)

    def segments(self) -> tuple[SegmentUse, ...]:
        """See the contract."""
        return tuple(SegmentUse(s.base, s.end, s.size) for s in self._segments)

    def free_bytes(self) -> int:
        """See the contract."""
        ready = len(self._ready) * self._segment_bytes
        left = 0
        if self._segments:
            segment = self._segments[-1]
            left = segment.base + segment.size - SEGMENT_HEADER - self._position
        return self._files.free_bytes(self.path) + ready + left

    def disk_bytes(self) -> int:
        """See the contract."""
        return sum(s.size for s in self._segments) + len(self._ready) * self._segment_bytes

    def close(self) -> None:
        """See the contract."""
        try:
            if self._dead is None:
                self.sync()
        finally:
            self._abandon()

    def _alive(self) -> None:
        if self._dead is not None:
            raise self._dead

    def _die(self, error: StorageFailure) -> None:
        self._dead = error
        raise error
