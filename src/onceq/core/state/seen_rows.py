"""What this manager has seen of the rows that decide: for each database how many, and up to where.

A database keeps its rows until they are removed in bulk, and may be set back to a state that it had
before: its rows are then missing, though branches were committed for them. So that this is noticed,
the manager counts. ``mark`` says up to which number rows are to be looked for, and of the branches
that were committed the counts up to the mark and beyond it are known. When they were found, the
database is given a note with the number of the mark (``partners/last_agent.py``), which is ``kept``
from then on, and the rows before it may be removed. The note is younger than all rows that were
found for it: a state of the database without one of these has no note either.

Branches end in any order. One whose number is not above the mark may be committed when the mark is
set already, and its row may be younger than the note. These are few, as many as are open at a time.
So they are listed one by one (``late``) until the next mark is set, and looked for (``looked``)
until the rows up to that were found.

A row that is counted and was never written makes the database look as if it had been set back. So
what is known of a database has an owner: who was the first to commit a branch by its rows. Others
need a right for it (``core/rights/demands.py``).

Upholds: I21 (a database that was set back is recognised), I22.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceq.core.state.rows import read_row, row_of
from onceq.model.record import MutableRecord, field

_OLD_NUMBERS: Final = 4
"""Behind the first one, in checkpoints of versions that wrote no notes."""


class Rows(MutableRecord):
    """Of one database.

    Attributes:
        kept: Up to which number nothing is looked for but what is late; 0: nothing is known.
        noted: Whether there must be a note of that number.
        mark: Up to which number rows are to be looked for now; 0: none are.
        before: How many branches with numbers above ``kept``, up to ``mark``, were committed before
            the mark was set.
        behind: How many with numbers above ``mark``, or above ``kept`` if there is none.
        last: The highest number that was committed.
        late: Numbers up to ``mark``, or ``kept``, that were committed since the mark was set.
        looked: Those that were late when it was set.
        by: Who has committed first by its rows; empty: whoever runs the manager, or an older
            version.
        missing: Whether somebody looked and did not find all that must be there.
    """

    kept: int = 0
    noted: bool = False
    mark: int = 0
    before: int = 0
    behind: int = 0
    last: int = 0
    late: list[int] = field(default_factory=list)
    looked: list[int] = field(default_factory=list)
    by: str = ""
    missing: bool = False


class SeenRows:
    """Of all databases, by name."""

    __slots__ = ("_by_name", "set_back")

    def __init__(self) -> None:
        self._by_name: dict[str, Rows] = {}
        self.set_back: set[str] = set()
        """Names of those of which rows are missing."""

    def get(self, name: str) -> Rows:
        """Of one; as of one that nothing is known of, if so."""
        return self._by_name.get(name) or Rows()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def owner(self, name: str) -> str | None:
        """Whose one is; None: nothing is known of it."""
        rows = self._by_name.get(name)
        return rows.by if rows is not None else None

    def committed(self, name: str, number: int, by: str) -> None:
        """A branch, which ``by`` has promised, was committed because its row is there."""
        rows = self._by_name.get(name)
        if rows is None:
            rows = self._by_name[name] = Rows(by=by)
        if number > (rows.mark or rows.kept):
            rows.behind += 1
        else:
            rows.late.append(number)
        rows.last = max(rows.last, number)

    def marked(self, name: str) -> None:
        """Rows up to the last one are to be looked for."""
        rows = self._by_name[name]
        rows.mark, rows.before, rows.behind = rows.last, rows.before + rows.behind, 0
        rows.looked, rows.late = rows.looked + rows.late, []

    def found(self, name: str, *, noted: bool) -> None:
        """They are there.

        Args:
            noted: The database has the note. Older versions wrote none, and may have removed rows
                that are late.
        """
        rows = self._by_name[name]
        rows.kept, rows.noted, rows.mark, rows.before, rows.looked = rows.mark, noted, 0, 0, []
        rows.missing = False
        self.set_back.discard(name)
        if not noted:
            rows.late = []

    def miss(self, name: str, *, missing: bool) -> None:
        """Not all of them are there; or they are there again."""
        self._by_name[name].missing = missing
        (self.set_back.add if missing else self.set_back.discard)(name)

    def forget(self, name: str) -> None:
        """The database is taken as it is: which rows it has up to the last, nobody asks."""
        rows = self.get(name)
        if rows.last:
            self._by_name[name] = Rows(kept=rows.last, last=rows.last, by=rows.by)
            self.set_back.discard(name)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[name, *row_of(rows)] for name, rows in self._by_name.items()]

    def load(self, rows: list[list[Any]]) -> None:
        """Take the rows of a checkpoint; those of older versions have no lists or owners, and know
        of no note."""
        for name, kept, *others in rows:
            if len(others) == _OLD_NUMBERS:
                others.insert(0, False)
            found = self._by_name[name] = read_row(Rows, [kept, *others])
            if found.missing:
                self.set_back.add(name)
