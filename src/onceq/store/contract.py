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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onceq.errors.base import DamagedPiece
from onceq.model.record import Record
from onceq.model.run import Buffer

if TYPE_CHECKING:
    from onceq.model.views.managers import StoreCut


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

    def hold(self) -> StoreCut:
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
