"""The run: consecutive messages as one piece of bytes and a table of lengths.

Nothing here looks inside a message. A run of packets and a run of bodies have the same form.

Messages of one batch are often of one size. Two tables of numbers are compared fifty times as fast
as their numbers are added up, so who needs a sum asks first whether they are all alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from onceq.model.record import MutableRecord, Record

Buffer = bytes | bytearray | memoryview

LENGTH_TYPE = "I"
"""Array type of a length table: unsigned 32-bit."""
_FEW = 32
"""For up to this many lengths, a sum is as fast as the check whether they are alike."""


def alike(lengths: array[int]) -> bool:
    """Whether all lengths of a table, which is not empty, are the same."""
    return lengths[0] == lengths[-1] and lengths == lengths[:1] * len(lengths)


def total_of(lengths: array[int]) -> int:
    """The sum of a table of lengths, in bytes."""
    if len(lengths) > _FEW and alike(lengths):
        return lengths[0] * len(lengths)
    return sum(lengths)


def largest_of(lengths: array[int]) -> int:
    """The largest of a table of lengths, in bytes; 0 for an empty one."""
    if len(lengths) > _FEW and alike(lengths):
        return lengths[0]
    return max(lengths, default=0)


def starts_of(lengths: array[int], first: int = 0) -> Iterable[int]:
    """Where each message of a table begins if the first begins at ``first``; and, as the last,
    where all of them end."""
    if len(lengths) > _FEW and lengths[0] and alike(lengths):
        return range(first, first + lengths[0] * len(lengths) + 1, lengths[0])
    return accumulate(lengths, initial=first)


class Run(MutableRecord):
    """Consecutive messages: their bytes one after another, and the length of each.

    Attributes:
        data: The bytes of all messages.
        lengths: One unsigned 32-bit length a message; they add up to ``len(data)``.
    """

    data: Buffer
    lengths: array[int]

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (bytes(self.data), self.lengths)  # A piece of memory is no thing to pickle.

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
        start = total_of(self.lengths[:first])
        lengths = self.lengths[first : first + count]
        return Run(memoryview(self.data)[start : start + total_of(lengths)], lengths)

    @classmethod
    def of(cls, items: Sequence[Buffer]) -> Run:
        """Join separate messages into a run."""
        return cls(b"".join(items), array(LENGTH_TYPE, map(len, items)))


class InTwoParts(Record, frozen=True):
    """Where packets lie that are written in two parts: a front of each one's own, and a rest that
    it shares with packets in other queues. The fronts lie one after another.

    Attributes:
        front: Bytes of the front of each.
        rests: Log address of the rest of each.
    """

    front: int
    rests: array[int]

    def part(self, first: int, count: int) -> InTwoParts:
        """Of ``count`` packets from index ``first`` on."""
        return InTwoParts(self.front, self.rests[first : first + count])


class Extent(MutableRecord):
    """A piece of the store's log: where bytes of messages lie.

    ``address`` is a logical log position (see ``model/log.py``); ``size`` is in bytes.
    """

    address: int
    size: int
