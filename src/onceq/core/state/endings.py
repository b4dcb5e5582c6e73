"""How messages of one outgoing queue ended: by class, since it was opened.

A sender that asks for nothing hears of no refusal, so this is where a refusal is told to those
who run the queue manager (finding U1). The numbers are durable, and no record has them: they follow
from the records that end the messages, so that a record that was lost in a crash counts for
nothing, and a repetition of what it said counts once.

Upholds: I22 (recovery counts what running has counted), I24 (a bounded number of rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from onceq.core.state.rows import read_row, row_of
from onceq.model.classes import MessageClass
from onceq.model.limits import LATE_REFUSALS_KEPT
from onceq.model.record import MutableRecord, Record

OTHER: Final = 0
"""In place of classes that only another queue manager knows."""
_KNOWN: Final = frozenset(map(int, MessageClass))


class EndingCount(MutableRecord):
    """Messages that ended in one way.

    Attributes:
        message_class: How they ended; OTHER stands for every class that is not known here.
        cause: Of those in doubt what has ended the wait for them (``Message.note``); else 0.
        messages: How many.
        letters: How many of them were kept as dead letters.
        at_s: When the last one ended.
        late: How many of them were refused when this manager had let go of them.
    """

    message_class: int
    cause: int
    messages: int = 0
    letters: int = 0
    at_s: int = 0
    late: int = 0


class LateRefusal(Record, frozen=True):
    """A message that its receiver has refused when its sender had let go of it.

    Attributes:
        id: As people write it.
        message_class: Why.
        at_s: When that was heard.
    """

    id: str
    message_class: int
    at_s: int


class Endings:
    """See the module."""

    __slots__ = ("_rows", "late")

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], EndingCount] = {}
        self.late: list[LateRefusal] = []
        """The last ones; the rows count all."""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[EndingCount]:
        return iter(self._rows.values())

    def note(
        self, reason: int, cause: int, count: int, *, letters: int, at_s: int, late: int = 0
    ) -> None:
        """Some messages have ended.

        Args:
            letters: How many of them are kept as dead letters.
            late: How many of them were refused late.
        """
        key = int(reason) if reason in _KNOWN else OTHER, int(cause)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = EndingCount(*key)
        row.messages += count
        row.letters += letters
        row.late += late
        row.at_s = at_s

    def refuse_late(self, one: LateRefusal) -> None:
        """A message that was let go of was refused."""
        self.note(one.message_class, 0, 1, letters=0, at_s=one.at_s, late=1)
        self.late = [*self.late, one][-LATE_REFUSALS_KEPT:]

    def settle(
        self, doubt: int, cause: int, reason: int, *, letters: tuple[bool, bool], at_s: int
    ) -> None:
        """The true end of a message in doubt has become known: it counts where it belongs.

        Args:
            doubt: The class of what is in doubt.
            cause: What has ended the wait for it.
            reason: How it ended.
            letters: Whether it was a dead letter, and whether it is one now.
        """
        row = self._rows.get((doubt, cause))
        if row is None:
            return  # it ended before anybody counted
        row.messages -= 1
        row.letters -= letters[0]
        if row.messages <= 0:
            del self._rows[doubt, cause]
        self.note(reason, 0, 1, letters=int(letters[1]), at_s=at_s)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return list(map(row_of, self))

    def dump_late(self) -> list[list[Any]]:
        """The rows of a checkpoint of what was refused late."""
        return list(map(row_of, self.late))

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint; older ones do not count what was refused late."""
        for row in rows:
            self._rows[row[0], row[1]] = read_row(EndingCount, row)

    def load_late(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of what was refused late."""
        self.late = [read_row(LateRefusal, row) for row in rows]
