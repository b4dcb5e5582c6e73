"""What comes back from a queue manager: batches of messages, and identifiers of what was sent."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.run import Run
from onceq.packet.bodies import bodies
from onceq.packet.decode import decode


class Batch(Sequence[Message]):
    """Messages that were received or peeked together; each is decoded when it is looked at.

    Attributes:
        lookup_ids: Lookup identifier of each message.
        run: Their packets, for those who pass them on.
    """

    __slots__ = ("_aborts", "_arrived", "_starts", "lookup_ids", "run")

    def __init__(
        self, run: Run, lookups: array[int], arrived: array[int], aborts: array[int]
    ) -> None:
        self.run = run
        self.lookup_ids = lookups
        self._arrived = arrived
        self._aborts = aborts
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self.run)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        if not self._starts:
            at = 0
            for length in self.run.lengths:
                self._starts.append(at)
                at += length
        start = self._starts[index]
        packet = memoryview(self.run.data)[start : start + self.run.lengths[index]]
        return decode(
            packet,
            arrived_time=self._arrived[index],
            lookup_id=self.lookup_ids[index],
            abort_count=self._aborts[index],
        )

    def __iter__(self) -> Iterator[Message]:
        return (self[index] for index in range(len(self)))

    @property
    def arrived_times(self) -> Sequence[int]:
        """Seconds since 1970 UTC at which each message entered the queue."""
        return self._arrived

    def bodies(self) -> list[bytes]:
        """All bodies, without decoding anything else: the fast way through a large batch."""
        return bodies(self.run)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} messages>"


class MessageIds(Sequence[MessageId]):
    """Identifiers of messages that were sent together, in order."""

    __slots__ = ("_count", "_first", "_source")

    def __init__(self, source: bytes, first: int, count: int) -> None:
        self._source = source
        self._first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(index)
        return MessageId(self._source, self._first + index)

    def __repr__(self) -> str:
        return f"<{self._count} message identifiers from {self._first}>"
