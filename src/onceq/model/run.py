"""The run: consecutive messages as one piece of bytes and a table of lengths (product D12).

Nothing here looks inside a message. A run of packets and a run of bodies have the same form.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview

LENGTH_TYPE = "I"
"""Array type of a length table: unsigned 32-bit."""


@dataclass(slots=True)
class Run:
    """Consecutive messages: their bytes one after another, and the length of each.

    Attributes:
        data: The bytes of all messages.
        lengths: One unsigned 32-bit length a message; they add up to ``len(data)``.
    """

    data: Buffer
    lengths: array[int]

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[memoryview]:
        view, at = memoryview(self.data), 0
        for length in self.lengths:
            yield view[at : at + length]
            at += length

    def part(self, first: int, count: int) -> Run:
        """``count`` messages from index ``first`` on, without copying bytes."""
        if first == 0 and count == len(self.lengths):
            return self
        start = sum(self.lengths[:first])
        lengths = self.lengths[first : first + count]
        return Run(memoryview(self.data)[start : start + sum(lengths)], lengths)

    @classmethod
    def of(cls, items: Sequence[Buffer]) -> Run:
        """Join separate messages into a run."""
        return cls(b"".join(items), array(LENGTH_TYPE, map(len, items)))


@dataclass(slots=True)
class Extent:
    """A piece of the store's log: where bytes of messages lie.

    ``address`` is a logical log position (see ``model/log.py``); ``size`` is in bytes.
    """

    address: int
    size: int
