"""Copies as a table of numbers and back, for whoever keeps or sends them in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.audit.arrays import Groups, begins, ordered
from onceq.audit.copies import Copies, Known
from onceq.audit.events import ABSENT
from onceq.audit.facts import SEEN, Facts

_FACTS: Final = tuple(one.name for one in fields(Copies) if one.type == "Facts")
_SHARED: Final = ("parties", "queues", "known", "lanes")
_PLAIN: Final = tuple(
    one.name for one in fields(Copies) if one.name not in (*_FACTS, *_SHARED)
)  # fmt: skip
COLUMNS: Final = (
    "lane",
    *_PLAIN,
    *(f"{fact}_{name}" for fact in _FACTS for name in SEEN),
)
"""Each of them a whole number."""


def flat(copies: Copies) -> pa.Table:
    """The copies, a row each; ``lane`` is a number that no other lane of these copies has."""
    columns: dict[str, Any] = {"lane": copies.lanes.of}
    columns.update((name, getattr(copies, name)) for name in _PLAIN)
    for fact in _FACTS:
        there = getattr(copies, fact)
        columns.update((f"{fact}_{name}", there.get(name)) for name in SEEN)
    return pa.table({name: pa.array(columns[name].astype(np.int64)) for name in COLUMNS})


def copies_of(
    table: pa.Table, parties: Sequence[str], queues: Sequence[str], known: Known
) -> Copies:
    """The copies of a table, of one or of several parts, in order of source, stream and number.

    Lanes of several parts are not told apart: rules that need them see one part.
    """
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    order = ordered(columns["source"], columns["lane"], columns["number"])
    there = {name: column[order] for name, column in columns.items()}
    starts = begins(there["lane"])
    of = np.repeat(np.arange(len(starts)), np.diff([*starts, len(order)]))
    values: dict[str, Any] = {name: there[name] for name in _PLAIN}
    for fact in _FACTS:
        seen = {name: there[f"{fact}_{name}"] for name in SEEN}
        rows = np.where(seen["manager"] == ABSENT, ABSENT, np.arange(len(order)))
        values[fact] = Facts(seen, rows)
    return Copies(
        parties=list(parties), queues=list(queues), known=known, lanes=Groups(of, starts), **values
    )
