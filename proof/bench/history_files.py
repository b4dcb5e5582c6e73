"""Rows of made-up managers, and the files of a history that they become (``histories``).

A strip is what happened to many messages alike: a value for all rows, or an array of one a row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from onceq.history.columns import META, VERSION, Span
from onceq.history.events import SCHEMA

FILE_ROWS: Final = 200_000
"""Rows of a file, or a few more: the strips of a round are not divided."""
RECORD_ROWS: Final = 4
"""Rows of a record of the log; at a sender a transaction."""
RECORD_BYTES: Final = 1_024
STEP_US_MAX: Final = 400
"""Between two records of one strip."""
BEGUN_US: Final = 1_800_000_000 * 1_000_000
NONE: Final = int(np.iinfo(np.int64).min)

Ints = NDArray[np.int64]
Value = int | bool | str | Ints | None


@dataclass
class Manager:
    """A manager whose history is being written.

    Attributes:
        at: Its number among all.
        rows_max: Rows of a file.
        random: By which the times of its records differ.
        position: Where its log is.
        message, transaction: The next of its own.
        counters: How many messages each of its queues has had.
        strips: Rows that wait for their file, from log position ``start`` on.
    """

    name: str
    at: int
    folder: Path
    rows_max: int
    random: np.random.Generator
    position: int = 0
    start: int = 0
    message: int = 1
    transaction: int = 1
    counters: dict[int, int] = field(default_factory=dict)
    strips: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    now_us: int = BEGUN_US

    @property
    def guid(self) -> str:
        """Its identifier."""
        return str(UUID(int=(self.at + 1) << 96 | 0x0A0D17))

    def places(self, queue: int, count: int) -> Ints:
        """Counters of the next messages in one of its queues."""
        first = self.counters.get(queue, 0) + 1
        self.counters[queue] = first + count - 1
        return first + np.arange(count)

    def add(self, count: int, time_us: int, at: Ints | None = None, /, **columns: Value) -> None:
        """Add rows in records of their own.

        Args:
            time_us: Shortly before the first.
            at: Places of the rows in their records, in order, if some are missing: what was
                committed together stays in one record.
            columns: By the names of ``history.columns``.
        """
        if not count:
            return
        at = np.arange(count) if at is None else at
        records = int(at[-1]) // RECORD_ROWS + 1
        columns["position"] = self.position + at // RECORD_ROWS * RECORD_BYTES
        columns["ordinal"] = at % RECORD_ROWS
        self.position += records * RECORD_BYTES
        steps = self.random.integers(1, STEP_US_MAX, records)
        columns["eventTime"] = time_us + np.cumsum(steps)[at // RECORD_ROWS]
        self.now_us = max(self.now_us, time_us + int(steps.sum()))
        self.strips.append({"count": count, **columns})
        self.rows += count

    def file(self, *, last: bool) -> None:
        """Write one if there are enough rows, or there will be no more."""
        if not self.rows or (self.rows < self.rows_max and not last):
            return
        span = Span(1, self.start, self.position)
        meta = {
            "version": VERSION, "manager": self.name, "managerId": self.guid, "life": 1,
            "from": span.start, "to": span.end, "upTo": self.now_us,
        }  # fmt: skip
        table = self._table().replace_schema_metadata({META: json.dumps(meta)})
        pq.write_table(
            table, self.folder / span.name, compression="zstd", use_dictionary=True,
            write_page_checksum=True,
        )  # fmt: skip
        self.start, self.rows = self.position, 0
        self.strips.clear()

    def _table(self) -> pa.Table:
        same = {"manager": self.name, "managerId": self.guid, "exactTime": True}
        strips = [{**same, **strip} for strip in self.strips]
        counts = np.array([strip["count"] for strip in strips])
        columns = [
            _column(one.type, [strip.get(one.name) for strip in strips], counts) for one in SCHEMA
        ]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


def _column(kind: pa.DataType, values: list[Value], counts: Ints) -> pa.Array:
    if pa.types.is_string(kind):
        texts: dict[Value, int] = {}
        codes = [-1 if text is None else texts.setdefault(text, len(texts)) for text in values]
        index = np.repeat(np.array(codes, np.int32), counts)
        known = pa.array(list(texts) or [""])
        return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), known).cast(kind)
    whole = np.concatenate([
        np.broadcast_to(np.asarray(NONE if value is None else value, np.int64), count)
        for value, count in zip(values, counts.tolist(), strict=True)
    ])  # fmt: skip
    absent = whole == NONE
    values_of = whole > 0 if pa.types.is_boolean(kind) else whole
    return pa.array(values_of, mask=absent).cast(kind)
