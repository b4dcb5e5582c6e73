"""Columns of whole numbers in one to eight bytes a row, whatever they count.

Numbers of a history lie close together in few places: positions of a log, places in the lanes of a
queue (whose lane stands in the highest byte), streams, or none at all. So of each number is kept
only which page it stands on and where there. What does not fit so stays as it is: no number is too
large, and none is taken for another.

Whoever asks gets numbers of 64 bits, of some rows or of all, for as long as they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from onceq.audit.arrays import Column, Ints, blocks


@dataclass(frozen=True, slots=True)
class Form:
    """How numbers are kept.

    Attributes:
        bits: A page has so many bits.
        pages_max: As many as codes can tell apart; 0: the numbers are kept as they are.
    """

    kind: type[np.generic]
    bits: int
    pages_max: int


FORMS: Final = (
    Form(np.uint8, 0, 1 << 8), Form(np.uint16, 0, 1 << 16), Form(np.uint32, 16, 1 << 16),
    Form(np.int64, 0, 0),
)  # fmt: skip
"""In this order they are tried: a page for each number, then such that four bytes have many."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Whole numbers, shape (rows,).

    Attributes:
        codes: The place in the page in the lowest ``bits``, and above them the number of the page;
            where there are no pages the numbers themselves. Equal where the numbers are.
        pages: The least number of each page.
    """

    codes: Column
    pages: Ints | None
    bits: int

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Column) -> Ints:
        """The numbers of some rows."""
        return self._decoded(self.codes[rows])

    def wide(self) -> Ints:
        """All numbers; not to be written to."""
        return self._decoded(self.codes)

    def take(self, rows: Column | slice) -> Narrow:
        """These rows in this order."""
        return Narrow(self.codes[rows], self.pages, self.bits)

    def _decoded(self, codes: Column) -> Ints:
        if self.pages is None:
            return codes
        found = np.empty(len(codes), np.int64)
        for rows in blocks(len(codes)):
            self.pages.take(codes[rows] >> self.bits, out=found[rows], mode="clip")
            if self.bits:
                found[rows] += codes[rows] & ((1 << self.bits) - 1)
        return found


class Growing:
    """An array to which rows are added; it moves as a whole, so it never stands there twice."""

    def __init__(self, kind: type[np.generic]) -> None:
        self.rows: Column = np.zeros(0, kind)

    def add(self, rows: Column) -> None:
        """The next rows; nobody else has hold of the array."""
        count = len(self.rows)
        self.rows.resize(count + len(rows), refcheck=False)
        self.rows[count:] = rows

    def widen(self, kind: type[np.generic]) -> None:
        """Let it take larger numbers."""
        if self.rows.dtype != kind:
            self.rows = self.rows.astype(kind)


class Narrowing:
    """A column of whole numbers that comes in parts."""

    def __init__(self) -> None:
        self._forms = list(FORMS)
        self._pages: dict[int, int] = {}
        self._codes = Growing(self._forms[0].kind)

    def add(self, values: Ints) -> None:
        """The next part."""
        while (codes := self._in_pages(values)) is None:
            self._wider()
        self._codes.add(codes)

    def _in_pages(self, values: Ints) -> Column | None:
        """As codes; None if there are too many pages."""
        form, pages = self._forms[0], self._pages
        if not form.pages_max:
            return values
        encoded = pa.array(values >> form.bits).dictionary_encode()
        if len(encoded.dictionary) > form.pages_max:
            return None
        own = encoded.dictionary.to_pylist()
        places = np.array([pages.setdefault(page, len(pages)) for page in own], np.uint32)
        if len(pages) > form.pages_max:
            return None
        codes: Column = places[encoded.indices.to_numpy()] << form.bits
        codes |= (values & ((1 << form.bits) - 1)).astype(np.uint32)
        return codes

    def _wider(self) -> None:
        """What came before, in more pages, larger ones or none."""
        before = self.made()
        del self._forms[0]
        self._pages, self._codes = {}, Growing(self._forms[0].kind)
        for rows in blocks(len(before)):
            self.add(before.take(rows).wide())

    def made(self) -> Narrow:
        """The whole column."""
        form = self._forms[0]
        pages = np.array(list(self._pages), np.int64) << form.bits if form.pages_max else None
        return Narrow(self._codes.rows, pages, form.bits)
