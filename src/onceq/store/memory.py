"""A store that forgets everything when the process ends: for tests and for trying things out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from onceq.errors import DamagedRecord, UnsupportedOperation
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.run import Buffer
from onceq.model.views.managers import StoreCut
from onceq.store.contract import Recovered, SegmentUse


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

    def hold(self) -> StoreCut:
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
