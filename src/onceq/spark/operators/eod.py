"""The receiver filter over feeds of any size: ``eod_filter``.

A feed repeats, delays and mixes messages. For each pair of sender and queue the filter keeps the
stream that it is in and the number of the last message that it accepted, and nothing else; so it
needs one record for a stream, however long that is. It decides as a queue manager's own filter
does (``rules.judge``), in the order of arrival.

Rows of a stream travel in parcels by bucket of their key, and the state of a bucket is one value
(``key_buckets``). A stream that was silent for long is forgotten by the time of the micro-batch:
a record that is too old does not count, whether it was thrown away yet or not. So no timers are
needed, which Spark would run in batches only, and a batch that is run again decides as before.

Rows of any other frame stay in Spark: Python gets the columns that a verdict depends on, and gives
back a verdict for each row. Order acknowledgments are known when a task has seen all of its rows:
they travel with the last one, and become rows behind it.

Upholds: I4 (accepted at most once), I5 (commit order), I9 (acknowledgments are truthful), I24 (a
task remembers one record for each key, however many rows there are).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from onceq.model.resultcodes import MessageClass, class_name
from onceq.spark.argument_checks import require_integer, wrong
from onceq.spark.operators.columns import (
    TEXT,
    WHOLE,
    checked_buckets,
    free,
    keyed,
    need,
    numbers_of,
    order_of,
    streams_of,
    with_columns,
)
from onceq.spark.operators.key_buckets import (
    BUCKETS,
    FOUND,
    BucketRecords,
    RowPages,
    answered,
    bucketed,
    in_one_task,
    placed,
    unnamed,
)
from onceq.spark.operators.rules import ACCEPT, MALFORMED, VERDICTS, Flags, Ints, Streams, judge

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
class DecidedRows:
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
    memory: BucketRecords


def parsed(table: Any) -> Parsed:
    """What the columns ``JUDGED`` of a table say, names aside."""
    streams, good = streams_of(table["streamId"])
    numbers, fine = numbers_of(table["seqNumber"], least=1)
    previous, sound = numbers_of(table["prevNumber"], least=0)
    return Parsed(streams, numbers, previous, good & fine & sound)


def decided(table: Any, rows: Parsed, memory: BucketRecords, now_s: int) -> DecidedRows:
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
    return DecidedRows(verdicts, keys, seen, at < 0, first, found.streams, found.lasts, after)


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
    from pyspark.sql.types import ArrayType, ByteType, LongType, StringType, StructField, StructType

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
    memory = BucketRecords.empty(FIELDS)
    names: list[Any] = []
    codes: Codes | None = None
    pages = RowPages(batches, JUDGED)
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
        # Of all that is remembered; of its spellings the first one counts.
        spelled = pa.concat_tables(names)
        keys = spelled["key"].combine_chunks()
        told = spelled.take(pc.index_in(memory.keys, value_set=keys))
        stream, last = (pa.array(memory.fields[name]) for name in ("stream", "last"))
        texts = [told[name].combine_chunks().cast(pa.string()) for name in KEY]
        acks = [*texts, stream.cast(pa.string()), last]
        yield _with_acks(codes, pa.StructArray.from_arrays(acks, fields=list(ACK)))


def _with_acks(codes: Codes, acks: Any) -> Any:
    if acks is None or not len(acks):
        lists = pa.nulls(len(codes), pa.list_(ACK))
    else:
        values = pa.concat_arrays([pa.nulls(1, ACK), acks])
        ends = pa.array([None] * (len(codes) - 1) + [0, len(values)], pa.int32())
        lists = pa.ListArray.from_arrays(ends, values)
    return pa.StructArray.from_arrays([pa.array(codes), lists], names=[VERDICT, ACKS])


WHAT: Final = "eod_filter"
NEVER_RETIRED: Final = 0
RETIRE_AFTER_S_MAX: Final = (1 << 31) - 1
"""Some 68 years."""
RETIRE_AFTER_S: Final = 90 * 86_400
"""Streams are forgotten that late: the longest time in which published queue managers let a
message reach its queue (EOD-30)."""
COLUMNS: Final = {
    "sourceMachine": (TEXT, "who sent it"),
    "queue": (TEXT, "the destination, as its stream is named"),
    "streamId": ((*WHOLE, *TEXT), "its message stream"),
    "seqNumber": (WHOLE, "its number there"),
    "prevNumber": (WHOLE, "the number before it, 0 for none"),
}

JUDGED_BY: Final = {VERDICT: (TEXT, "what eod_filter adds")}


def eod_filter(
    frame: Any,
    *,
    order_by: str | Sequence[str] | None = None,
    retire_after_s: int = RETIRE_AFTER_S,
    buckets: int = BUCKETS,
) -> Any:
    """Say of each message whether it is accepted, once and in order, or why not.

    Args:
        frame: Messages as rows, a stream or not; columns ``COLUMNS``, and any others.
        order_by: Columns that say in which order the messages arrived. Without it ``lookupId``,
            if there is one; else streams and numbers, which undoes any disorder inside one
            micro-batch, or inside the whole of a frame that is no stream.
        retire_after_s: Streams only: forget a stream when nothing was seen of it for this time;
            0: never. Not less than four days, the time in which a message may still be on its
            way.
        buckets: Streams only: how many tasks can share the work at one time, settled for the
            life of the checkpoint.

    Returns:
        The rows and a column ``verdict``, one of ``rules.VERDICTS``; accepted rows of a stream in
        order. Besides, for each pair of sender and queue of which a row was seen, a row with the
        verdict ``order-ack``: its ``seqNumber`` is the last one accepted, other columns are null.
        ``accepted``, ``rejected`` and ``order_acknowledgments`` tell them apart.

    Raises:
        ConfigurationError: A column is missing, or a parameter makes no sense.
    """
    need(frame, WHAT, COLUMNS)
    free(frame, WHAT, (VERDICT,))
    require_integer(retire_after_s, "retire_after_s", NEVER_RETIRED, RETIRE_AFTER_S_MAX)
    if NEVER_RETIRED < retire_after_s < TIME_TO_REACH_QUEUE_DEFAULT_S:
        raise wrong(
            f"retire_after_s is {TIME_TO_REACH_QUEUE_DEFAULT_S} or more, or 0 for never: a message "
            "of a stream that was forgotten too early would be accepted a second time"
        )
    order = order_of(frame, WHAT, order_by)
    schema = with_columns(frame, {VERDICT: "string"})
    work = EodFilter(order, checked_buckets(buckets), retire_after_s)
    if not frame.isStreaming:
        return judged(frame, order, schema)
    return bucketed(frame, WHAT, KEY, work, schema)


def accepted(frame: Any) -> Any:
    """The messages that ``eod_filter`` accepted."""
    return _those(frame, VERDICTS[ACCEPT], "accepted")


def rejected(frame: Any) -> Any:
    """The messages that it rejected, with their verdict."""
    need(frame, "rejected", JUDGED_BY)
    return frame.where(~frame[VERDICT].isin(VERDICTS[ACCEPT], ORDER_ACK))


def order_acknowledgments(frame: Any) -> Any:
    """What the senders are to be told: ``sourceMachine``, ``queue``, ``streamId``, ``seqNumber``.

    Everything up to that number of that stream is accepted, once the micro-batch is committed.
    """
    what = "order_acknowledgments"
    need(frame, what, COLUMNS)
    return _those(frame, ORDER_ACK, what).select(*KEY, "streamId", "seqNumber")


def _those(frame: Any, verdict: str, what: str) -> Any:
    need(frame, what, JUDGED_BY)
    return frame.where(frame[VERDICT] == verdict).drop(VERDICT)


class EodFilter:
    """What is done with the rows of a bucket."""

    fields: Final[Mapping[str, Any]] = FIELDS

    def __init__(self, order_by: tuple[str, ...], buckets: int, retire_after_s: int) -> None:
        self._order_by = order_by
        self._retire_after_s = retire_after_s
        self.buckets = buckets

    def done(self, table: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """Rows with their verdicts and the acknowledgments, and what is remembered then."""
        table, rows = self._in_order(table)
        if self._retire_after_s != NEVER_RETIRED:
            # Streams are forgotten of which nothing was heard for so long.
            memory = memory.part(memory.fields["seen"] > now_s - self._retire_after_s)
        found = decided(table, rows, memory, now_s)
        told = np.flatnonzero(found.seen & (found.lasts > 0))
        acks = _acks(table, found.first[told], found.streams[told], found.lasts[told])
        words = pa.array(VERDICTS).take(pa.array(found.verdicts))
        return pa.concat_tables([table.append_column(VERDICT, words), acks]), found.memory

    def _in_order(self, table: Any) -> tuple[Any, Parsed]:
        """Rows in the order in which they are decided, and what their columns say."""
        rows = parsed(table)
        order = self._named(table)
        if order is None:
            # Parcels come in no order, so that even rows that claim one place need an order.
            order = np.lexsort((rows.previous, rows.numbers, rows.streams))
            if self._order_by:
                named = [(name, "ascending") for name in self._order_by]
                first = table.select(self._order_by).take(pa.array(order))
                order = order[pc.sort_indices(first, sort_keys=named).to_numpy()]
        return placed(table, order), rows.placed(order)

    def _named(self, table: Any) -> Any:
        """The order by a column of numbers or times that are all there, and all different."""
        if len(self._order_by) != 1:
            return None
        column = table[self._order_by[0]]
        kind = column.type
        if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            return None
        values = column.to_numpy()
        # What is sorted mostly already is sorted quickly by this kind.
        order = np.argsort(values, kind="stable")
        values = values[order]
        return None if (values[1:] == values[:-1]).any() else order


def _acks(table: Any, rows: Any, streams: Any, lasts: Any) -> Any:
    """Order acknowledgments as rows; sender and queue are spelled as in the first row of each."""
    told = table.select(KEY).take(pa.array(rows))
    columns = []
    for field in table.schema:
        if field.name in KEY:
            columns.append(told[field.name])
        elif field.name == "streamId":
            columns.append(pa.array(streams).cast(field.type))
        elif field.name == "seqNumber":
            columns.append(pa.array(lasts).cast(field.type))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    words = pa.array([ORDER_ACK] * len(rows), pa.string())
    return pa.table([*columns, words], names=[*table.schema.names, VERDICT])
