"""An operator with one record for each key, run by Spark: buckets of keys, their rows and memory.

What is decided is an operator's matter (``Work``); this is how it comes to the rows. In a stream
Spark keeps the memory of each bucket with the checkpoint; a frame that is no stream is all there
is, and begins with none. A stream's rows travel in parcels to the memory of their bucket
(``parcels``); without memory they need not, and Spark's own shuffle is quicker.

Upholds: I24 (a bucket's memory is bounded by its keys; a task holds the rows of one bucket).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from onceq.spark.operators.case_folding import alike_column
from onceq.spark.operators.columns import stateful
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import (
    CLOCK,
    PARCEL,
    as_frames,
    batches_of,
    packed,
    parcels_of,
    plain,
    together,
    unpack,
    unpacked,
)

BUCKETS: Final = 32
"""Buckets of keys if nobody says more: as many tasks can work at one time. It never changes with a
checkpoint, so it does not depend on any setting of Spark's."""
BUCKET: Final = "__onceq_bucket"


class Work(Protocol):
    """What an operator does with the rows of a bucket."""

    buckets: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is remembered of a key, and its types."""

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """The rows that come of these, and what is remembered then."""


def bucketed(frame: Any, what: str, key: Sequence[str], work: Work, schema: Any) -> Any:
    """A frame through an operator; raises ConfigurationError."""
    if not frame.isStreaming:
        return _at_once(frame, key, work, schema)
    stateful(frame, what)
    straight = plain(schema)
    done = (
        packed(frame, key, work.buckets)
        .groupBy("bucket")
        .transformWithStateInPandas(
            BucketProcessor(work, straight=straight),
            schema if straight else PARCEL,
            "append",
            "none",
        )
    )
    return done if straight else unpacked(done, schema)


def _at_once(frame: Any, key: Sequence[str], work: Work, schema: Any) -> Any:
    """A frame that is no stream: Spark itself brings the rows of a key together, and sorts by
    bucket, so that a task holds its rows of one bucket at a time."""
    from pyspark.sql import functions as sql

    texts = [alike_column(sql.col(name)) for name in key]
    bucket = sql.pmod(sql.hash(*texts), sql.lit(work.buckets)).cast("smallint")
    timed = frame.withColumn(CLOCK, sql.unix_seconds(sql.current_timestamp()))
    # Spread by key: a few buckets would fall to a few tasks, one with twice the rows of another.
    together = timed.withColumn(BUCKET, bucket).repartition(*texts).sortWithinPartitions(BUCKET)
    return together.mapInArrow(lambda batches: _rows_of_buckets(work, batches), schema)


def _rows_of_buckets(work: Work, batches: Iterable[Any]) -> Iterator[Any]:
    """What an operator says where nothing was before."""
    for table in tables_of(batches):
        now_s = table[CLOCK][0].as_py()
        table = table.drop_columns([CLOCK])
        out, _ = work.done(table, Memory.empty(work.fields), now_s)
        # No bucket is held any more while the next one is gathered.
        del table
        yield from batches_of(out)
        del out


def tables_of(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of each bucket as a table; they come sorted by bucket, which is the last column."""
    held: list[Any] = []
    at = -1
    for batch in batches:
        buckets = batch.column(batch.num_columns - 1).to_numpy()
        changes = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
        for start, end in pairwise([0, *changes, batch.num_rows]):
            if start == end:
                continue  # A batch without rows.
            if buckets[start] != at:
                # A bucket in two pieces would be decided twice, from nothing each time.
                assert buckets[start] > at, "the rows of a bucket stand together"
                if held:
                    yield _handed_over(held)
            at = int(buckets[start])
            held.append(batch.slice(start, end - start))
    if held:
        yield _handed_over(held)


def _handed_over(held: list[Any]) -> Any:
    """Batches as a table, and no longer in the list."""
    table = together(held).drop_columns([BUCKET])
    held.clear()
    return table


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]
    """An operator with the memory of each bucket kept by Spark."""

    def __init__(self, work: Work, *, straight: bool) -> None:
        """``straight``: whether it gives rows, or parcels of them."""
        self._work = work
        self._straight = straight

    def init(self, handle: Any) -> None:
        """Called once for each task."""
        self._state = handle.getValueState("memory", "memory binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """All parcels of a bucket in this micro-batch."""
        import pandas as pd

        frames = list(rows)
        tables = [unpack(bytes(parcel)) for frame in frames for parcel in frame["parcel"]]
        now_s = int(frames[0]["at"].iloc[0])
        held, work = self._state.get(), self._work
        memory = (
            Memory.empty(work.fields) if held is None else Memory.read(bytes(held[0]), work.buckets)
        )
        out, after = work.done(pa.concat_tables(tables), memory, now_s)
        self._state.update((after.write(work.buckets),))
        if self._straight:
            yield from as_frames(out)
        else:
            yield pd.DataFrame({"parcel": parcels_of(out).to_pandas()})

    def close(self) -> None:
        """Nothing is held open."""
