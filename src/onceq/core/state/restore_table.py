"""A manager that was put back to an earlier time by a restore: what is durable of that.

Whatever was done between the backup and the restore is undone here, and not elsewhere. The record
of a restore says so; with it everything is forgotten that was known for certain of what had
arrived, because that is true no more (CNF-22: those who ask are told that it is not known).

Upholds: I11 (nothing is called undelivered that an undone life may have accepted).
"""

from __future__ import annotations

from typing import Any

from onceq.model.views.managers import Restored


def dump(restored: Restored | None) -> list[Any] | None:
    """As JSON."""
    if restored is None:
        return None
    r = restored
    return [
        r.at_s, r.taken_s, r.position, r.previous, r.aside, r.told, r.jobs, r.promises, r.tokens,
    ]  # fmt: skip


def load(values: list[Any] | None) -> Restored | None:
    """From JSON."""
    return Restored(*values) if values is not None else None
