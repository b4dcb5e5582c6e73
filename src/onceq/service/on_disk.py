"""What housekeeping asks of a store that is on a disk, beside its contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from onceq.model.run import Buffer


class Pending(Protocol):
    """A checkpoint on its way."""

    def write(self) -> str:
        """Write it; may run in another thread."""


class OnDisk(Protocol):
    """What a store on a disk has besides its contract: ``store.log.LogStore``."""

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> Pending:
        """Begin a checkpoint."""

    def checkpoint_install(self, pending: Any) -> None:
        """Put it in force."""

    def prepare(self) -> bool:
        """Prepare a segment before the log needs it, without waiting for it."""

    def note(self) -> None:
        """Write down the length of the log, without waiting for the disk."""

    @property
    def segment_bytes(self) -> int:
        """Return the size of the next segment of the log."""

    def room_bytes(self) -> int:
        """Return the free bytes of the disk and the bytes of the store, together."""

    @property
    def plenty(self) -> bool:
        """Return True if more segments are prepared than the reserve needs."""

    def trim(self, *, half: bool = False) -> None:
        """Give back prepared segments beyond the reserve, or half of these."""
