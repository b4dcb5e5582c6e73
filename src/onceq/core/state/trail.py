"""Who did what to this queue manager, and when: the last acts of administration.

Every act is a record of the log, written with the act itself, so that neither a crash nor a restart
loses it; what was refused for want of a right is noted, too. Acts are numbered for ever. As many as
TRAIL_MAX are kept; when older ones go, the numbers say how many there were.

Upholds: I22, I24 (TRAIL_MAX), I28 (who did something is known).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onceq.model.limits import TRAIL_MAX


class Act(NamedTuple):
    """One act.

    Attributes:
        at_s: Second since 1970.
        who: The actor, as ``kind:name``.
        where: From where: an address, or "local", with the process if that is known.
        what: The act in a few words, such as ``purge queue``.
        about: Of what: a queue, a name, what was granted.
        result: "" for done or begun; else the code of the error.
    """

    number: int
    at_s: int
    who: str
    where: str
    what: str
    about: str
    result: str


class Trail:
    """See the module."""

    __slots__ = ("_acts", "next")

    def __init__(self) -> None:
        self._acts: list[Act] = []
        self.next = 1
        """Number of the next act."""

    def __iter__(self) -> Iterator[Act]:
        return iter(self._acts)

    def __len__(self) -> int:
        return len(self._acts)

    def note(self, act: Act) -> None:
        """A record says that something was done."""
        self._acts.append(act)
        del self._acts[:-TRAIL_MAX]
        self.next = act.number + 1

    def behind(self, number: int, count_max: int) -> list[Act]:
        """The next acts behind a number, in their order."""
        first = self.next - len(self._acts)
        skip = max(number + 1 - first, 0)
        return self._acts[skip : skip + count_max]

    def dump(self) -> list[list[Any]]:
        """For a checkpoint."""
        return [list(act) for act in self._acts]

    def load(self, rows: list[list[Any]]) -> None:
        """From a checkpoint."""
        for row in rows:
            self.note(Act(*row))
