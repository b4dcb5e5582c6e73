"""Rows as arrays, grouped by what they have in common: the little algebra that each rule uses.

All rows of a group stand together (``Groups``), so a count or a first row of each group is one pass
of numpy over an array, whatever the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.signedinteger[Any]]
"""Whole numbers; those that stand in a history or count time have 64 bits, row numbers and counts
32."""
Mask: TypeAlias = NDArray[np.bool_]
Column: TypeAlias = NDArray[Any]

NONE: Final = int(np.iinfo(np.int64).min)
"""A number that is not there, in an array of numbers; positions and counts are never this."""
BLOCK: Final = 1 << 19
"""Rows that are worked on at once where something larger than a row would be made of each."""


class Values(Protocol):
    """A column from which rows can be taken."""

    def __getitem__(self, rows: Any) -> Any:
        """Those of some rows."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows that stand in groups, one behind the other; there are fewer than 2**31.

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
        of = self.of[mask]
        if not len(of):
            return np.zeros(self.count, np.int32)  # which takes no memory before it is written to
        return np.bincount(of, minlength=self.count).astype(np.int32)

    def some(self, mask: Mask) -> Mask:
        """Whether any row of each group is in the mask, shape (groups,)."""
        found = np.zeros(self.count, np.bool_)
        found[self.of[mask]] = True
        return found

    def first(self, mask: Mask) -> Ints:
        """The first row of each group that is in the mask; -1 where there is none."""
        rows = row_numbers(mask)
        found = np.full(self.count, -1, np.int32)
        found[self.of[rows[::-1]]] = rows[::-1]  # the last write stays, which is the first row
        return found

    def last(self, mask: Mask) -> Ints:
        """The last row of each group that is in the mask; -1 where there is none."""
        rows = row_numbers(mask)
        found = np.full(self.count, -1, np.int32)
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


def blocks(count: int) -> Iterator[slice]:
    """Ranges of so many rows, each of ``BLOCK`` at most."""
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def row_numbers(mask: Mask) -> Ints:
    """The rows in a mask, in four bytes each."""
    return np.flatnonzero(mask).astype(np.int32)


def begins(values: Column) -> Ints:
    """Where a new value begins in an array whose equal values stand together."""
    if not len(values):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1]))).astype(np.int64)


def ordered(*columns: Column) -> Ints:
    """The rows in order of the columns, the first one counting most; equal rows stay in order."""
    return _sorted(columns)[0]


def grouped(*columns: Column) -> tuple[Ints, Groups]:
    """The rows in order of the columns, and the groups in which those stand, taken in that order.

    Returns:
        The order, to be taken of each column; and the groups of the rows in that order.
    """
    order, new = _sorted(columns)
    of = np.cumsum(new, dtype=np.int32)
    of -= 1
    return order, Groups(of, row_numbers(new))


def _sorted(columns: Sequence[Column]) -> tuple[Ints, Mask]:
    """The rows in order, and which of these begin a group."""
    packed, bits = _packed(columns)
    count = len(packed)
    new = np.ones(count, np.bool_)
    own = max(count - 1, 0).bit_length()
    if bits + own <= 64:
        # With the number of its row behind it each is different: sorted as numbers, and at once.
        packed <<= np.uint64(own)
        for rows in blocks(count):
            packed[rows] |= np.arange(rows.start, rows.stop, dtype=np.uint64)
        packed.sort()
        order = np.empty(count, np.int32)
        for rows in blocks(count):
            order[rows] = packed[rows] & np.uint64((1 << own) - 1)
            packed[rows] >>= np.uint64(own)
        new[1:] = packed[1:] != packed[:-1]
        return order, new
    if bits <= 64:
        order = np.argsort(packed, kind="stable").astype(np.int32)
        packed = packed[order]
        new[1:] = packed[1:] != packed[:-1]
        return order, new
    order = np.lexsort(columns[::-1]).astype(np.int32)
    new[1:] = False
    for column in columns:
        there = column[order]
        new[1:] |= there[1:] != there[:-1]
    return order, new


def _packed(columns: Sequence[Column]) -> tuple[NDArray[np.uint64], int]:
    """One number a row that stands for all columns, and how many bits it has; if these are more
    than 64, it stands for nothing.

    One sort of such numbers takes a third of the time of a sort by several columns.
    """
    whole = np.zeros(len(columns[0]), np.uint64)
    bits = 0
    for column in columns[::-1]:
        if not len(column):
            return whole, 0
        low, high = int(column.min()), int(column.max())
        size = (high - low).bit_length()
        if bits + size > 64:
            return whole, bits + size
        for rows in blocks(len(column) if size else 0):
            block = column[rows].astype(np.int64).view(np.uint64)
            block -= np.uint64(low % (1 << 64))
            whole[rows] |= block << np.uint64(bits)
        bits += size
    return whole, bits


def coded(*columns: Column) -> tuple[Ints, list[Column]]:
    """One small number for each different combination of the columns.

    Returns:
        The number of each row; and for each column its value by that number.
    """
    order, groups = grouped(*columns)
    codes = np.empty(len(order), np.int64)
    codes[order] = groups.of
    return codes, [column[order][groups.starts] for column in columns]


def alike(columns: Callable[[slice], Sequence[Column]], wanted: Mask) -> Mask:
    """Which rows have the same values in the columns as any that is wanted; and a few others.

    It serves to leave out most rows before an exact comparison, never in place of one.

    Args:
        columns: The columns of a range of rows.
    """
    found = np.zeros(len(wanted), np.bool_)
    count = int(wanted.sum())
    if not count:
        return found
    bits = (16 * count).bit_length()

    def place(rows: slice) -> Column:
        return mixed(*columns(rows)) >> np.uint64(64 - bits)

    seen = np.zeros(1 << bits, np.bool_)
    for rows in blocks(len(wanted)):
        if wanted[rows].any():
            seen[place(rows)[wanted[rows]]] = True
    for rows in blocks(len(wanted)):
        found[rows] = seen[place(rows)]
    return found


def mixed(*columns: Column) -> NDArray[np.uint64]:
    """A number for each row that is equal where all columns are; rarely so where they are not.

    It serves to leave out most rows before an exact comparison, never in place of one.
    """
    whole = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        whole ^= column.astype(np.int64).view(np.uint64)
        whole *= np.uint64(0x9E3779B97F4A7C15)
        whole ^= whole >> np.uint64(29)
    return whole


def highest_before(values: Ints, groups: Groups) -> Ints:
    """The greatest value before each row in its group; NONE at the first.

    Args:
        values: Not negative, below 2**31 for fewer than 2**31 groups.
    """
    span = int(values.max(initial=0)) + 1
    raise_by = groups.of.astype(np.int64) * span
    raised = np.maximum.accumulate(values + raise_by) - raise_by
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


def picked(values: Values, rows: Ints, otherwise: int = NONE) -> Ints:
    """The values of some rows; ``otherwise`` where the number of the row is -1."""
    found = np.full(len(rows), otherwise, np.int64)
    there = rows >= 0
    found[there] = values[rows[there]]
    return found


def small(values: Column) -> Ints:
    """A small number for each different value, in the order in which they come first."""
    codes: Ints = pa.array(values).dictionary_encode().indices.to_numpy()
    return codes


def lane_of(lookup: Ints) -> Ints:
    """In which lane of its queue a place is; places rise within one."""
    return np.where(lookup == NONE, NONE, lookup >> 56)
