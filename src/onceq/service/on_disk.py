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
        """Make it the one that counts."""

    def prepare(self) -> bool:
        """See to it that a segment lies ready before the log needs it; does not wait for it."""

    def note(self) -> None:
        """Write down how far the log goes, without waiting for the disk."""

    @property
    def segment_bytes(self) -> int:
        """Size of the next segment of the log."""

    def room_bytes(self) -> int:
        """What is free on the disk and what the store takes of it, together."""

    @property
    def plenty(self) -> bool:
        """Whether more segments lie ready than the reserve needs."""

    def trim(self, *, half: bool = False) -> None:
        """Give back segments that lie ready beyond the reserve, or half of these."""
