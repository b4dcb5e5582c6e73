"""Which stored bytes are damaged: what an error says, and the core is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DamagedPiece:
    """Stored bytes that are not what was written, or cannot be read.

    Attributes:
        address, size: Where they lie in the log.
        path, offset: In which file, and where there.
    """

    address: int
    size: int
    path: str
    offset: int

    @property
    def span(self) -> range:
        """The log addresses of these bytes."""
        return range(self.address, self.address + self.size)
