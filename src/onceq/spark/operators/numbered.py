"""Where numbering goes on from: the last numbers of what was numbered before.

A frame of numbered messages is read once, on the driver: of each pair of sender and queue the row
with the last number of its latest stream, and so the place that numbering had reached. What comes
of it goes with every task, in one piece for each bucket.

Upholds: I7 (numbers are for ever), I24 (what goes with every task has a limit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.spark.operators.columns import STREAM_MAX, TEXT, WHOLE, need, numbers_of, streams_of
from onceq.spark.operators.keys import bucket_of, keyed
from onceq.spark.operators.memory import Memory
from onceq.spark.options import wrong

COLUMNS: Final = {
    "sourceMachine": (TEXT, "who sent it"),
    "queue": (TEXT, "its destination"),
    "commitOrder": (WHOLE, "its transaction's place among the commits of the sender"),
    "sendOrder": (WHOLE, "its own place in the transaction"),
    "streamId": ((*WHOLE, *TEXT), "its stream"),
    "seqNumber": (WHOLE, "its number there; null: it got none"),
}
FIELDS: Final[Mapping[str, Any]] = {
    "stream": np.uint64, "last": np.int64, "commit": np.int64, "send": np.int64,
    "acknowledged": np.int64,
}  # fmt: skip
"""The stream of a key, the last number given there, the place that numbering has reached, and up to
where the stream is acknowledged."""
PAIRS_MAX: Final = 1_000_000
"""Pairs of sender and queue that numbering goes on for: they go with every task, some 20 to 100
bytes each."""


def numbered_before(after: Any, what: str, key: Sequence[str], buckets: int) -> Mapping[int, bytes]:
    """What was numbered before, as the memory of each bucket that has any.

    Raises:
        ConfigurationError: A column is missing, a row cannot be, or there are too many pairs.
    """
    what = f"{what}: after"
    need(after, what, COLUMNS)
    if after.isStreaming:
        raise wrong(f"{what} is a stream, and is read once; give a table: spark.read...")
    table = _lasts(after, key)
    if table.num_rows > PAIRS_MAX:
        raise wrong(
            f"{what} has more than {PAIRS_MAX} pairs of sender and queue; number them in parts"
        )
    return by_bucket(memory_of(table, what, key), buckets)


def _lasts(after: Any, key: Sequence[str]) -> Any:
    """The last row of each pair as it is spelled."""
    from pyspark.sql import functions as sql

    place = sql.struct(
        # Numbers, also where they are written as text, and in the order of numbers.
        sql.expr("try_cast(streamId as decimal(20, 0))").alias("stream"),
        sql.col("seqNumber").cast("bigint").alias("last"),
        sql.col("commitOrder").cast("bigint").alias("commit"),
        sql.col("sendOrder").cast("bigint").alias("send"),
    )
    there = after.dropna("any", subset=[*key, "commitOrder", "sendOrder", "seqNumber"])
    found = there.groupBy(*key).agg(sql.max(place).alias("at"))
    named = found.select(
        *key, sql.col("at.stream").cast("string").alias("stream"), "at.last", "at.commit", "at.send"
    )
    return named.limit(PAIRS_MAX + 1).toArrow()


def memory_of(table: Any, what: str, key: Sequence[str]) -> Memory:
    """One record for each pair, however it is spelled; raises ConfigurationError."""
    streams, fine = streams_of(table["stream"])
    lasts, sound = numbers_of(table["last"], least=1)
    if not (fine & sound & (streams > 0) & (streams < STREAM_MAX)).all():
        raise wrong(
            f"{what} has a row whose streamId or seqNumber is none: streams are 1 to "
            f"{STREAM_MAX - 1}, and numbers as number gives them"
        )
    codes, keys, _ = keyed(table, key)
    order = np.lexsort((lasts, streams, codes))
    end = np.ones(len(order), np.bool_)
    end[:-1] = codes[order][1:] != codes[order][:-1]
    row = order[end]
    fields = {
        "stream": streams[row], "last": lasts[row],
        "commit": table["commit"].to_numpy()[row], "send": table["send"].to_numpy()[row],
        "acknowledged": np.zeros(len(row), np.int64),
    }  # fmt: skip
    return Memory(keys.take(pa.array(codes[row])), fields)


def by_bucket(memory: Memory, buckets: int) -> Mapping[int, bytes]:
    bucket = bucket_of(memory.keys, buckets)
    return {int(b): memory.part(bucket == b).write(buckets) for b in np.unique(bucket).tolist()}
