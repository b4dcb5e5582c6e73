"""Sequence numbers for what was committed: ``number``.

A receiver tells repetitions and gaps by numbers alone, so a number is given once, to one message,
in the order of the sender's commits, with the messages of a transaction together and in the order
of their sends. For each pair of sender and queue there is one stream; its memory is the last
number, the place that has it, and how far receivers have acknowledged it.

A stream whose messages are all acknowledged is left with the next message, and a greater one begun
(EOD-12), as in a queue manager. Acknowledgments come as rows beside the messages, and count before
them: they are about what earlier micro-batches have numbered.

Numbering can go on from a frame of numbered messages. It is read once, on the driver: of each pair
of sender and queue the row with the last number of its latest stream. What comes of it goes with
every task, in one piece for each bucket.

Upholds: I5 (commit order), I7 (a number is never given twice), I8 (true links), I24 (what goes with
every task has a limit).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.spark.argument_checks import require_integer, wrong
from onceq.spark.operators.columns import (
    STREAM_MAX,
    TEXT,
    WHOLE,
    bucket_of,
    checked_buckets,
    free,
    keyed,
    need,
    numbers_of,
    streams_of,
    with_columns,
)
from onceq.spark.operators.key_buckets import (
    BUCKETS,
    FOUND,
    BucketRecords,
    answered,
    bucketed,
    clocked,
    deciding,
    in_one_task,
    placed,
    unnamed,
)
from onceq.spark.operators.rules import NUMBER_MAX, Flags, Ints, Streams, renewable
from onceq.spark.operators.rules import number as number_rule

NUMBERED_COLUMNS: Final = {
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
    need(after, what, NUMBERED_COLUMNS)
    if after.isStreaming:
        raise wrong(f"{what} is a stream, and is read once; give a table: spark.read...")
    from pyspark.sql import functions as sql

    place = sql.struct(
        # Numbers, also where they are written as text, and in the order of numbers.
        sql.expr("try_cast(streamId as decimal(20, 0))").alias("stream"),
        sql.col("seqNumber").cast("bigint").alias("last"),
        sql.col("commitOrder").cast("bigint").alias("commit"),
        sql.col("sendOrder").cast("bigint").alias("send"),
    )
    there = after.dropna("any", subset=[*key, "commitOrder", "sendOrder", "seqNumber"])
    # The last row of each pair by its exact spelling.
    lasts = there.groupBy(*key).agg(sql.max(place).alias("at"))
    named = lasts.select(
        *key, sql.col("at.stream").cast("string").alias("stream"), "at.last", "at.commit", "at.send"
    )
    table = named.limit(PAIRS_MAX + 1).toArrow()
    if table.num_rows > PAIRS_MAX:
        raise wrong(
            f"{what} has more than {PAIRS_MAX} pairs of sender and queue; number them in parts"
        )
    return by_bucket(memory_of(table, what, key), buckets)


def memory_of(table: Any, what: str, key: Sequence[str]) -> BucketRecords:
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
    return BucketRecords(keys.take(pa.array(codes[row])), fields)


def by_bucket(memory: BucketRecords, buckets: int) -> Mapping[int, bytes]:
    bucket = bucket_of(memory.keys, buckets)
    return {int(b): memory.part(bucket == b).write(buckets) for b in np.unique(bucket).tolist()}


WHAT: Final = "number"
KEY: Final = ("sourceMachine", "queue")
COLUMNS: Final = {
    "sourceMachine": (TEXT, "who sends it"),
    "queue": (TEXT, "its destination: one queue"),
    "commitOrder": (WHOLE, "its transaction's place among the commits of the sender"),
    "sendOrder": (WHOLE, "its own place in the transaction"),
}
ADDED: Final = {"streamId": "string", "seqNumber": "bigint", "prevNumber": "bigint"}
ACKNOWLEDGED: Final = {
    "sourceMachine": (TEXT, "who sent the messages"),
    "queue": (TEXT, "their destination"),
    "streamId": ((*WHOLE, *TEXT), "their stream"),
    "seqNumber": (WHOLE, "the last one of it that was accepted"),
}
ACK_STREAM: Final = "__onceq_acknowledged_stream"
ACK_NUMBER: Final = "__onceq_acknowledged"
STAMP_MAX: Final = (1 << 32) - 1
FIRST_ORDINAL: Final = 1


def number(
    frame: Any,
    *,
    after: Any = None,
    acknowledgments: Any = None,
    stamp: int | None = None,
    buckets: int = BUCKETS,
) -> Any:
    """Give messages their stream, sequence number and previous number, in commit order.

    Args:
        frame: Committed messages as rows, one for each destination, a stream or not; columns
            ``COLUMNS``, and any others. A stream brings commits in their order: what comes
            after a later commit to the same queue was numbered gets no number any more.
        after: What was numbered before, if numbers go on from there: a frame with the columns that
            this function needs and adds, and of each pair of sender and queue at least the row with
            the last number. It is read once, now. A stream looks there for pairs that its
            checkpoint does not know.
        acknowledgments: Order acknowledgments, as ``order_acknowledgments`` makes them; a stream if
            the messages are one. Of whose stream everything is acknowledged, their next message
            begins a new one. Without them streams are never left.
        stamp: When this numbering began, in seconds since 1970: the upper half of stream
            identifiers. Without it the time of the first micro-batch that has a message of the
            stream, or, for a frame that is no stream, the time of this call.
        buckets: How many tasks can share the work at one time. With a stream it is settled for
            the life of its checkpoint.

    Returns:
        The rows, and columns ``streamId``, ``seqNumber`` and ``prevNumber``. All three are null
        where no number was given: the row repeats one that has its number, or comes too late, or
        lacks its sender, queue or place.

    Raises:
        ConfigurationError: A column is missing, or a parameter makes no sense.
    """
    need(frame, WHAT, COLUMNS)
    free(frame, WHAT, (*ADDED, ACK_STREAM, ACK_NUMBER))
    if stamp is not None:
        require_integer(stamp, "stamp, a time in seconds since 1970,", 1, STAMP_MAX)
    if stamp is None and not frame.isStreaming:
        # Once for the whole frame, however often its tasks are run.
        stamp = int(time.time())
    checked_buckets(buckets)
    before = {} if after is None else numbered_before(after, WHAT, KEY, buckets)
    schema = with_columns(frame, ADDED)
    if acknowledgments is not None:
        from pyspark.sql import functions as sql

        need(acknowledgments, f"{WHAT}: acknowledgments", ACKNOWLEDGED)
        if acknowledgments.isStreaming != frame.isStreaming:
            raise wrong(
                f"{WHAT}: messages and acknowledgments are both streams, or neither; "
                f"read {'them' if frame.isStreaming else 'both'} with "
                f"{'spark.readStream' if frame.isStreaming else 'spark.read'}"
            )
        told = acknowledgments.select(
            *KEY, sql.col("streamId").cast("string").alias(ACK_STREAM),
            sql.col("seqNumber").cast("bigint").alias(ACK_NUMBER),
        )  # fmt: skip
        told = told.where(f"{ACK_NUMBER} is not null")
        frame = frame.unionByName(told, allowMissingColumns=True)
    work = Numbering(stamp, buckets, before)
    if frame.isStreaming:
        return bucketed(frame, WHAT, KEY, work, schema)
    return _numbered(frame, work, schema)


def _numbered(frame: Any, work: Numbering, schema: Any) -> Any:
    """A frame that is no stream: acknowledgments first, and then messages in the order of commits,
    with the keys of a task side by side."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    inner, column = unnamed(frame)
    told = [name for name in (ACK_STREAM, ACK_NUMBER) if name in frame.columns]
    message = column[ACK_NUMBER].isNull() if told else sql.lit(True)
    order = [message, column["commitOrder"], column["sendOrder"]]
    asked = clocked({name: column[name] for name in (*COLUMNS, *told)})
    together = in_one_task(inner, [column[name] for name in KEY], order[0 if told else 1 :])
    kind = StructType(schema.fields[-len(ADDED) :])
    found = answered(together, asked, deciding(work, list(asked)), kind)
    columns = [column[name].alias(name) for name in frame.columns if name not in told]
    return found.where(message).select(
        *columns, *(sql.col(f"{FOUND}.{name}").alias(name) for name in ADDED)
    )


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """What became of rows, an array for each field.

    Attributes:
        codes: Place of the key of each row.
        messages: Which of them are no acknowledgments.
        streams: The stream of each row's key.
        numbers: Of each row; 0: none.
        memory: What is remembered.
    """

    codes: Ints
    messages: Flags
    streams: Streams
    numbers: Ints
    memory: BucketRecords


@dataclass(frozen=True, slots=True)
class EarlierNumbers:
    """What was numbered before, in one piece for each bucket; a piece is read when a key of it is
    met, and then kept."""

    pieces: Mapping[int, bytes]
    buckets: int
    _read: dict[int, BucketRecords] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what was read: it goes with every task."""
        return EarlierNumbers, (self.pieces, self.buckets)

    def fill(self, held: dict[str, Any], keys: Any, new: Flags) -> None:
        """Put the fields of ``new`` keys where they are known from before."""
        if not self.pieces or not new.any():
            return
        at = np.flatnonzero(new)
        unknown = keys.take(pa.array(at))
        # In a frame that is no stream Spark has divided the keys in its own way.
        bucket = bucket_of(unknown, self.buckets)
        for one in sorted(set(bucket.tolist()) & self.pieces.keys()):
            if one not in self._read:
                self._read[one] = BucketRecords.read(self.pieces[one], self.buckets)
            mine = np.flatnonzero(bucket == one)
            fields, _ = self._read[one].of(unknown.take(pa.array(mine)))
            for name, values in fields.items():
                held[name][at[mine]] = values


class Numbering:
    """What is done with the rows of a bucket, or with those of a task page by page."""

    fields: Final[Mapping[str, Any]] = FIELDS

    def __init__(
        self, stamp: int | None, buckets: int, before: Mapping[int, bytes] | None = None
    ) -> None:
        self._stamp = stamp
        self._before = EarlierNumbers(before or {}, buckets)
        self.buckets = buckets

    def done(self, table: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """Rows with their numbers, by stream and in order, and what is remembered then."""
        found = self._given(table, memory, now_s)
        order = np.lexsort((found.numbers, found.codes))
        order = order[found.messages[order]]
        told = [name for name in (ACK_STREAM, ACK_NUMBER) if name in table.column_names]
        rows = placed(table.drop_columns(told), order)
        for name, column in _columns(found.streams[order], found.numbers[order]).items():
            rows = rows.append_column(name, column)
        return rows, found.memory

    def beside(self, page: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """A structure of stream, number and the number before for each row."""
        found = self._given(page, memory, now_s)
        columns = _columns(found.streams, found.numbers)
        return pa.StructArray.from_arrays(list(columns.values()), list(columns)), found.memory

    def _given(self, table: Any, memory: BucketRecords, now_s: int) -> NumberedRows:
        codes, keys, good = keyed(table, KEY)
        held, at = memory.of(keys)
        self._before.fill(held, keys, at < 0)
        messages, acknowledged = _read_acknowledgments(table, codes, good, held)
        commits, fine = _places(table["commitOrder"])
        sends, sound = _places(table["sendOrder"])
        good &= messages & fine & sound
        renew = renewable(held["stream"], held["last"], acknowledged)
        found = number_rule(
            codes[good], commits[good], sends[good], np.where(renew, 0, held["last"]),
            held["commit"], held["send"], held["last"] > 0,
        )  # fmt: skip
        if found.lasts.max(initial=0) > NUMBER_MAX:
            raise wrong(
                f"a stream has {NUMBER_MAX} messages, and its numbers are used up. A new one may "
                "begin only when all of them are acknowledged: give number the acknowledgments="
            )
        numbers = np.zeros(table.num_rows, np.int64)
        numbers[good] = found.numbers
        renewed = renew & (found.lasts > 0)
        begun = np.uint64((self._stamp or now_s) << 32 | FIRST_ORDINAL)
        streams = np.where(held["stream"] > 0, held["stream"] + renewed.astype(np.uint64), begun)
        lasts = np.where(found.lasts > 0, found.lasts, held["last"])
        fields = {
            "stream": streams, "last": lasts, "commit": found.commits, "send": found.sends,
            "acknowledged": np.where(renewed, 0, acknowledged),
        }  # fmt: skip
        after = memory.after(keys, at, fields, lasts > 0)
        return NumberedRows(codes, messages, streams[codes], numbers, after)


def _read_acknowledgments(
    table: Any, codes: Ints, good: Flags, held: Mapping[str, Any]
) -> tuple[Flags, Ints]:
    """Return which rows are messages, and up to where each stream is acknowledged.

    An acknowledgment of another stream, or of a number that was not given, does not count (EOD-10).
    """
    acknowledged = held["acknowledged"].copy()
    if ACK_NUMBER not in table.column_names:
        return np.ones(table.num_rows, np.bool_), acknowledged
    told = table[ACK_NUMBER].is_valid().to_numpy()
    streams, fine = streams_of(table[ACK_STREAM])
    numbers, sound = numbers_of(table[ACK_NUMBER], least=1)
    true = told & good & fine & sound
    true &= (streams == held["stream"][codes]) & (numbers <= held["last"][codes])
    np.maximum.at(acknowledged, codes[true], numbers[true])
    return ~told, acknowledged


def _places(column: Any) -> tuple[Any, Any]:
    good = column.is_valid().to_numpy()
    return pc.fill_null(column, 0).to_numpy().astype(np.int64), good


def _columns(streams: Streams, numbers: Ints) -> dict[str, Any]:
    """The columns ``ADDED`` of rows."""
    none = numbers == 0
    return {
        "streamId": pa.array(streams, mask=none).cast(pa.string()),
        "seqNumber": pa.array(numbers, mask=none),
        "prevNumber": pa.array(numbers - 1, mask=none),
    }
