"""Rows of numbers, many in one value, on their way through Spark.

Spark moves values from one task to another, and each value of each row costs it more time than it
costs to judge that row. What it is given are bundles: tables as Arrow writes them, in compressed
bytes, each with the number of the part that all its rows belong to. So it moves a few thousand
values, and only the functions of the parts look into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.audit.arrays import NONE, Column, Ints, mixed
from onceq.audit.tables import schema

BUNDLE: Final = {"part": "int", "rows": "bigint", "bundle": "binary"}
"""Columns of a frame of bundles, and their SQL types."""
BUNDLE_BYTES: Final = 32 << 20
"""Of one before it is compressed: Spark copies a value as a whole, and several at a time."""
SPREAD_BYTES: Final = 96 << 20
"""What a task collects before it is spread over the parts: the more, the larger are the bundles."""
_SCHEMA: Final = schema(BUNDLE)
_WRITE: Final = pa.ipc.IpcWriteOptions(compression="lz4")

Key = Callable[[pa.Table], "tuple[Column, ...]"]
"""Columns of a table; rows in which they are equal belong together."""


def numbers(table: pa.Table, name: str) -> Ints:
    """A column, with NONE where a row has no number."""
    found: Ints = table[name].cast(pa.int64()).fill_null(NONE).to_numpy()
    return found


def bundles(table: pa.Table, part: int = 0) -> pa.RecordBatch:
    """Rows of one part as bundles."""
    at_once = max(BUNDLE_BYTES * len(table) // max(table.nbytes, 1), 1)
    slices = [table.slice(at, at_once) for at in range(0, len(table), at_once)]
    return _batch((part, one) for one in slices)


def spread(tables: Iterable[pa.Table], parts: int, key: Key) -> Iterator[pa.RecordBatch]:
    """Rows to bundles of the parts that they belong to.

    Args:
        tables: All with the same columns.
        parts: How many there are.
    """
    waiting, size = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        size += table.nbytes
        if size >= SPREAD_BYTES:
            yield _spread(pa.concat_tables(waiting), parts, key)
            waiting, size = [], 0
    if waiting:
        yield _spread(pa.concat_tables(waiting), parts, key)


def _spread(table: pa.Table, parts: int, key: Key) -> pa.RecordBatch:
    part = (mixed(*key(table)) % np.uint64(parts)).astype(np.int32)
    table = table.take(pa.array(np.argsort(part, kind="stable")))
    counts = np.bincount(part, minlength=parts)
    ends = np.cumsum(counts)
    return _batch(
        (at, table.slice(end - count, count))
        for at, (end, count) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True))
        if count
    )


def _batch(slices: Iterable[tuple[int, pa.Table]]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in BUNDLE}
    for part, table in slices:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as stream:
            stream.write_table(table)
        for name, value in zip(
            BUNDLE, (part, len(table), sink.getvalue().to_pybytes()), strict=True
        ):
            columns[name].append(value)
    return pa.RecordBatch.from_pydict(columns, _SCHEMA)


def opened(frames: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[pa.Table]:
    """The rows of bundles, those of one at a time."""
    for frame in frames:
        for bundle in frame["bundle"]:
            yield pa.ipc.open_stream(bundle.as_buffer()).read_all()


def joined(frame: pa.Table, columns: pa.Schema) -> pa.Table:
    """The rows of all bundles of a part.

    Args:
        columns: Of the rows, where the part may have none.
    """
    return pa.concat_tables([columns.empty_table(), *opened([frame])])
