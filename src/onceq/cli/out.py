"""How the command line prints: tables for people, JSON for programs, notes on stderr.

A table that goes into a pipe is as wide as it needs to be and every row is one line, so that
``grep`` and ``awk`` work. On a terminal it is no wider than that: first texts become shorter (a
label, a trouble), then columns leave, the least important first, and a line says which. A name is
never cut, because half of one cannot be pasted; but it may have a shorter form that works. Numbers
have no separators and names are written with a slash, so that both can be pasted into any shell.
Text that came from outside (labels, names, bodies) cannot steer the terminal, nor hide what it
says: characters that do are shown as escapes (finding K16).
"""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceq.hidden import HIDDEN, show_hidden

if TYPE_CHECKING:
    from onceq.model.views.view import Column

_NAMES = re.compile(
    r"(?<=private\$)\\{1,2}|\\{1,2}(?=(?:private|system)\$)|(?<=OS:)([\w.-]+)\\{1,2}"
    r"|(?<=[0-9a-f]{12})\\{1,2}(?=\d)|(?<=[0-9a-f]{12}\})\\{1,2}(?=\d)",
    re.IGNORECASE,
)
"""Backslashes of names of queues and of identifiers of messages in a sentence; two where a name is
in quotes."""


class Shape:
    """What was said about how things are shown.

    Attributes:
        wide: Tables have all their columns, whole.
        exact: Sizes are numbers of bytes.
    """

    # No dataclass; see common.GlobalOptions.
    __slots__ = ("exact", "wide")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing was said."""
        self.wide = self.exact = False


SHAPE = Shape()


def escape_json(text: str) -> str:
    """Characters as JSON escapes them: ``\\u202e``."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def render_json(value: object, *, indent: int | None = None) -> str:
    """JSON of which no character steers a terminal or is not seen there."""
    import json

    said = json.dumps(value, indent=indent, ensure_ascii=False)
    return HIDDEN.sub(lambda match: escape_json(match.group()), said)


def name(text: str) -> str:
    """Return the printed form of a queue's name or a message's identifier: ``private$/orders``."""
    return text.replace("\\", "/")


def sentence(text: str) -> str:
    """A sentence of ours with the names in it as they are printed."""
    if "\\" not in text:
        return text
    return _NAMES.sub(lambda match: f"{match.group(1) or ''}/", text)


def cell(value: object) -> str:
    """One value of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return show_hidden(str(value)).replace("\n", "\\n").replace("\t", " ")


def value(column: Column, found: Any, now_s: float) -> object:
    """The value of a field of a view, as its column has it in a table."""
    if column.unit == "count":
        return sum(found.values()) if isinstance(found, dict) else len(found)
    if isinstance(found, (tuple, list)):
        parts = [str(value(column, one, now_s)) for one in found]
        return ("," if column.unit == "words" else ", ").join(parts) or column.empty
    if found in ("", None):
        return column.empty
    match column.unit:
        case "bytes":
            return size(found)
        case "moment":
            return when(found) if found else column.empty
        case "since" | "age":
            if column.unit == "since" and not found:
                return column.empty
            from onceq.model.wording import duration

            return duration(now_s - found if column.unit == "since" else found)
        case "name":
            return name(found)
        case "place":
            return str(found)
        case "hex":
            return f"{found:#x}"
        case "setting":
            from onceq.model.settings import as_written

            return as_written(found)
    return found


def short_value(column: Column, found: Any, now_s: float) -> object:
    """The short form of the same: of a moment how long ago it is."""
    from onceq.model.wording import duration

    if column.unit == "moment" and found:
        return f"{duration(now_s - found)} ago"
    return value(column, found, now_s)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: Sequence[str] = (),
    give: Sequence[str] | None = None, brief: Mapping[str, Sequence[object]] | None = None,
) -> None:  # fmt: skip
    """Print rows; columns whose values are all numbers are set to the right.

    Args:
        texts: Columns that may be cut on a terminal.
        give: Columns that may leave there, in that order; None: from the last to the second. One
            with a shorter form may stand there twice: it becomes short before it leaves.
        brief: By columns: a shorter form of each of their cells.
    """
    rows = list(rows)
    right = [
        at for at in range(len(columns))
        if rows and all(
            isinstance(row[at], (int, float)) and not isinstance(row[at], bool) for row in rows
        )
    ]  # fmt: skip
    made = TextTable(
        columns, [[cell(value) for value in row] for row in rows], right=right, texts=texts,
        give=give,
        brief={name: [cell(value) for value in cells] for name, cells in (brief or {}).items()},
    )  # fmt: skip
    lines, left = made.lines(None if SHAPE.wide else width())
    for at, text in enumerate(lines):
        print(f"\x1b[1m{text}\x1b[0m" if at == 0 and terminal() else text)
    said = [f"left out for want of room: {', '.join(left)}"] if left else []
    said += [f"shortened: {', '.join(made.short)}"] if made.short else []
    if said:
        note(f"{'; '.join(said)}; --wide shows {'them' if left else 'it all'}")


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other; a long value goes on below itself."""
    shown = [(title, cell(value)) for title, value in pairs]
    wide = max((width_of(title) for title, _ in shown), default=0)
    room = width()
    for title, text in shown:
        lines = [text]
        if room is not None and not SHAPE.wide and width_of(text) > room - wide - GAP:
            # Between words alone: a name stays whole, so that it can be pasted.
            import textwrap

            lines = textwrap.wrap(
                text, max(room - wide - GAP, 20), break_long_words=False, break_on_hyphens=False
            ) or [""]
        for at, line in enumerate(lines):
            print(f"{'' if at else title:<{wide}}{' ' * GAP}{line}".rstrip())


def width() -> int | None:
    """Columns of the terminal; None: it is none."""
    if not terminal():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def terminal() -> bool:
    """Return whether the output goes to a terminal, where a person reads it at once."""
    return sys.stdout.isatty()


def dump(value: object) -> None:
    """Print JSON; views become maps."""
    from onceq.model.views.view import plain

    print(render_json(plain(value), indent=2))


def line(text: str) -> None:
    """Print a line of the result: a sentence of ours."""
    print(show_hidden(sentence(text)))


def body(text: str) -> None:
    """Print a text from outside unchanged, except that hidden characters are shown."""
    print(show_hidden(text))


def note(text: str) -> None:
    """Say something to the person at the terminal, beside the result."""
    # In one piece: threads of one command say things beside each other.
    sys.stderr.write(f"{show_hidden(sentence(text))}\n")
    sys.stderr.flush()


def when(seconds: int) -> str:
    """A point in time, in local time; "-" for never."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"


def size(count: int) -> str:
    """A number of bytes for people; exact if that was asked for."""
    if SHAPE.exact:
        return str(count)
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def failure(code: str, text: str, exit_code: int, *, as_json: bool, **more: Any) -> None:
    """Print an error on stderr."""
    if as_json:
        said = {"code": code, "text": text, "exit_code": exit_code, **more}
        print(render_json({"error": said}), file=sys.stderr)
    else:
        note(f"onceq: error ({code}): {text}")


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
    """A text of at most ``width`` columns, with a sign where it was cut."""
    if width_of(text) <= width:
        return text
    kept = ""
    for one in text:
        if width_of(kept + one) >= width:
            break
        kept += one
    return f"{kept}…"


class TextTable:
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
            for at in self._texts:  # Texts are made shorter before a column leaves.
                over = self._total(kept, widths) - width
                if over > 0 and at in kept:
                    least = min(widths[at], max(TEXT_MIN, width_of(self._columns[at])))
                    widths[at] = max(widths[at] - over, least)
            if self._total(kept, widths) <= width or not leaving:
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

    def _line(self, row: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> str:
        cells = []
        for at in kept:
            text = shortened(row[at], widths[at])
            space = " " * (widths[at] - width_of(text))
            cells.append(space + text if at in self._right else text + space)
        return (" " * GAP).join(cells).rstrip()
