"""Rows as arrays, grouped by what they have in common: the little algebra that each rule uses.

All rows of a group stand together (``Groups``), so a count or a first row of each group is one pass
of numpy over an array, whatever the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Column: TypeAlias = NDArray[Any]

NONE: Final = int(np.iinfo(np.int64).min)
"""A number that is not there, in an array of numbers; positions and counts are never this."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows that stand in groups, one behind the other.

    Attributes:
        of: Number of the group of each row, shape (rows,), rising from 0.
        starts: First row of each group, shape (groups,).
    """

    of: Ints
    starts: Ints

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.starts)

    def counted(self, mask: Mask) -> Ints:
        """How many rows of each group are in the mask, shape (groups,)."""
        return np.bincount(self.of[mask], minlength=self.count).astype(np.int64)

    def some(self, mask: Mask) -> Mask:
        """Whether any row of each group is in the mask, shape (groups,)."""
        found = np.zeros(self.count, np.bool_)
        found[self.of[mask]] = True
        return found

    def first(self, mask: Mask) -> Ints:
        """The first row of each group that is in the mask; -1 where there is none."""
        rows = np.flatnonzero(mask)
        found = np.full(self.count, -1, np.int64)
        found[self.of[rows[::-1]]] = rows[::-1]  # the last write stays, which is the first row
        return found

    def last(self, mask: Mask) -> Ints:
        """The last row of each group that is in the mask; -1 where there is none."""
        rows = np.flatnonzero(mask)
        found = np.full(self.count, -1, np.int64)
        found[self.of[rows]] = rows
        return found

    def least(self, values: Ints, mask: Mask) -> Ints:
        """The least value among the rows of each group in the mask; NONE where there is none."""
        return self._reduced(np.minimum, values, mask)

    def most(self, values: Ints, mask: Mask) -> Ints:
        """The greatest value among the rows of each group in the mask; NONE where there is none."""
        return self._reduced(np.maximum, values, mask)

    def _reduced(self, how: np.ufunc, values: Ints, mask: Mask) -> Ints:
        rows = np.flatnonzero(mask)
        found = np.full(self.count, NONE, np.int64)
        if len(rows):
            of = self.of[rows]
            starts = begins(of)
            found[of[starts]] = how.reduceat(values[rows], starts)
        return found

    def distinct(self, values: Ints, mask: Mask) -> Ints:
        """How many different values the rows of each group in the mask have, shape (groups,)."""
        found = self.some(mask).astype(np.int64)
        differ = self.least(values, mask) != self.most(values, mask)
        rows = np.flatnonzero(mask & differ[self.of])
        if len(rows):
            pairs = np.unique(np.stack([self.of[rows], values[rows]]), axis=1)
            found[differ] = np.bincount(pairs[0], minlength=self.count)[differ]
        return found


def begins(values: Column) -> Ints:
    """Where a new value begins in an array whose equal values stand together."""
    if not len(values):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1]))).astype(np.int64)


def ordered(*columns: Column) -> Ints:
    """The rows in order of the columns, the first one counting most; equal rows stay in order."""
    packed = _packed([column.astype(np.int64, copy=False) for column in columns])
    if packed is not None:
        return np.argsort(packed, kind="stable")
    return np.lexsort(columns[::-1]).astype(np.int64)


def _packed(columns: Sequence[Ints]) -> NDArray[np.uint64] | None:
    """One number a row that stands for all columns; None if they do not fit into 64 bits.

    One sort of such numbers takes a third of the time of a sort by several columns.
    """
    whole = np.zeros(len(columns[0]), np.uint64)
    bits = 0
    for column in columns[::-1]:
        if not len(column):
            return whole
        low, high = int(column.min()), int(column.max())
        whole |= (column.view(np.uint64) - np.uint64(low % (1 << 64))) << np.uint64(min(bits, 63))
        bits += (high - low).bit_length()
        if bits > 64:
            return None
    return whole


def grouped(*columns: Column) -> tuple[Ints, Groups]:
    """The rows in order of the columns, and the groups in which those stand, taken in that order.

    Returns:
        The order, to be taken of each column; and the groups of the rows in that order.
    """
    order = ordered(*columns)
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        there = column[order]
        new[1:] |= there[1:] != there[:-1]
    starts = np.flatnonzero(new).astype(np.int64)
    return order, Groups(np.cumsum(new, dtype=np.int64) - 1, starts)


def coded(*columns: Column) -> tuple[Ints, list[Column]]:
    """One small number for each different combination of the columns.

    Returns:
        The number of each row; and for each column its value by that number.
    """
    order, groups = grouped(*columns)
    codes = np.empty(len(order), np.int64)
    codes[order] = groups.of
    return codes, [column[order][groups.starts] for column in columns]


def mixed(*columns: Column) -> NDArray[np.uint64]:
    """A number for each row that is equal where all columns are; rarely so where they are not.

    It serves to leave out most rows before an exact comparison, never in place of one.
    """
    whole = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        whole = (whole ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        whole ^= whole >> np.uint64(29)
    return whole


def highest_before(values: Ints, groups: Groups) -> Ints:
    """The greatest value before each row in its group; NONE at the first.

    Args:
        values: Not negative, below 2**31 for fewer than 2**31 groups.
    """
    span = int(values.max(initial=0)) + 1
    raised = np.maximum.accumulate(values + groups.of * span) - groups.of * span
    found = np.full(len(values), NONE, np.int64)
    found[1:] = raised[:-1]
    found[groups.starts] = NONE
    return found


def ranks(*columns: Column) -> Ints:
    """The place of each row in the order of the columns; equal rows have equal places."""
    order, groups = grouped(*columns)
    found = np.empty(len(order), np.int64)
    found[order] = groups.of
    return found


def picked(values: Column, rows: Ints, otherwise: int = NONE) -> Ints:
    """The values of some rows; ``otherwise`` where the number of the row is -1."""
    found = np.full(len(rows), otherwise, np.int64)
    there = rows >= 0
    found[there] = values[rows[there]]
    return found


def small(values: Ints) -> Ints:
    """A small number for each different value, in the order in which they come first."""
    encoded = pa.array(values).dictionary_encode()
    codes: Ints = encoded.indices.to_numpy().astype(np.int64)
    return codes
