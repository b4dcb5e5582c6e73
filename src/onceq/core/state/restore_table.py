"""A manager that was put back to an earlier time by a restore: what is durable of that.

Whatever was done between the backup and the restore is undone here, and not elsewhere. The record
of a restore says so; with it everything is forgotten that was known for certain of what had
arrived, because that is true no more (CNF-22: those who ask are told that it is not known).

Upholds: I11 (nothing is called undelivered that an undone life may have accepted).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Restored:
    """The last restore.

    Attributes:
        at_s: When it was (seconds since 1970, as the others).
        taken_s: When its backup was taken; what happened later is undone.
        position: Where the log ended then.
        previous: GUID of the manager that the backup is of, in hexadecimal digits, if this one is
            another; "" if it is the same.
        aside: Messages that waited for other managers then and were set aside, because the manager
            that the backup is of sends them.
    """

    at_s: int
    taken_s: int
    position: int
    previous: str = ""
    aside: int = 0
    told: bool = False
    """Whether the operator was told of it, at the first start."""


def dump(restored: Restored | None) -> list[Any] | None:
    """As JSON."""
    if restored is None:
        return None
    r = restored
    return [r.at_s, r.taken_s, r.position, r.previous, r.aside, r.told]


def load(values: list[Any] | None) -> Restored | None:
    """From JSON."""
    return Restored(*values) if values is not None else None
