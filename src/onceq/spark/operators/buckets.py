"""An operator with one record for each key, run by Spark on a stream: buckets of keys, their rows
and memory.

What is decided is an operator's matter (``Work``); this is how it comes to the rows. Spark keeps
the memory of each bucket with the checkpoint, and the rows of a micro-batch travel to it in parcels
(``parcels``). A frame that is no stream is all there is, and begins with no memory; its rows need
not travel (``beside``).

Upholds: I24 (a bucket's memory is bounded by its keys; a task holds the rows that one micro-batch
has of one bucket).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from onceq.spark.operators.columns import stateful
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import (
    PARCEL,
    as_frames,
    packed,
    parcels_of,
    plain,
    unpack,
    unpacked,
)

BUCKETS: Final = 32
"""Buckets of keys if nobody says more: as many tasks can work at one time. It never changes with a
checkpoint, so it does not depend on any setting of Spark's."""


class Work(Protocol):
    """What an operator does with the rows of a bucket."""

    buckets: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is remembered of a key, and its types."""

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """The rows that come of these, and what is remembered then."""


def bucketed(frame: Any, what: str, key: Sequence[str], work: Work, schema: Any) -> Any:
    """A stream through an operator; raises ConfigurationError."""
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

        tables: list[Any] = []
        now_s = 0
        for frame in rows:
            now_s = int(frame["at"].iloc[0])
            tables += [unpack(bytes(parcel)) for parcel in frame["parcel"]]
        held, work = self._state.get(), self._work
        memory = (
            Memory.empty(work.fields) if held is None else Memory.read(bytes(held[0]), work.buckets)
        )
        table = pa.concat_tables(tables)
        # What the operator has taken apart is not held once more.
        tables.clear()
        out, after = work.done(table, memory, now_s)
        del table
        self._state.update((after.write(work.buckets),))
        if self._straight:
            yield from as_frames(out)
        else:
            yield pd.DataFrame({"parcel": parcels_of(out).to_pandas()})

    def close(self) -> None:
        """Nothing is held open."""
