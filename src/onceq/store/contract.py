"""The promises of a store to the engine, on any kind of storage.

A store is one log of records and the newest checkpoint. The engine appends records in the order of
the core's decisions, syncs once for all that came together, and only then lets the core's actions
be performed. After a crash the store gives back the newest checkpoint and every record after it, up
to the end of what is whole.

Promises:
    1. After ``sync`` returns, every record appended before it survives any power cut.
    2. ``open`` gives back a prefix of what was appended, at least as long as the last sync covered.
       A torn tail is cut. Damage below the last sync is refused (I23); but for packets in a record
       whose head is right: they are named in ``Recovered.damaged``.
    3. Positions (``model/log.py``) never repeat, also across crashes: an append after recovery
       begins where the kept prefix ended.
    4. If a call that writes raises StorageFailure the store is dead: later ones raise too, and only
       ``close`` lets go. Nobody may try a sync again (a kernel may have dropped the pages). One
       exception: ``checkpoint`` may raise NoSpace and the store lives on.
    5. Bytes of a record can be read by address as long as the segment that they lie in is kept; a
       segment is kept while it is at or after the checkpoint or while the engine names it live.

Not thread-safe: one caller at a time, except ``read``, which may be called from any thread.

Also here:

* A store that forgets everything when the process ends: for tests and for trying things out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from onceq.errors import DamagedRecord, UnsupportedOperation
from onceq.errors.cases import DamagedPiece
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.record import Record
from onceq.model.run import Buffer
from onceq.model.views.managers import Cut

# ---- contract ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of ``open``.

    Attributes:
        checkpoint: The newest whole checkpoint's state, or None for a new store.
        checkpoint_position: Log position that the checkpoint covers up to (records at or after it
            must be replayed).
        torn_bytes: Bytes of an unsynced tail that were cut; 0 after a clean stop.
        clean: Whether the store was closed in order and nothing was written since.
        damaged: Packets in records from there on that are not what was written.
    """

    checkpoint: bytes | None
    checkpoint_position: int
    torn_bytes: int
    clean: bool
    damaged: tuple[DamagedPiece, ...] = ()


class SegmentUse(Record, frozen=True):
    """One segment file: where it begins in the log and how large it is on disk."""

    base: int
    end: int
    disk_bytes: int


class Replayed(NamedTuple):
    """A record that is read again; ``damaged`` are addresses and sizes of damaged packets."""

    position: int
    payload: memoryview
    damaged: tuple[tuple[int, int], ...] = ()


class Store(Protocol):
    """A store with the promises above. All sizes in bytes, all positions logical."""

    @property
    def position(self) -> int:
        """Return where the next record's frame will begin."""

    @property
    def synced(self) -> int:
        """Return the position before which everything survives a power cut."""

    @property
    def remembered(self) -> int:
        """Return the address from which on writes are in memory, and are not read from the disk."""

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """Yield position of the frame and payload of each record from the checkpoint on, in order.

        To be read to its end once, before the first append.
        """

    def append(self, payload: bytes, head: int = 0) -> int:
        """Add one record; no I/O yet.

        Args:
            head: Bytes of the payload before its packets: damage behind them does not cost the
                record; 0: it brings no packets.

        Returns:
            The position of its frame; its payload begins FRAME_HEADER bytes later.
        """

    def flush(self) -> None:
        """Hand the appended records to the operating system, without waiting for the disk."""

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. One wait for all of it."""

    def read(self, address: int, size: int) -> Buffer:
        """Return bytes of a record by logical address, appended ones included.

        Raises:
            DamagedRecord: The bytes are gone or the file cannot be read.
        """

    def checkpoint(self, state: Sequence[Buffer], position: int) -> None:
        """Make ``state`` the newest checkpoint; it covers every record before ``position``.

        Safe at every crash point: the old checkpoint counts until the new one is durable.

        Raises:
            NoSpace: There is no room for it, the reserve included; the old one still counts.
        """

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        """Remove or recycle segments before the checkpoint that no message needs.

        Args:
            live: Called with (base, end) of a segment: returns whether any message bytes in it are
                needed.

        Returns:
            Bytes of disk given back or kept ready for reuse.
        """

    def hold(self) -> Cut:
        """Sync, and keep everything up to now in its files until ``release``.

        One at a time: a second one replaces the first.
        """

    def release(self) -> None:
        """End the hold: its files may go again, with the next ``reclaim``."""

    def segments(self) -> tuple[SegmentUse, ...]:
        """Return all segments, oldest first."""

    def free_bytes(self) -> int:
        """Return the space left for new records, the reserve of ready segments included."""

    def disk_bytes(self) -> int:
        """Return what the store takes on the disk."""

    def close(self) -> None:
        """Sync, mark the store as closed in order, release the lock; a dead store only lets go."""


# ---- memory --------------------------------------------------------------------------------------


class MemoryStore:
    """Keeps the promises of ``contract.py`` for as long as the object lives."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._payloads: list[bytes] = []
        self._heads: dict[int, int] = {}
        self._state: bytes | None = None
        self._covered = 0
        self.position = 0
        self.synced = 0
        self.remembered = 0
        self.syncs = 0

    @property
    def recovered(self) -> Recovered:
        """Return what a new start would find."""
        return Recovered(self._state, self._covered, 0, True)

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the records from the checkpoint on."""
        for position, payload in zip(self._positions, self._payloads, strict=True):
            if position >= self._covered:
                yield position, memoryview(payload)

    def append(self, payload: bytes, head: int = 0) -> int:
        """Add one record."""
        position = self.position
        self._positions.append(position)
        self._payloads.append(payload)
        if head:
            self._heads[position] = head
        self.position += frame_size(len(payload), head)
        return position

    def flush(self) -> None:
        """Do nothing: there is no operating system below."""

    def sync(self) -> None:
        """Count everything appended so far as durable."""
        self.synced = self.position
        self.syncs += 1

    def read(self, address: int, size: int) -> Buffer:
        """Return bytes of a record."""
        index = bisect_right(self._positions, address) - 1
        if index < 0:
            raise DamagedRecord(f"nothing lies at {address}")
        at = address - self._positions[index] - FRAME_HEADER
        piece = memoryview(self._payloads[index])[at : at + size]
        if at < 0 or len(piece) != size:
            raise DamagedRecord(f"no {size} bytes lie at {address}")
        return piece

    def checkpoint(self, state: Sequence[Buffer], position: int) -> None:
        """Make ``state`` the newest checkpoint."""
        self._state = b"".join(state)
        self._covered = position

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        """Forget records that nothing needs; here every record is a segment of its own."""
        freed = 0
        kept: list[tuple[int, bytes]] = []
        ends = [*self._positions, self.position][1:]
        for position, payload, end in zip(self._positions, self._payloads, ends, strict=True):
            if position < self._covered and not live(position, end):
                freed += len(payload)
            else:
                kept.append((position, payload))
        self._positions = [position for position, _ in kept]
        self._payloads = [payload for _, payload in kept]
        return freed

    def hold(self) -> Cut:
        """Keep everything; there are no files, so nothing that anybody could copy."""
        raise UnsupportedOperation("this store is in memory only: there is nothing to back up")

    def release(self) -> None:
        """End the hold."""

    def segments(self) -> tuple[SegmentUse, ...]:
        """Return all segments, oldest first."""
        ends = [p + frame_size(len(d), self._heads.get(p, 0)) for p, d in
                zip(self._positions, self._payloads, strict=True)]  # fmt: skip
        return tuple(SegmentUse(p, e, e - p) for p, e in zip(self._positions, ends, strict=True))

    def free_bytes(self) -> int:
        """Return the space left for new records."""
        return 1 << 40

    def disk_bytes(self) -> int:
        """Return what the store takes."""
        return sum(map(len, self._payloads))

    def close(self) -> None:
        """Close the store."""
        self.sync()
