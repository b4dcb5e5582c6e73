"""Acts of administration, and whether those of a manager are all there: file after file, their
numbers rise by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onceq.history.columns import ACT_COLUMNS, Span

Ranges = list[list[int]]


@dataclass(slots=True)
class Numbering:
    """What is known of the numbers up to the end of a file; as JSON it goes into a proof.

    Attributes:
        life, end: Where that file ends.
        to: Number of the last act up to there; -1: nobody knows it.
        missing, added: First and last number of acts that are not told; and that are told although
            another one has come before.
    """

    life: int = 1
    end: int = 0
    to: int = 0
    missing: Ranges = field(default_factory=list)
    added: Ranges = field(default_factory=list)

    def take(self, span: Span, told_to: int, numbers: Sequence[int]) -> None:
        """The next file.

        Args:
            told_to: Number of the last act up to its end, as it says; -1: it does not.
            numbers: Of its acts, in the order of the log.
        """
        goes_on = (span.life, span.start) == (self.life, self.end) and self.to >= 0
        to = self.to if goes_on else None
        for number in numbers:
            if to is not None and number <= to:
                self.added.append([number, number])
                continue
            if to is not None and number > to + 1:
                self.missing.append([to + 1, number - 1])
            to = number
        if to is not None and told_to > to:
            self.missing.append([to + 1, told_to])
        if to is not None and 0 <= told_to < to:
            self.added.append([told_to + 1, to])
        self.life, self.end, self.to = span.life, span.end, told_to


@dataclass(frozen=True, slots=True)
class Told:
    """An act; names are those of a history.

    Attributes:
        at_us: When, in microseconds since 1970.
        life: Of the file that tells it.
    """

    act: int
    actor: str
    address: str
    action: str
    about: str
    result: str
    since: int
    at_us: int
    position: int
    life: int

    def plain(self, manager: str) -> dict[str, Any]:
        """For JSON."""
        return {"manager": manager} | {
            name: getattr(self, name) for name in (*ACT_COLUMNS[:-1], "at_us")
        }
