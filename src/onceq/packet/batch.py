"""Messages that were received or peeked together, decoded one by one when they are read.

A queue manager hands out, a connection carries, and an application gets the same object: packets as
one piece of memory, and tables with a number for each of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, cast, overload

from onceq.model.message import Message
from onceq.model.run import Run
from onceq.packet.decode import bodies, message_of
from onceq.packet.headers import headers

_NONE_BEFORE: Final = (0, "")
"""Of a message whose receive has never failed before."""


class Batch(Sequence[Message]):
    """Messages that were received or peeked together; each is decoded when it is read.

    Attributes:
        lookup_ids: Lookup identifier of each message.
        run: Their packets, for forwarding.
        scanned: Of a search: the lookup identifier that it has reached; else 0.
    """

    __slots__ = (
        "_aborts", "_arrived", "_moves", "_starts", "failures", "lookup_ids", "notes", "run",
        "scanned",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        lookups: array[int],
        arrived: array[int],
        aborts: array[int],
        moves: Iterable[tuple[int, int, int]] = (),
        scanned: int = 0,
        notes: Iterable[tuple[int, int]] = (),
        failures: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        self.run = run
        self.lookup_ids = lookups
        self._arrived = arrived
        self._aborts = aborts
        self._moves = {index: (count, at_s) for index, count, at_s in moves} if moves else {}
        self.scanned = scanned
        self.notes = dict(notes)
        """By index: what is known of a dead letter beside its class (``Message.note``)."""
        self.failures = {index: (times, why) for index, times, why in failures} if failures else {}
        """By index: how many receives of a message failed at places that it had before, and the
        reason that the last receiver gave (``Message.attempts``, ``Message.failure``)."""
        self._starts: list[int] = []

    def __getstate__(self) -> object:
        """Copy the bytes: an embedded manager's are in the memory of its log."""
        values, slots = cast(tuple[Any, dict[str, Any]], super().__getstate__())
        return values, slots | {"run": Run(bytes(self.run.data), self.run.lengths)}

    def __len__(self) -> int:
        return len(self.run.lengths)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        lengths = self.run.lengths
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(lengths)))]
        if index < 0:
            index += len(lengths)
        if not 0 <= index < len(lengths):
            raise IndexError(index)
        if not self._starts:
            # One assignment: a second thread sees all of it, or nothing (finding K12).
            self._starts = [0, *accumulate(lengths)]
        start = self._starts[index]
        packet = memoryview(self.run.data)[start : start + lengths[index]]
        times, why = self.failures.get(index, _NONE_BEFORE)
        return message_of(
            headers(packet),
            arrived_time=self._arrived[index],
            lookup_id=self.lookup_ids[index],
            abort_count=self._aborts[index],
            moves=self._moves.get(index, (0, 0)),
            note=self.notes.get(index, 0),
            attempts=times + self._aborts[index],
            failure=why,
        )

    def __iter__(self) -> Iterator[Message]:
        return map(self.__getitem__, range(len(self.run.lengths)))

    @property
    def arrived_times(self) -> array[int]:
        """Return the seconds since 1970 UTC at which each message entered the queue."""
        return self._arrived

    @property
    def abort_counts(self) -> array[int]:
        """Return how often a transaction that received each was aborted."""
        return self._aborts

    @property
    def moves(self) -> list[tuple[int, int, int]]:
        """Return (index, how often, second of the last) of those moved between subqueues."""
        return [(index, *moved) for index, moved in self._moves.items()]

    def bodies(self) -> list[bytes]:
        """Return all bodies without decoding anything else: the fast way through a large batch."""
        return bodies(self.run)

    def over(self, run: Run) -> Batch:
        """Return the same messages with other packets, one for each."""
        return Batch(
            run, self.lookup_ids, self._arrived, self._aborts, self.moves, self.scanned,
            self.notes.items(), [(i, *failure) for i, failure in self.failures.items()],
        )  # fmt: skip

    def part(self, first: int, count: int) -> Batch:
        """Return ``count`` of the messages from index ``first`` on, without copying them."""
        end = first + count
        return Batch(
            self.run.part(first, count),
            self.lookup_ids[first:end],
            self._arrived[first:end],
            self._aborts[first:end],
            [(i - first, *moved) for i, moved in self._moves.items() if first <= i < end],
            notes=[(i - first, note) for i, note in self.notes.items() if first <= i < end],
            failures=[(i - first, *one) for i, one in self.failures.items() if first <= i < end],
        )

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} messages>"
