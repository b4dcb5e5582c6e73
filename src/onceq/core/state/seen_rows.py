"""What this manager has seen of the rows that decide: for each database how many, and up to where.

A database keeps its rows until they are removed in bulk, and may be set back to a state that it had
before: its rows are then missing, though branches were committed for them. So that this is noticed,
the manager counts. ``kept`` is the number of a row that was there when it was looked for, and that
stays; ``mark`` the next such one, to be looked for; and of the branches that were committed the
counts up to the mark and beyond it. When the rows up to the mark were found, the mark is the one
that is kept, and those before it may be removed.

Upholds: I21 (a database that was set back is recognised), I22.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(slots=True)
class Rows:
    """Of one database.

    Attributes:
        kept: Number of a row that must be there; 0: none is known.
        mark: Up to which number rows are to be looked for now; 0: none are.
        before: How many branches with numbers above ``kept``, up to ``mark``, were committed.
        behind: How many with numbers above ``mark``, or above ``kept`` if there is none.
        last: The highest number that was committed.
    """

    kept: int = 0
    mark: int = 0
    before: int = 0
    behind: int = 0
    last: int = 0


class SeenRows:
    """Of all databases, by name."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, Rows] = {}

    def get(self, name: str) -> Rows:
        """Of one; as of one that nothing is known of, if so."""
        return self._by_name.get(name) or Rows()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def committed(self, name: str, number: int) -> None:
        """A branch was committed because its row is there."""
        rows = self._by_name.setdefault(name, Rows())
        if number > (rows.mark or rows.kept):
            rows.behind += 1
        elif number > rows.kept:
            rows.before += 1
        rows.last = max(rows.last, number)

    def marked(self, name: str) -> None:
        """Rows up to the last one are to be looked for."""
        rows = self._by_name[name]
        rows.mark, rows.before, rows.behind = rows.last, rows.before + rows.behind, 0

    def found(self, name: str) -> None:
        """They are there."""
        rows = self._by_name[name]
        rows.kept, rows.mark, rows.before = rows.mark, 0, 0

    def forget(self, name: str) -> None:
        """The database is taken as it is."""
        self._by_name.pop(name, None)

    def dump(self) -> list[list[Any]]:
        """For a checkpoint."""
        return [[name, *astuple(rows)] for name, rows in self._by_name.items()]

    def load(self, values: list[list[Any]]) -> None:
        """From one."""
        for name, *numbers in values:
            self._by_name[name] = Rows(*numbers)
