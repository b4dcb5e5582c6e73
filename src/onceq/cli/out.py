"""How the command line prints: tables for people, JSON for programs, notes on stderr.

A table that goes into a pipe is as wide as it needs to be and has no decoration, so that ``grep``
and ``awk`` work; one on a terminal fits it. Text that came from outside (labels, names, bodies)
cannot steer the terminal: control characters are shown, not sent.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceq.model.views.view import plain

WIDTH_WITHOUT_TERMINAL = 4_000
"""Columns of a table that is not printed on a terminal; nothing is ever cut or wrapped there."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console() -> Console:
    """Where tables go."""
    if sys.stdout.isatty():
        return Console(file=sys.stdout, highlight=False)
    return Console(file=sys.stdout, highlight=False, width=WIDTH_WITHOUT_TERMINAL)


def clean(text: str) -> str:
    """Text without control characters: they are shown as ``\\x1b``."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def cell(value: object) -> str:
    """One value of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    return clean(str(value))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows; columns whose values are all numbers are set to the right."""
    rows = list(rows)
    made = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for at, name in enumerate(columns):
        right = bool(rows) and all(
            isinstance(row[at], (int, float)) and not isinstance(row[at], bool) for row in rows
        )
        made.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row))
    _print(made)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True, style="dim" if sys.stdout.isatty() else "")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(Text(name), Text(cell(value)))
    _print(made)


def _print(made: Table) -> None:
    shown = console()
    if sys.stdout.isatty():
        shown.print(made)
        return
    with shown.capture() as captured:
        shown.print(made)
    for line in captured.get().splitlines():
        print(line.rstrip())


def dump(value: object) -> None:
    """Print JSON; views become maps."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def line(text: str) -> None:
    """Print a line of the result."""
    print(clean(text))


def note(text: str) -> None:
    """Say something to the person at the terminal, beside the result."""
    # In one piece: threads of one command say things beside each other.
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


def when(seconds: int) -> str:
    """A point in time, in local time; "-" for never."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"


def size(count: int) -> str:
    """A number of bytes for people."""
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
        print(json.dumps({"error": said}, ensure_ascii=False), file=sys.stderr)
    else:
        note(f"onceq: error ({code}): {text}")
