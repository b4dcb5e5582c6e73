"""How many bytes of which part of the log are still needed.

The store may only give back a segment in which no message lives. The core knows each message's
address but not the store's files, so it counts live bytes in small regions of the log. A region
begins at the position of a record, so that no message lies in two.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from onceq.model.run import Extent

REGION_BYTES = 1 << 20
"""A new region begins with the first record after this many bytes."""


@dataclass(frozen=True, slots=True)
class Live:
    """Messages whose packets lie in one part of the log (for moving them elsewhere)."""

    queue: int
    lane: int
    counters: tuple[int, ...]
    extents: tuple[Extent, ...]
    lengths: array[int]


class Space:
    """Live bytes by region of the log."""

    __slots__ = ("_live", "bases", "region_end", "total")

    def __init__(self) -> None:
        self.bases: list[int] = []
        """Where the regions begin, in order; nothing before the first of them is needed."""
        self._live: dict[int, int] = {}
        self.region_end = 0
        """The first record with messages that begins here or later begins a region."""
        self.total = 0

    def begin(self, position: int) -> None:
        """A region begins, with the record at ``position``."""
        bases = self.bases
        # ``sub`` never drops the last region, because the next message may come to lie in it.
        if bases and self._live[bases[-1]] == 0:
            del self._live[bases.pop()]
        self.restore(position)

    def add(self, address: int, size: int) -> None:
        """Bytes at ``address`` are needed from now on."""
        bases = self.bases
        base = bases[-1] if address >= bases[-1] else bases[bisect_right(bases, address) - 1]
        self._live[base] += size
        self.total += size

    def sub(self, address: int, size: int) -> None:
        """Bytes at ``address`` are not needed any more."""
        bases = self.bases
        index = bisect_right(bases, address) - 1
        base = bases[index]
        left = self._live[base] - size
        assert left >= 0, f"region {base:#x} would hold {left} live bytes"
        self.total -= size
        if left == 0 and index != len(bases) - 1:
            del bases[index], self._live[base]
        else:
            self._live[base] = left

    def next_region(self, address: int) -> int:
        """Where the region behind the one of an address begins."""
        bases = self.bases
        index = bisect_right(bases, address)
        return bases[index] if index < len(bases) else 1 << 64

    def one_region(self, start: int, end: int) -> bool:
        """Whether bytes from ``start`` up to ``end`` lie in one region."""
        bases = self.bases
        return start >= bases[-1] or bisect_right(bases, start) == bisect_left(bases, end)

    def restore(self, base: int) -> None:
        """A region of a checkpoint, in order; its bytes are added as its messages are."""
        self.bases.append(base)
        self._live[base] = 0
        self.region_end = base + REGION_BYTES

    def prune(self) -> None:
        """Forget regions of a checkpoint in which nothing turned out to live."""
        for base in self.bases[:-1]:
            if self._live[base] == 0:
                del self._live[base]
        self.bases = [base for base in self.bases if base in self._live]

    def live_bytes(self, base: int, end: int) -> int:
        """Live bytes of all regions that begin in [base, end), and of one that reaches in."""
        bases = self.bases
        first = bisect_left(bases, base)
        if first and (first == len(bases) or bases[first] > base):
            first -= 1
        return sum(self._live[b] for b in bases[first : bisect_left(bases, end)])

    def dump(self) -> list[tuple[int, int]]:
        """Region bases and live bytes, for checks."""
        return [(base, self._live[base]) for base in self.bases]
