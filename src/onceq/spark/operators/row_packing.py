"""Rows packed into parcels: one row of Spark's for many of the user's.

What a stateful operator costs in Spark is mostly the work for each row between JVM and Python:
sorting, shuffling, converting. So rows are put into Arrow parcels, one for each bucket of keys,
before they are shuffled, and taken out by the operator, or behind it where Spark would go through
their columns value by value (``plain``). All parcels of a bucket meet in one task. With them goes
the time of the micro-batch, which Spark logs before it begins and repeats with it; so what depends
on time is the same again when a batch is run again.

Upholds: I24 (a parcel has a limited size).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.spark.error_codes import wrong
from onceq.spark.operators.columns import bucket_of, keyed
from onceq.spark.operators.rules import Ints

PARCEL_ROWS: Final = 65_536
PARCEL_BYTES: Final = 16 << 20
"""What a task gathers before it makes parcels for all buckets: whichever comes first."""
BATCH_ROWS: Final = 10_000
"""Rows of one batch that goes back to Spark."""
OUT_ROWS: Final = 32_768
"""Rows of one parcel that an operator makes."""

RUN_ROWS: Final = 1_024
"""Rows that are left where they are if so many, on average, stand in order already."""
PARCELS_BYTES_MAX: Final = (1 << 31) - 1
"""Of one array of parcels, or one column: Arrow's binary type, which Spark wants, counts with 32
bits."""

PLAIN: Final = frozenset({
    "BinaryType", "BooleanType", "ByteType", "DateType", "DecimalType", "DoubleType", "FloatType",
    "IntegerType", "LongType", "ShortType", "StringType", "TimestampNTZType", "TimestampType",
})  # fmt: skip
"""Types of Spark's that go through pandas untouched."""

CLOCK: Final = "__onceq_at"
PARCELS: Final = "bucket int, at bigint, parcel binary"
PARCEL: Final = "parcel binary"


def pack(table: Any) -> bytes:
    """A table as bytes."""
    return bytes(packs([table])[0].as_buffer())


def packs(tables: Iterable[Any]) -> Any:
    """Tables as an Arrow array of parcels, all in one buffer: they are large, and each copy of them
    costs as much as deciding about their rows."""
    # Compressed, because a parcel is copied some ten times on its way; and by one thread, because
    # other tasks work beside this one.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    sink = pa.BufferOutputStream()
    ends = [0]
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        ends.append(sink.tell())
    if ends[-1] > PARCELS_BYTES_MAX:
        raise wrong(
            f"parcels of {ends[-1]} bytes, and {PARCELS_BYTES_MAX} go together; let a micro-batch "
            "have fewer rows, or give the operator more buckets"
        )
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, sink.getvalue()])


def unpack(parcel: Any) -> Any:
    """The table again."""
    return pa.ipc.open_stream(parcel, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()


def placed(table: Any, order: Ints) -> Any:
    """The rows of a table in another order; where it consists of long runs they are not copied.

    Raises:
        ConfigurationError: There are too many bytes in a column to be copied at once.
    """
    starts = np.concatenate(([0], np.flatnonzero(np.diff(order) != 1) + 1))
    if len(order) < len(starts) * RUN_ROWS:
        most = max(column.nbytes for column in table.columns)
        if most > PARCELS_BYTES_MAX:
            raise wrong(
                f"the rows of one bucket have {most} bytes in a column, and {PARCELS_BYTES_MAX} "
                "can be put in order; give the operator more buckets, or let a micro-batch have "
                "fewer rows"
            )
        return table.take(pa.array(order))
    sizes = np.diff(starts, append=len(order))
    runs = zip(order[starts].tolist(), sizes.tolist(), strict=True)
    return pa.concat_tables([table.slice(first, size) for first, size in runs])


def parcels_of(table: Any) -> Any:
    """A table in parcels that are not too large, as an Arrow array."""
    return packs(table.slice(at, OUT_ROWS) for at in range(0, table.num_rows, OUT_ROWS))


def batches_of(table: Any) -> Iterator[Any]:
    """The rows in as few batches as may go back to Spark: each costs the same, large or small."""
    for at in range(0, table.num_rows, BATCH_ROWS):
        yield from table.slice(at, BATCH_ROWS).combine_chunks().to_batches()


def as_frames(table: Any) -> Iterator[Any]:
    """A table as what ``transformWithStateInPandas`` wants; see ``plain``."""
    import pandas as pd

    for batch in batches_of(table):
        columns = {
            name: pd.arrays.ArrowExtensionArray(pa.chunked_array([column]))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        yield pd.DataFrame(columns, copy=False)


def plain(schema: Any) -> bool:
    """Whether rows of this schema may leave a stateful operator as they are.

    Spark takes Arrow columns out of pandas frames as they stand, but arrays, structures and the
    like value by value, as Python objects; rows that have such leave it in parcels.
    """
    kinds = {type(field.dataType).__name__ for field in schema.fields}
    return kinds <= PLAIN and len(set(schema.names)) == len(schema.names)


def packed(frame: Any, columns: Sequence[str], buckets: int) -> Any:
    """A frame of parcels, by bucket of the key in these columns."""
    from pyspark.sql import functions as sql

    timed = frame.withColumn(CLOCK, sql.unix_seconds(sql.current_timestamp()))
    key = tuple(columns)

    def parcels(batches: Iterable[Any]) -> Iterator[Any]:
        for table in _gathered(batches):
            yield _sorted_out(table, key, buckets)

    return timed.mapInArrow(parcels, PARCELS)


def unpacked(frame: Any, schema: Any) -> Any:
    """The rows of a frame of parcels."""
    return frame.mapInArrow(_rows, schema)


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= PARCEL_ROWS or size >= PARCEL_BYTES:
            yield together(held)
            held, rows, size = [], 0, 0
    if rows:
        yield together(held)


def together(batches: list[Any]) -> Any:
    """One table; an operator may have rows to add that lack a column, so null is allowed."""
    table = pa.Table.from_batches(batches)
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    return pa.table(table.columns, schema=schema)


def _sorted_out(table: Any, columns: tuple[str, ...], buckets: int) -> Any:
    """One parcel for each bucket that rows of a table belong to."""
    at = table[CLOCK][0]
    table = table.drop_columns([CLOCK])
    codes, keys, _ = keyed(table, columns)
    bucket = bucket_of(keys, buckets)[codes]
    # 16 bits are sorted without comparing.
    table = table.take(pa.array(np.argsort(bucket.astype(np.int16), kind="stable")))
    counts = np.bincount(bucket, minlength=buckets)
    starts = np.cumsum(counts) - counts
    there = np.flatnonzero(counts)
    made = packs(table.slice(starts[b], counts[b]) for b in there.tolist())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(there, pa.int32()),
            pa.array([at.as_py()] * len(made), pa.int64()),
            made,
        ],
        names=["bucket", "at", "parcel"],
    )


def _rows(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for parcel in batch.column("parcel"):
            yield from unpack(parcel.as_buffer()).to_batches(max_chunksize=BATCH_ROWS)
