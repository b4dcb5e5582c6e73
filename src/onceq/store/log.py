"""The store on files: segments of one log, written ahead, and checkpoints beside them.

A commit costs one write and one sync of data. Its place was filled with zeros before, or is an old
segment used again, so that the file system has nothing else to note. Sealed parts of the log are
never changed. A start reads the log behind the newest checkpoint; older segments are kept only
while messages live in them.

Files of a store directory (``docs/reference/formats/store.md``):

    STORE                     who it is, which format
    LOCK                      held by the one process that runs it
    CLOSED                    where the log ended at the last orderly stop
    PROMISED                  how far the log goes at least, and which segment is its last
    KEPT                      which segments before the checkpoint there still are
    log-<position>.seg        segment that begins at that log position (16 hex digits)
    ready-<n>.seg             segment for later use, already written once
    state-<position>.ckp      checkpoint that covers the log up to there

Threads: one owner calls everything, with two exceptions. ``read`` and ``replay`` may be called from
any thread, and so may the ``write`` of what ``checkpoint_begin`` gives.

Also here:

* The last appended records, in memory: they are what will be read first.

Upholds: I1 (as the contract says), I22, I23.
"""

from __future__ import annotations

import contextlib
import os.path
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from onceq.errors import DamagedRecord, NoSpace, StorageFailure, StoreExists
from onceq.file_access import STORE_FILE
from onceq.model.limits import RECORD_BYTES_MAX
from onceq.model.log import FRAME_HEADER
from onceq.model.run import Buffer
from onceq.store import checkpoints, identification, promises, recovery, scan
from onceq.store.checkpoints import PendingCheckpoint
from onceq.store.contract import Recovered, Replayed, SegmentUse
from onceq.store.files import Files
from onceq.store.framing import Framing
from onceq.store.identification import RESTORING, OrderlyClose, StoreIdentification, refuse_backup
from onceq.store.pool import Pool, Preparing
from onceq.store.promises import LAZY_BYTES, PromisedFile, StorePromise
from onceq.store.scan import SEGMENT_HEADER, Loaded, Segment
from onceq.store.verified import VerifiedLog, VerifiedPart

if TYPE_CHECKING:
    from onceq.model.views.managers import StoreCut


# ---- recent --------------------------------------------------------------------------------------


TRIM_AT: Final = 4_096
"""Forgotten entries that are worth copying the lists for."""


class Recent:
    """Payloads by address: all unwritten ones, and others up to ``bytes_max``.

    One thread adds; any thread reads without a lock. That is safe because a reader takes the whole
    state in one step, lists only grow at their end, and trimming makes new lists.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._forgotten = 0
        self.first = 0
        """Everything that was added from this address on is remembered."""
        self._state: tuple[list[int], list[bytes]] = ([], [])

    def add(self, address: int, payload: bytes, *, written: int) -> None:
        """Remember a payload; those wholly before ``written`` may be forgotten for it."""
        places, payloads = self._state
        # The payload before its place: a reader in another thread looks a place up, and then takes
        # the payload of the same index.
        payloads.append(payload)
        places.append(address)
        self._bytes += len(payload)
        while self._bytes > self._bytes_max and places[self._forgotten] < written:
            self._bytes -= len(payloads[self._forgotten])
            # Emptied, not removed: readers hold indexes into these lists.
            payloads[self._forgotten] = b""
            self._forgotten += 1
            self.first = places[self._forgotten]
        if self._forgotten > TRIM_AT and self._forgotten * 2 > len(places):
            self._state = (places[self._forgotten :], payloads[self._forgotten :])
            self._forgotten = 0

    def read(self, address: int, size: int) -> memoryview | None:
        """Return the bytes at an address if they are remembered."""
        places, payloads = self._state
        index = bisect_right(places, address) - 1
        if index < 0:
            return None
        at = address - places[index]
        piece = memoryview(payloads[index])[at : at + size]
        return piece if len(piece) == size else None

    @property
    def bytes(self) -> int:
        """Return the number of remembered payload bytes."""
        return self._bytes


# ---- log -----------------------------------------------------------------------------------------


LOCK_FILE: Final = "LOCK"
SEGMENT_BYTES: Final = 16 << 20
"""Size of a segment file; a record that needs more gets a segment of its own."""
CACHE_BYTES: Final = 32 << 20
"""Payload bytes of the last records that are kept in memory."""


class LogStore:
    """A store in a directory, with the promises of ``contract.py``."""

    def __init__(
        self, path: str, files: Files, *, segment_bytes: int = SEGMENT_BYTES, aside: bool = False
    ) -> None:
        """Use ``create`` or ``open``.

        Args:
            aside: Prepare segments in a thread of their own (where disks are real).
        """
        self.path = path
        self.store_id = b""
        self.identity = b""
        self.created_s = 0
        self.recovered = Recovered(None, 0, 0, True)
        self.made_ns = 0
        self._files = files
        self.segment_bytes = segment_bytes
        self._framing = Framing(b"")
        self._verified = VerifiedLog(files, self._framing)
        self._promised: PromisedFile | None = None
        self._fresh = False
        self._table: tuple[list[int], list[Segment]] = ([], [])
        self._pool = Pool(files, path, segment_bytes)
        self._recent = Recent(CACHE_BYTES)
        self._pending: list[Buffer] = []
        self._unsynced: list[Segment] = []
        self.position = self.synced = self.remembered = self._written = 0
        self._opened_at = 0
        self._epoch = 0
        self._checkpoint = checkpoints.CheckpointHead(0, 0)
        self._checkpoint_bytes = 0
        self._dead: StorageFailure | None = None
        self._lock = -1
        self._aside = aside
        self._preparing = Preparing(self._pool)
        self._failed_aside: StorageFailure | None = None
        self._held: StoreCut | None = None

    # ---- making and opening -----------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str,
        files: Files,
        *,
        store_id: bytes,
        identity: bytes = b"",
        created_s: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
        aside: bool = False,
    ) -> LogStore:
        """Make a new store in a directory, and open it.

        Args:
            store_id: 16 random bytes; they must stay inside the store.
            identity: Any bytes; the caller finds them again as ``store.identity``.
            created_s: When this is, in seconds of the wall clock.

        Raises:
            StoreExists: There is one, or parts of one.
            StoreLocked: Another process makes one right now.
            StorageFailure: The disk failed.
        """
        store = cls(path, files, segment_bytes=segment_bytes, aside=aside)
        files.make_directory(path)
        store._lock = files.lock(os.path.join(path, LOCK_FILE))
        try:
            if files.exists(os.path.join(path, STORE_FILE)):
                raise StoreExists(f"{path} holds a queue manager already")
            if any(n.startswith(("state-", "log-", RESTORING)) for n in files.names(path)):
                raise StoreExists(f"{path} holds parts of a store; choose an empty directory")
            refuse_backup(files, path)
            # PROMISED before STORE: with STORE the directory is a store, and a store without
            # PROMISED is damaged.
            promises.write_promised(files, path, store_id, StorePromise())
            what = StoreIdentification(store_id, created_s, identity)
            identification.write_identification(files, path, what)
            store._recover()
        except BaseException:
            store.abandon()
            raise
        return store

    @classmethod
    def open(
        cls, path: str, files: Files, *, segment_bytes: int = SEGMENT_BYTES, aside: bool = False
    ) -> LogStore:
        """Open a store and find out what is whole in it.

        Raises:
            NotAStore, NewerFormat: The directory holds something else.
            StoreLocked: Another process has it open.
            DamagedRecord: It is damaged below what was promised; nothing was changed.
        """
        refuse_backup(files, path)
        # Before the lock is taken, because that makes the file LOCK: a foreign directory is left
        # unchanged.
        identification.read_identification(files, path)
        store = cls(path, files, segment_bytes=segment_bytes, aside=aside)
        store._lock = files.lock(os.path.join(path, LOCK_FILE))
        try:
            store._recover()
        except BaseException:
            store.abandon()
            raise
        return store

    def _recover(self) -> None:
        loaded = Loaded()
        try:
            judged = recovery.judge(self._files, self.path, self._pool, loaded)
            self._promised = recovery.tidy(self._files, self.path, judged, loaded)
        finally:
            # Also after a refusal: `abandon` closes the files of the segments in the table.
            self._table = ([s.base for s in loaded.segments], loaded.segments)
        self.store_id = judged.who.store_id
        self.identity, self.created_s = judged.who.identity, judged.who.created_s
        self.recovered = judged.recovered
        self.made_ns = self._files.changed_ns(os.path.join(self.path, STORE_FILE))
        self._framing = Framing(self.store_id)
        self._verified = VerifiedLog(self._files, self._framing)
        self.position = self._written = self.synced = self._opened_at = judged.end
        self.remembered = self._recent.first = judged.end
        self._epoch = judged.epoch + 1
        self._checkpoint = judged.head
        self._checkpoint_bytes = len(judged.recovered.checkpoint or b"")

    def descriptors(self) -> list[int]:
        """Return the descriptors of all open files, which a child of this process must close."""
        promised = [] if self._promised is None else [self._promised.file]
        return [self._lock, *promised, *(segment.file for segment in self._table[1])]

    def abandon(self) -> None:
        """Close files and lock without closing in order, as a kill would."""
        self._preparing.join()
        _, segments = self._table
        for segment in segments:
            self._files.close(segment.file)
        self._table = ([], [])
        if self._promised is not None:
            self._promised.close()
            self._promised = None
        if self._lock >= 0:
            self._files.close(self._lock)
            self._lock = -1

    # ---- the contract -------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the records from the checkpoint on."""
        covered = self._checkpoint.position
        segments = self._table[1]
        return recovery.records(self._files, self._framing, segments, covered, self._opened_at)

    def replay(self, start: int, end: int) -> Iterator[Replayed]:
        """Yield records between two frames that are durable and kept; from any thread, as
        ``read``."""
        assert end <= self.synced, "records that are not durable are nobody's business"
        return recovery.replay(self._files, self._framing, lambda: self._table, start, end)

    def append(self, payload: bytes, head: int = 0) -> int:
        """Add one record."""
        self._alive()
        assert len(payload) <= RECORD_BYTES_MAX, "a record that could not be read again"
        position = self.position
        # A frame says what was durable before it, so that a start can tell a torn tail from damage.
        frame = self._framing.encode(
            payload, position=position, synced=self.synced, epoch=self._epoch, head=head
        )
        total = sum(map(len, frame))
        segments = self._table[1]
        if not segments or position + total > segments[-1].limit:
            self._roll(total)
        self._pending += frame
        self.position = position + total
        # Readable from now on, although it may be written only at the next flush.
        self._recent.add(position + FRAME_HEADER, payload, written=self._written)
        self.remembered = self._recent.first
        return position

    def _roll(self, needed: int) -> None:
        """Go on in another segment, large enough for a frame of ``needed`` bytes.

        Its header, its size and its name are durable before a frame goes into it, and so is the
        promise that it was begun.
        """
        self.flush()
        # Pending data belongs to the segment that was last so far: `flush` writes to the last one.
        base = self.position
        size = max(self.segment_bytes, SEGMENT_HEADER + needed)
        path = os.path.join(self.path, scan.segment_name(base))
        try:
            ready = self._pool.take() if size == self.segment_bytes else None
            if ready is not None:
                self._files.rename(ready, path)
                file = self._files.open(path)
            else:
                file = self._files.open(path, create=True)
            bases, segments = self._table
            segments.append(Segment(base, path, file, size, base))
            # The segment before its base: a reader in another thread looks a base up, and then
            # takes the segment of the same index.
            bases.append(base)
            if ready is None:
                # No zeros ahead here: the caller would have to wait for all of them.
                self._files.allocate(file, size)
            self._files.write(file, 0, [scan.segment_header(self.store_id, base, size)])
            self._files.sync(file)
            self._files.sync_directory(self.path)
            # Last: once the segment is promised, a start refuses the store if the file is not
            # there, whole.
            self._note(segment=(base, size))
            self._fresh = True
        except StorageFailure as error:
            self._die(error)
        if self._aside:
            self.prepare()

    def prepare(self) -> bool:
        """Make one segment ready ahead of need, if too few are.

        A full disk is no failure here: the pool does not change and ``free_bytes`` shows it.

        Returns:
            Whether one was made; always False if that is done aside.
        """
        self._alive()
        if not self._pool.wanting:
            return False
        if self._aside:
            self._preparing.begin()
            return False
        try:
            return self._pool.prepare()
        except StorageFailure as error:
            self._die(error)

    def flush(self) -> None:
        """Hand the appended records to the operating system."""
        self._alive()
        if not self._pending:
            return
        segment = self._table[1][-1]
        try:
            self._files.write(segment.file, self._written + segment.shift, self._pending)
        except StorageFailure as error:
            self._die(error)
        self._pending = []
        self._written = segment.end = self.position
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)

    def sync(self) -> None:
        """Make everything appended so far durable."""
        self.flush()
        try:
            for segment in self._unsynced:
                self._files.sync(segment.file)
            self._unsynced.clear()
            self.synced = self._written
            if self._fresh:
                # Before this the promise ends where the segment begins: if the disk lost everything
                # in it, the zeros would look like a segment that was never used.
                self._fresh = False
                self._note()
            elif self._promised and self.synced - self._promised.last.position >= LAZY_BYTES:
                self.note()
        except StorageFailure as error:
            self._die(error)

    def note(self) -> None:
        """Write down how far was promised, without waiting for the disk. The owner does so now
        and then, so that even a last segment of nothing but zeros is noticed."""
        if self._promised is not None and self.synced > self._promised.last.position:
            try:
                self._note(durable=False)
            except StorageFailure as error:
                self._die(error)

    def _note(
        self, *, segment: tuple[int, int] | None = None, covered: int = 0, durable: bool = True
    ) -> None:
        assert self._promised is not None, "the store is open"
        self._promised.note(self.synced, segment=segment, covered=covered, durable=durable)

    def read(self, address: int, size: int) -> Buffer:
        """Return verified bytes of a record."""
        recent = self._recent.read(address, size)
        if recent is not None:
            return recent
        bases, segments = self._table
        # The table is read once: `reclaim`, in the owner's thread, may replace it.
        index = bisect_right(bases, address) - 1
        if index < 0 or address + size > segments[index].end:
            raise DamagedRecord(f"the log has no {size} bytes at position {address} any more")
        return self._verified.read(segments[index], address, size) if size else b""

    def verify(self, position: int, end: int, most: int) -> VerifiedPart:
        """Verify records that are kept and durable, from a position on; from any thread.

        Args:
            end: Where to stop.
            most: Number of bytes after which to stop.
        """
        bases, segments = self._table
        index = max(bisect_right(bases, position) - 1, 0)
        while index < len(segments) and segments[index].end <= position:
            index += 1
        if index == len(segments):
            return VerifiedPart(max(position, end))
        segment = segments[index]
        stop = min(end, segment.end)
        looked = self._verified.verify(segment, max(position, segment.base), stop, most)
        if looked.damaged and segment.base not in self._table[0]:
            # The owner has closed its file meanwhile, because nothing that it holds is needed.
            looked.damaged.clear()
        if looked.position >= segment.end and index + 1 < len(segments):
            looked.position = max(looked.position, segments[index + 1].base)
        return looked

    def checkpoint(self, state: Sequence[Buffer], position: int) -> None:
        """Make ``state`` the newest checkpoint."""
        pending = self.checkpoint_begin(state, position)
        pending.write()
        self.checkpoint_install(pending)

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> PendingCheckpoint:
        """Begin a checkpoint: the first of three steps of ``checkpoint``, with the slow one in
        another thread.

        ``checkpoint_begin`` and ``checkpoint_install`` are for the owner; between them the
        ``write`` of the result may run in any thread, while the owner goes on appending. One
        checkpoint at a time. Its state is whole when ``write`` is called, and does not change until
        that is over.
        """
        self._alive()
        assert position <= self.synced, "a checkpoint of what is not durable"
        assert position >= self._checkpoint.position, "a checkpoint older than the last one"
        # A record that a start has cut may lie whole right behind this position; only its epoch
        # shows that it is none. Behind a position from before this start, records of earlier starts
        # count.
        epoch = self._epoch if position >= self._opened_at else self._checkpoint.epoch
        ends = tuple((s.base, s.end) for s in self._table[1] if s.end <= position)
        head = checkpoints.CheckpointHead(position, epoch, ends)
        return PendingCheckpoint(head, state, self._write_checkpoint)

    def _write_checkpoint(self, pending: PendingCheckpoint) -> None:
        try:
            checkpoints.write_with_reserve(
                self._files, self.path, self.store_id, pending, self._pool
            )
        except StorageFailure as error:
            if not isinstance(error, NoSpace):
                # This may be another thread: the owner hears of it at its next call (`_alive`).
                self._failed_aside = error
            raise

    def checkpoint_install(self, pending: PendingCheckpoint) -> None:
        """Make a written checkpoint the one that counts: the last step."""
        self._alive()
        head = pending.head
        written = os.path.join(self.path, checkpoints.name_of(head.position) + ".new")
        try:
            keep = self._held.checkpoint if self._held is not None else 0
            checkpoints.install(self._files, self.path, written, head.position, keep=keep)
            # After the checkpoint has its name: a start refuses a store without the checkpoint that
            # it promises.
            self._note(covered=head.position)
        except StorageFailure as error:
            self._die(error)
        self._checkpoint = head
        self._checkpoint_bytes = sum(map(len, pending.state))

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        """Remove or recycle segments that nothing needs."""
        self._alive()
        _, segments = self._table
        covered = self._checkpoint.position
        held = self._held.position if self._held is not None else 0
        gone = [
            s for s in segments[:-1]
            if held <= s.base and s.end <= covered and not live(s.base, s.end)
        ]  # fmt: skip
        if not gone:
            return 0
        # The live messages are known from all records. Should the last records be lost, so that
        # messages are there again, their bytes must be there, too.
        self.sync()
        bases = {s.base for s in gone}
        kept = [s for s in segments if s.base not in bases]
        try:
            pairs = [(s.base, s.end) for s in kept if s.end <= covered]
            if not promises.tell_kept(
                self._files, self.path, self.store_id, covered, pairs, self._pool
            ):
                return 0
            self._table = ([s.base for s in kept], kept)
            for segment in gone:
                self._files.close(segment.file)
                self._verified.forget(segment.base, segment.end)
                self._pool.retire(segment.path, segment.size)
            # Before the pool hands one of these files out again: under a new name its header is
            # overwritten, and with the old name on the disk that would be a damaged segment.
            self._files.sync_directory(self.path)
        except StorageFailure as error:
            self._die(error)
        return sum(segment.size for segment in gone)

    def hold(self) -> StoreCut:
        """Sync, and keep everything up to now until ``release``."""
        from onceq.model.views.managers import StoreCut

        self.sync()
        segments = tuple((s.base, s.end, s.size) for s in self._table[1])
        head = self._checkpoint
        self._held = StoreCut(self.path, self.synced, self._epoch, head.position, segments)
        return self._held

    def release(self) -> None:
        """End the hold."""
        self._held = None

    @property
    def plenty(self) -> bool:
        """Return True if more segments are ready than the reserve needs."""
        return self._pool.plenty

    def trim(self, *, half: bool = False) -> None:
        """Give ready segments beyond the reserve, or half of these, back to the file system."""
        self._alive()
        try:
            if self._pool.trim(half=half):
                self._files.sync_directory(self.path)
        except StorageFailure as error:
            self._die(error)

    def segments(self) -> tuple[SegmentUse, ...]:
        """Return all segments, oldest first."""
        return tuple(SegmentUse(s.base, s.end, s.size) for s in self._table[1])

    def free_bytes(self) -> int:
        """Return the space left for new records."""
        segments = self._table[1]
        left = max(segments[-1].limit - self.position, 0) if segments else 0
        # The log takes whole segments: less than one is of no use to it.
        segment = self.segment_bytes
        whole = self._files.free_bytes(self.path) // segment * segment
        return whole + self._pool.bytes + left

    def room_bytes(self) -> int:
        """Return the free bytes of the disk and the bytes of this store, together."""
        return self._files.free_bytes(self.path) + self.disk_bytes()

    def disk_bytes(self) -> int:
        """Return what the store takes on the disk."""
        return sum(s.size for s in self._table[1]) + self._pool.bytes + self._checkpoint_bytes

    def disk_parts(self) -> dict[str, int]:
        """Return the same by kind: the log, segments that are ready for it, and the newest
        checkpoint."""
        log = sum(s.size for s in self._table[1])
        return {"log": log, "ready": self._pool.bytes, "checkpoint": self._checkpoint_bytes}

    def close(self) -> None:
        """Sync, mark the store as closed in order, release the lock."""
        try:
            if self._dead is None and self._lock >= 0:
                self.sync()
                self._note()
                # Opened after a disorderly end, with nothing written since: that end still counts
                # for the process before.
                untouched = not self.recovered.clean and self.position == self._opened_at > 0
                if not untouched:
                    with contextlib.suppress(NoSpace):  # all is durable also without the note
                        closed = OrderlyClose(self.position, self._epoch)
                        identification.write_closed(self._files, self.path, self.store_id, closed)
        finally:
            self.abandon()

    def _alive(self) -> None:
        self._dead = self._dead or self._failed_aside or self._preparing.failed
        if self._dead is not None:
            raise self._dead
        if self._lock < 0:
            raise StorageFailure(f"the store in {self.path} is closed")

    def _die(self, error: StorageFailure) -> NoReturn:
        self._dead = error
        raise error
