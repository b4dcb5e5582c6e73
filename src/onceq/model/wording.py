"""How texts for people say a number of things, and a length of time.

Also here:

* A text that a person wrote and that is being parsed: its faults are shown where they are.
"""

from __future__ import annotations

import re
from typing import Final

from onceq.errors import UsageError
from onceq.model.record import Record


def plural(count: int, noun: str) -> str:
    """ "1 message", "2 messages", "1,000 messages": for nouns that end in "s" then."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time for people."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h"


# ---- caret ---------------------------------------------------------------------------------------


SHOWN_BEFORE: Final = 60
SHOWN_AFTER: Final = 40
"""Characters of a long text that are shown before and after a fault."""

_OUTSIDE = re.compile(r"[^\x20-\x7e]")


def one_line(text: str) -> str:
    """The text of an error for a cell of a table: what is wrong and where, and the text that has
    the fault behind it, without the caret that would point nowhere there.

    An error says what is wrong, gives the position (counted from 0), and repeats the text around it
    with a caret below. The text may be hostile: it is limited first, and what is shown of it is
    short and printable.
    """
    lines = [line.strip() for line in text.splitlines()]
    first, *shown = [line for line in lines if line not in ("", "^")] or [""]
    return f"{first}: {' '.join(shown)}" if shown else first


class TextSource(Record, frozen=True):
    """The whole text, and the class of error that its faults are."""

    text: str
    error: type[UsageError]

    def fault(self, at: int, what: str) -> UsageError:
        """The error for what is wrong at a position; the caller raises it."""
        start, end = max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER
        lead = "..." if start else ""
        shown = lead + self.text[start:end] + ("..." if end < len(self.text) else "")
        caret = " " * (len(lead) + at - start) + "^"
        return self.error(f"{what}, at position {at}\n  {_OUTSIDE.sub('?', shown)}\n  {caret}")

    def check(self, *, chars_max: int) -> None:
        """Refuse a text that is too long, or has others than printable ASCII characters."""
        if len(self.text) > chars_max:
            raise self.fault(
                chars_max, f"{len(self.text)} characters are too many: {chars_max} are allowed"
            )
        found = _OUTSIDE.search(self.text)
        if found is not None:
            raise self.fault(found.start(), f"{found.group()!a} is not allowed in a name")
