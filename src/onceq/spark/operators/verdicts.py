"""Verdicts on rows that stand in order; and on a frame, whose rows stay in Spark meanwhile.

Of a frame that is no stream Python gets the columns that a verdict depends on, and gives back a
verdict for each row (``beside``). What it remembers is one record for each key, as in a stream.
Order acknowledgments are known when a task has seen all of its rows: they travel with the last one,
and become rows behind it.

Upholds: I4 (accepted at most once), I5 (commit order), I9 (acknowledgments are truthful),
I24 (a task remembers one record for each key, however many rows there are).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.classes import MessageClass, class_name
from onceq.spark.operators.beside import FOUND, Pages, answered, in_one_task, unnamed
from onceq.spark.operators.columns import WHOLE, numbers_of, streams_of
from onceq.spark.operators.keys import keyed
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.rules import MALFORMED, VERDICTS, Flags, Ints, Streams, judge

Codes = np.ndarray[Any, np.dtype[np.int8]]

KEY: Final = ("sourceMachine", "queue")
TOLD: Final = (*KEY, "streamId", "seqNumber")
"""What an order acknowledgment says."""
JUDGED: Final = (*TOLD, "prevNumber")
"""What a verdict depends on, besides the order of the rows."""
VERDICT: Final = "verdict"
ORDER_ACK: Final = class_name(MessageClass.ORDER_ACK)
"""The verdict of rows that are no messages but order acknowledgments."""
FIELDS: Final = {"stream": np.uint64, "last": np.int64, "seen": np.int64}
"""The stream that a key is in, the last number accepted there, when a row of it came (s)."""
ACKS: Final = "acks"
ACK: Final = pa.struct(
    [pa.field(name, pa.int64() if name == "seqNumber" else pa.string()) for name in TOLD]
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the columns of rows say, and which rows are messages of a stream (``good``)."""

    streams: Streams
    numbers: Ints
    previous: Ints
    good: Flags

    def placed(self, order: Ints) -> Parsed:
        """Of the same rows in another order."""
        return Parsed(
            self.streams[order], self.numbers[order], self.previous[order], self.good[order]
        )


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of rows.

    Attributes:
        verdicts: Of each row, as a place among ``VERDICTS``.
        keys: All that there are among the rows, as an Arrow array.
        seen, new: Of each key: whether a message of it was there; whether nothing was remembered.
        first: The first row of each key.
        streams, lasts: Of each key afterwards, as in ``Judged``.
        memory: What is remembered.
    """

    verdicts: Codes
    keys: Any
    seen: Flags
    new: Flags
    first: Ints
    streams: Streams
    lasts: Ints
    memory: Memory


def parsed(table: Any) -> Parsed:
    """What the columns ``JUDGED`` of a table say, names aside."""
    streams, good = streams_of(table["streamId"])
    numbers, fine = numbers_of(table["seqNumber"], least=1)
    previous, sound = numbers_of(table["prevNumber"], least=0)
    return Parsed(streams, numbers, previous, good & fine & sound)


def decided(table: Any, rows: Parsed, memory: Memory, now_s: int) -> Decided:
    """Decide about the rows of a table in the order in which they stand."""
    codes, keys, there = keyed(table, KEY)
    good = rows.good & there
    held, at = memory.of(keys)
    found = judge(
        codes[good], rows.streams[good], rows.numbers[good], rows.previous[good],
        held["stream"], held["last"],
    )  # fmt: skip
    verdicts = np.full(table.num_rows, MALFORMED, np.int8)
    verdicts[good] = found.verdicts
    seen = np.zeros(len(keys), np.bool_)
    seen[codes[good]] = True
    first = np.zeros(len(keys), np.int64)
    first[codes[::-1]] = np.arange(table.num_rows - 1, -1, -1)
    fields = {
        "stream": found.streams,
        "last": found.lasts,
        "seen": np.where(seen, now_s, held["seen"]),
    }
    after = memory.after(keys, at, fields, found.lasts > 0)
    return Decided(verdicts, keys, seen, at < 0, first, found.streams, found.lasts, after)


# ---- a frame that is no stream --------------------------------------------------------------


def judged(frame: Any, order_by: Sequence[str], schema: Any) -> Any:
    """A frame with verdicts, and its order acknowledgments; ``schema``: what comes out."""
    from pyspark.sql import functions as sql

    inner, column = unnamed(frame)
    numbered = dict(frame.dtypes)["streamId"] in WHOLE
    stream = column["streamId"]
    # Which of two numbers in text is the higher one; what is none may stand anywhere.
    digits = sql.ltrim(stream, sql.lit("0"))
    streams = [stream] if numbered else [sql.length(digits), digits]
    order = [column[name].asc_nulls_last() for name in order_by]
    order += [*streams, column["seqNumber"], column["prevNumber"]]
    asked = {name: column[name] for name in JUDGED}
    together = in_one_task(inner, [column[name] for name in KEY], order)
    found = answered(together, asked, verdicts_of, _kind())
    found = found.select("*", sql.explode_outer(f"{FOUND}.{ACKS}").alias(ACKS))
    message = sql.col(ACKS).isNull()
    columns = []
    for field in schema.fields[:-1]:
        what = sql.when(message, column[field.name])
        if field.name in TOLD:
            what = what.otherwise(sql.col(ACKS)[field.name].cast(field.dataType))
        columns.append(what.alias(field.name))
    # One byte for each row comes from Python, and Spark knows the word for it.
    word = sql.lit(list(VERDICTS))[sql.col(f"{FOUND}.{VERDICT}")]
    verdict = sql.when(message, word).otherwise(ORDER_ACK)
    return found.select(*columns, verdict.alias(VERDICT))


def _kind() -> Any:
    from pyspark.sql.types import (
        ArrayType,
        ByteType,
        LongType,
        StringType,
        StructField,
        StructType,
    )

    ack = [StructField(n, LongType() if n == "seqNumber" else StringType()) for n in TOLD]
    return StructType(
        [StructField(VERDICT, ByteType()), StructField(ACKS, ArrayType(StructType(ack)))]
    )


def verdicts_of(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Verdicts on the rows of a task, in order; ``batches``: their columns ``JUDGED``.

    Yields:
        For each row a structure of its verdict, as a place among ``VERDICTS``, and of order
        acknowledgments: null, or with the last row a list that begins with null, which stands for
        the row itself.
    """
    memory = Memory.empty(FIELDS)
    names: list[Any] = []
    codes: Codes | None = None
    pages = Pages(batches, JUDGED)
    for table in pages:
        if codes is not None:
            yield _with_acks(codes, None)
        found = decided(table, parsed(table), memory, 0)
        # Keys of which nothing was accepted so far: how they are spelled is told in the end.
        rows = table.select(KEY).take(pa.array(found.first[found.new]))
        names.append(rows.append_column("key", found.keys.filter(pa.array(found.new))))
        codes, memory = found.verdicts, found.memory
        pages.remembered = len(memory.keys)
    if codes is not None:
        yield _with_acks(codes, _acks(memory, pa.concat_tables(names)))


def _acks(memory: Memory, names: Any) -> Any:
    """Structures ``ACK`` of all that is remembered; ``names``: spellings, the first one counts."""
    told = names.take(pc.index_in(memory.keys, value_set=names["key"].combine_chunks()))
    stream, last = (pa.array(memory.fields[name]) for name in ("stream", "last"))
    texts = [told[name].combine_chunks().cast(pa.string()) for name in KEY]
    return pa.StructArray.from_arrays([*texts, stream.cast(pa.string()), last], fields=list(ACK))


def _with_acks(codes: Codes, acks: Any) -> Any:
    if acks is None or not len(acks):
        lists = pa.nulls(len(codes), pa.list_(ACK))
    else:
        values = pa.concat_arrays([pa.nulls(1, ACK), acks])
        ends = pa.array([None] * (len(codes) - 1) + [0, len(values)], pa.int32())
        lists = pa.ListArray.from_arrays(ends, values)
    return pa.StructArray.from_arrays([pa.array(codes), lists], names=[VERDICT, ACKS])
