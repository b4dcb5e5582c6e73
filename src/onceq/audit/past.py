"""What an audit has judged and put aside: which messages, and what they add to the counts.

Numbers, identifiers and places follow each other, so sets of them are kept as intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.audit.arrays import NONE, Column, Ints, Mask, grouped
from onceq.audit.copies import Copies
from onceq.audit.events import Events

Prefix = tuple[str, str, int]
"""What is counted, by whom, and in which stream or queue (0 where there is one of each)."""
NUMBER, MESSAGE, PLACE, TRANSACTION = "number", "message", "place", "transaction"
_KINDS: Final = {
    "kind": pa.string(), "party": pa.string(), "within": pa.int64(), "first": pa.int64(),
    "last": pa.int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    """What names the messages that rows are about; NONE where a row does not have it.

    Attributes:
        party: Numbers in ``Events.parties``.
        within: Stream or place.
    """

    kind: str
    party: Column
    within: Ints
    value: Ints

    def prefixes(self) -> Iterator[tuple[int, int, Ints]]:
        """Party, stream or place, and the rows that have these."""
        rows = np.flatnonzero(self.value != NONE)
        order, groups = grouped(self.party[rows], self.within[rows])
        rows = rows[order]
        ends = [*groups.starts.tolist(), len(rows)]
        for start, end in pairwise(ends):
            first = rows[start]
            yield int(self.party[first]), int(self.within[first]), rows[start:end]


def keys_of(events: Events) -> list[Keys]:
    """By what any rule may bring a row together with others."""
    none = np.zeros(len(events), np.int64)
    return [
        Keys(NUMBER, events.source, events.stream,
             np.where(events.stream == NONE, NONE, events.number)),
        Keys(MESSAGE, events.source, none, events.message),
        Keys(PLACE, events.manager, events.place,
             np.where(events.place == NONE, NONE, events.lookup)),
        Keys(PLACE, events.manager, events.from_place,
             np.where(events.from_place == NONE, NONE, events.from_lookup)),
    ]  # fmt: skip


def transactions_of(copies: Copies) -> Keys:
    """The transactions that copies were committed in."""
    none = np.zeros(len(copies), np.int64)
    return Keys(TRANSACTION, copies.source, none, copies.put.transaction)


@dataclass(slots=True)
class Past:
    """Intervals of what was put aside, by what they count."""

    spans: dict[Prefix, tuple[Ints, Ints]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def has(self, parties: Sequence[str], keys: Keys) -> Mask:
        """Which rows have a key that is among these."""
        found = np.zeros(len(keys.value), np.bool_)
        if not self.spans:
            return found
        for party, within, rows in keys.prefixes():
            span = self.spans.get((keys.kind, parties[party], within))
            if span is not None:
                firsts, lasts = span
                values = keys.value[rows]
                at = np.searchsorted(firsts, values, "right") - 1
                found[rows] = (at >= 0) & (values <= lasts[np.maximum(at, 0)])
        return found

    def add(self, parties: Sequence[str], keys: Keys) -> None:
        """Put these aside as well."""
        for party, within, rows in keys.prefixes():
            values = np.unique(keys.value[rows])
            new = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1] + 1)))
            firsts, lasts = values[new], values[np.append(new[1:], len(values)) - 1]
            prefix = (keys.kind, parties[party], within)
            self.spans[prefix] = _joined(firsts, lasts, *self.spans.get(prefix, ()))

    def table(self) -> pa.Table:
        """As a table."""
        columns: dict[str, list[Any]] = {name: [] for name in _KINDS}
        for (kind, party, within), (firsts, lasts) in self.spans.items():
            same = {"kind": kind, "party": party, "within": within}
            for name, value in same.items():
                columns[name] += [value] * len(firsts)
            columns["first"] += firsts.tolist()
            columns["last"] += lasts.tolist()
        return pa.table(columns, schema=pa.schema(list(_KINDS.items())))


def past_of(table: pa.Table) -> Past:
    """Back from a table."""
    found: dict[Prefix, tuple[list[int], list[int]]] = {}
    for kind, party, within, first, last in zip(
        *(table[name].to_pylist() for name in _KINDS), strict=True
    ):
        span = found.setdefault((kind, party, within), ([], []))
        span[0].append(first)
        span[1].append(last)
    return Past({
        prefix: (np.array(firsts, np.int64), np.array(lasts, np.int64))
        for prefix, (firsts, lasts) in found.items()
    })  # fmt: skip


def _joined(firsts: Ints, lasts: Ints, *others: Ints) -> tuple[Ints, Ints]:
    """Intervals of both, in order; those that touch are one."""
    if others:
        firsts, lasts = np.concatenate((firsts, others[0])), np.concatenate((lasts, others[1]))
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    new = np.flatnonzero(np.concatenate(([True], firsts[1:] > lasts[:-1] + 1)))
    return firsts[new], lasts[np.append(new[1:], len(firsts)) - 1]
