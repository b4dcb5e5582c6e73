"""Tables for people: names are whole, and columns give way by importance.

On a terminal a table is no wider than that. First texts become shorter (a label, a trouble), then
columns leave, those that matter least before the others, and a line says which. A name is never
cut: half of one cannot be pasted. But it may have a shorter form that is one, too. In a pipe a
table is as wide as it needs to be and every row is one line, so that ``grep`` and ``awk`` work.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

GAP = 2
"""Columns between two cells."""
TEXT_MIN = 16
"""A text is not made shorter than this; its column leaves before that."""


def width_of(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def shortened(text: str, width: int) -> str:
    """A text of at most so many columns, with a sign where it was cut."""
    if width_of(text) <= width:
        return text
    kept = ""
    for one in text:
        if width_of(kept + one) >= width:
            break
        kept += one
    return f"{kept}…"


class Table:
    """Rows below a header.

    Args:
        columns: Their names.
        rows: Of texts, as many as there are columns.
        right: Places of columns that are set to the right.
        texts: Names of columns that may be cut.
        give: Names of columns that may leave, in that order; None: from the last to the second. One
            that has a shorter form may stand there twice: it becomes short before it leaves.
        brief: By the names of columns: a shorter form of each of their cells.

    Attributes:
        short: Names of the columns that were shown in their shorter form last.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[int] = (),
        texts: Sequence[str] = (),
        give: Sequence[str] | None = None,
        brief: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._columns, self._rows, self._right = columns, rows, frozenset(right)
        self._brief = {columns.index(name): cells for name, cells in (brief or {}).items()}
        self.short: list[str] = []
        self._texts = [at for at, name in enumerate(columns) if name in texts]
        order = columns[:0:-1] if give is None else give
        self._give = [columns.index(name) for name in order]
        self._natural = [self._width(at, [row[at] for row in rows]) for at in range(len(columns))]

    def _width(self, at: int, cells: Sequence[str]) -> int:
        return max(width_of(self._columns[at]), *map(width_of, cells), 0)

    def lines(self, width: int | None) -> tuple[list[str], list[str]]:
        """The table as lines, and the names of the columns that had to leave.

        Args:
            width: Columns that there are; None: as many as are needed.
        """
        kept = list(range(len(self._columns)))
        natural, rows = list(self._natural), [list(row) for row in self._rows]
        widths, leaving, brief = list(natural), list(self._give), dict(self._brief)
        while width is not None and self._total(kept, widths) > width:
            if self._squeeze(kept, widths, width) or not leaving:
                break
            at = leaving.pop(0)
            cells = brief.pop(at, None)
            if cells is None:
                kept.remove(at)
            else:
                natural[at] = self._width(at, cells)
                for row, cell in zip(rows, cells, strict=True):
                    row[at] = cell
            widths = list(natural)
        self.short = [self._columns[at] for at in kept if at in self._brief and at not in brief]
        made = [self._line(self._columns, kept, widths)]
        made += [self._line(row, kept, widths) for row in rows]
        return made, [name for at, name in enumerate(self._columns) if at not in kept]

    def _total(self, kept: Sequence[int], widths: Sequence[int]) -> int:
        return sum(widths[at] for at in kept) + GAP * (len(kept) - 1)

    def _squeeze(self, kept: Sequence[int], widths: list[int], width: int) -> bool:
        """Make texts shorter until the table fits; whether it does."""
        for at in self._texts:
            over = self._total(kept, widths) - width
            if over > 0 and at in kept:
                least = min(widths[at], max(TEXT_MIN, width_of(self._columns[at])))
                widths[at] = max(widths[at] - over, least)
        return self._total(kept, widths) <= width

    def _line(self, row: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> str:
        cells = []
        for at in kept:
            text = shortened(row[at], widths[at])
            space = " " * (widths[at] - width_of(text))
            cells.append(space + text if at in self._right else text + space)
        return (" " * GAP).join(cells).rstrip()
