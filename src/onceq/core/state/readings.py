"""Who has read a queue and removed what he had read: of each reader the last that he did.

A reader such as a stream of Spark looks at messages, writes them elsewhere, and removes them when
that is done. He knows by a checkpoint of his own how far he is. One that begins anew, or goes on
with an older checkpoint, may write to where his batches are taken for ones that were written
before: then messages would be removed and be nowhere. Only what stands here can tell him.

The record that removes messages says who has read them (``Marks.reads``), so neither is without
the other. What is known of a queue goes with it.

Upholds: I2 (removal and memory are one record), I22, I24 (READERS_MAX).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.core.state.rows import read_row, row_of
from onceq.core.state.setups import ReaderForgotten
from onceq.model.limits import READERS_MAX
from onceq.model.record import Record


@dataclass(frozen=True, slots=True)
class Read:
    """A reader has read a queue up to a place, and what he has read is removed.

    Attributes:
        queue: Its number.
        reader: His name; "" is one, too.
        query: Which life of him this is: a checkpoint has one, and another checkpoint another.
        to: Lookup identifier of the last place that was removed.
        who: What he says of himself, for people.
    """

    queue: int
    reader: str
    query: str
    to: int
    who: str


class Reading(Record, frozen=True):
    """The last of a reader in one queue; see ``Read``.

    Attributes:
        at_s: Second since 1970 of the last removal.
    """

    query: str
    to: int
    at_s: int
    who: str


_NOBODY: Final[Mapping[str, Reading]] = {}


class Readings:
    """By queue and reader; those that have read last stand last."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, dict[str, Reading]] = {}

    def __iter__(self) -> Iterator[tuple[int, str, Reading]]:
        for queue, readers in self._of.items():
            for reader, reading in readers.items():
                yield queue, reader, reading

    def queues(self) -> list[int]:
        """Numbers of the queues that have readers."""
        return list(self._of)

    def of(self, queue: int) -> Mapping[str, Reading]:
        """The readers of a queue."""
        return self._of.get(queue, _NOBODY)

    def read(self, read: Read, at_s: int) -> None:
        """A record says that somebody has read. The reader that has not for the longest time makes
        room where there are too many: then he is not warned, and nothing else."""
        readers = self._of.setdefault(read.queue, {})
        before = readers.pop(read.reader, None)
        to = read.to
        if before is not None and before.query == read.query:
            to = max(to, before.to)  # Removing again what was removed before changes nothing.
        readers[read.reader] = Reading(read.query, to, at_s, read.who)
        if len(readers) > READERS_MAX:
            del readers[next(iter(readers))]

    def apply(self, setup: ReaderForgotten) -> None:
        """Apply a setup."""
        self.forget(setup.queue, setup.reader)

    def forget(self, queue: int, reader: str) -> None:
        """A record says that a reader is forgotten."""
        readers = self._of.get(queue, {})
        readers.pop(reader, None)
        if not readers:
            self._of.pop(queue, None)

    def drop(self, queue: int) -> None:
        """A queue is gone."""
        self._of.pop(queue, None)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[queue, reader, *row_of(one)] for queue, reader, one in self]

    def load(self, rows: list[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for queue, reader, *row in rows:
            self._of.setdefault(queue, {})[reader] = read_row(Reading, row)
