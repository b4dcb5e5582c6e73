"""An operator with one record for each key, run by Spark: buckets of keys, their rows and memory.

What is decided is an operator's matter (``Work``); this is how it comes to the rows. In a stream
Spark keeps the memory of each bucket with the checkpoint; a frame that is no stream is all there
is, and begins with none.

Upholds: I24 (a bucket's memory is bounded by its keys).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from onceq.spark.operators.columns import stateful
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.packing import PARCEL, packed, parcels_of, unpack, unpacked

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
    """A frame through an operator; raises ConfigurationError."""
    if frame.isStreaming:
        stateful(frame, what)
    parcels = packed(frame, key, work.buckets).groupBy("bucket")
    if frame.isStreaming:
        done = parcels.transformWithStateInPandas(BucketProcessor(work), PARCEL, "append", "none")
    else:
        # Spark counts parameters, and takes a method's own object for one.
        done = parcels.applyInArrow(lambda group: _whole(work, group), PARCEL)
    return unpacked(done, schema)


def _whole(work: Work, group: Any) -> Any:
    """All rows of a bucket at once, where nothing was before."""
    table = pa.concat_tables([unpack(parcel.as_buffer()) for parcel in group["parcel"]])
    out, _ = work.done(table, Memory.empty(work.fields), group["at"][0].as_py())
    return pa.table({"parcel": parcels_of(out)})


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]
    """An operator with the memory of each bucket kept by Spark."""

    def __init__(self, work: Work) -> None:
        self._work = work

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
        yield pd.DataFrame({"parcel": parcels_of(out).to_pandas()})

    def close(self) -> None:
        """Nothing is held open."""
