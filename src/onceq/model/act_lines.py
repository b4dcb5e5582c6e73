"""Acts of administration as lines of JSON, as the files of the trail and syslog have them.

A line that is no act is a note of who writes them: ``{"note": "missing", ...}``.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import json
from typing import Any, Final

from onceq.model.views.managers import ActView

MISSING: Final = "missing"
"""Acts from ``first`` to ``last`` went before they could be written."""
FORK: Final = "fork"
"""The store is an older one: the acts that were written behind ``behind`` are not in it."""
REMOVED: Final = "removed"
"""These ``files`` had to make room."""
DAMAGED: Final = "damaged"
"""The ``file`` has a line that is none: what is there behind ``behind`` is written once more."""
_FIELDS: Final = ("number", "at", "who", "where", "what", "about", "result", "before", "digest")
_NUMBERS: Final = ("number", "at")


def line_of(act: ActView) -> bytes:
    """The line of an act."""
    return _line({name: getattr(act, name) for name in _FIELDS})


def note_line(note: str, **values: object) -> bytes:
    """The line of a note."""
    return _line({"note": note, **values})


def read_line(line: bytes) -> ActView | dict[str, Any] | None:
    """An act, or the values of a note; None: it is neither."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    if "note" in said:
        return said
    for name in _FIELDS:
        if type(said.get(name)) is not (int if name in _NUMBERS else str):
            return None
    return ActView(**{name: said[name] for name in _FIELDS})


def split_lines(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines of a file up to the first one that is damaged or not whole, and those behind."""
    lines = data.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if not line.endswith(b"\n") or read_line(line) is None:
            return lines[:at], lines[at:]
    return lines, []


def _line(values: dict[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
