"""How an operator reaches its rows, and what it remembers of each key.

It also packs rows into Arrow parcels, one for each bucket of keys.

``BucketRecords`` has one record for each key of a bucket, read and written as one table with the
rows of a micro-batch, so that the state store sees one value for thousands of keys. It holds the
number of buckets: with another number the keys would lie elsewhere, and the operator would decide
again what it has decided.

On a stream Spark keeps the memory of each bucket with the checkpoint, and the rows of a micro-batch
travel to it in parcels (``row_packing``).

Rows of a frame that is no stream stay in Spark, because bodies and labels have no say in what an
operator decides. Spark brings the rows of a key into one task and sorts them; Python gets the
columns that decide, page by page, and gives back an answer for each row, in the same order. What it
remembers from page to page is what an operator remembers of a stream from micro-batch to
micro-batch. Spark puts rows and answers together by position, never by a join: a frame that gives
other rows when it is read again cannot mix them up. No step may leave out, repeat or reorder rows
on their way to such a function. Therefore Spark is told that it is not deterministic, and leaves
the filters and orders of later steps behind it.

Upholds: I24 (a memory is bounded by its keys; a task holds the rows that one micro-batch has of one
bucket, or one page).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming import StatefulProcessor

from onceq.spark.argument_checks import wrong
from onceq.spark.operators.columns import alike_column, bucket_of, keyed, stateful
from onceq.spark.operators.rules import Flags, Ints

# ---- row packing ---------------------------------------------------------------------------------
#
# Rows packed into parcels: one row of Spark's for many of the user's.


PARCEL_ROWS: Final = 65_536
PARCEL_BYTES: Final = 16 << 20
"""What a task gathers before it makes parcels for all buckets: whichever comes first."""
BATCH_ROWS: Final = 10_000
"""Rows of one batch that goes back to Spark."""
OUT_ROWS: Final = 32_768
"""Rows of one parcel that an operator makes."""

RUN_ROWS: Final = 1_024
"""The average length of ordered runs from which on rows are left where they are."""
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
        held: list[Any] = []
        rows = size = 0
        for batch in batches:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= PARCEL_ROWS or size >= PARCEL_BYTES:
                yield _sorted_out(together(held), key, buckets)
                held, rows, size = [], 0, 0
        if rows:
            yield _sorted_out(together(held), key, buckets)

    return timed.mapInArrow(parcels, PARCELS)


def unpacked(frame: Any, schema: Any) -> Any:
    """The rows of a frame of parcels."""
    return frame.mapInArrow(_rows, schema)


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


# ---- key buckets ---------------------------------------------------------------------------------


VERSION: Final = b"1"
KEY: Final = "key"


def _read_layout(table: Any) -> tuple[str, str]:
    """Return the number of buckets that a table was written for, and its format."""
    found = table.schema.metadata or {}
    return found.get(b"buckets", b"?").decode(), found.get(b"version", b"?").decode()


@dataclass(frozen=True, slots=True)
class BucketRecords:
    """Records of a bucket: their keys, and each field as an array."""

    keys: Any
    fields: Mapping[str, Any]

    @classmethod
    def empty(cls, kinds: Mapping[str, Any]) -> BucketRecords:
        """Of a bucket that nothing was seen of; ``kinds``: type of each field."""
        return cls(pa.array([], pa.string()), {n: np.empty(0, kind) for n, kind in kinds.items()})

    @classmethod
    def read(cls, blob: bytes, buckets: int) -> BucketRecords:
        """What ``write`` wrote; raises ConfigurationError if it was for other buckets."""
        table = unpack(blob)
        was, version = _read_layout(table)
        if (was, version) != (str(buckets), VERSION.decode()):
            raise wrong(
                f"this checkpoint was made with buckets={was} and format {version} of the state; "
                f"the operator now has buckets={buckets} and format {VERSION.decode()}. Go back to "
                "these, or begin with a new checkpoint AND a new folder or table: with the old "
                "one a sink would take the first batches for those that it has written"
            )
        return cls._of(table)

    @classmethod
    def opened(cls, blob: Any, place: str) -> BucketRecords:
        """What ``write`` wrote, for however many buckets.

        Args:
            blob: As bytes or a buffer.
            place: Where it comes from, for an error.

        Raises:
            ConfigurationError: It is none, or has another format.
        """
        try:
            table = unpack(blob)
            _, version = _read_layout(table)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise wrong(f"{place} has a state that is none of an operator of onceq") from None
        if version != VERSION.decode():
            raise wrong(
                f"{place} has a state of format {version}, and this version of onceq reads format "
                f"{VERSION.decode()}; read it with the version that made it"
            )
        return cls._of(table)

    @classmethod
    def _of(cls, table: Any) -> BucketRecords:
        fields = {name: table[name].to_numpy() for name in table.column_names if name != KEY}
        return cls(table[KEY].combine_chunks(), fields)

    def write(self, buckets: int) -> bytes:
        """As bytes for the state store."""
        table = pa.table({KEY: self.keys, **self.fields})
        return pack(table.replace_schema_metadata({"version": VERSION, "buckets": str(buckets)}))

    def part(self, keep: Flags) -> BucketRecords:
        """Some of the records."""
        if keep.all():
            return self
        fields = {name: values[keep] for name, values in self.fields.items()}
        return BucketRecords(self.keys.filter(pa.array(keep)), fields)

    def of(self, keys: Any) -> tuple[dict[str, Any], Ints]:
        """The fields of keys, zeros where nothing is known; and their places here, -1 for none."""
        found = pc.index_in(keys, value_set=self.keys)
        at = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        here = at >= 0
        fields = {}
        for name, values in self.fields.items():
            fields[name] = np.zeros(len(keys), values.dtype)
            fields[name][here] = values[at[here]]
        return fields, at

    def after(self, keys: Any, at: Ints, fields: Mapping[str, Any], known: Flags) -> BucketRecords:
        """With those of these keys that are ``known`` as they are now; ``at`` is from ``of``."""
        keep = np.ones(len(self.keys), np.bool_)
        keep[at[at >= 0]] = False
        others = self.part(keep)
        new = keys.filter(pa.array(known))
        joined = {
            name: np.concatenate((values, fields[name][known]))
            for name, values in others.fields.items()
        }
        return BucketRecords(pa.concat_arrays([others.keys, new]), joined)


BUCKETS: Final = 32
"""Buckets of keys if nobody says more: as many tasks can work at one time. It never changes with a
checkpoint, so it does not depend on any setting of Spark's."""


class BucketOperator(Protocol):
    """What an operator does with the rows of a bucket."""

    buckets: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is remembered of a key, and its types."""

    def done(self, table: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """The rows that come of these, and what is remembered then."""


def bucketed(frame: Any, what: str, key: Sequence[str], work: BucketOperator, schema: Any) -> Any:
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

    def __init__(self, work: BucketOperator, *, straight: bool) -> None:
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
            BucketRecords.empty(work.fields)
            if held is None
            else BucketRecords.read(bytes(held[0]), work.buckets)
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


PAGE_ROWS: Final = 65_536
"""Rows that are decided at one time: finding the keys of a few costs as much."""
RECORDS: Final = 4
"""Records for each row of a page, if there are many: with more a row costs more, with fewer the
page takes more memory than the records."""
FOUND: Final = "__onceq_found"

Answers = Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]
"""From the columns of rows to an answer for each."""


class PageOperator(Protocol):
    """What an operator decides about rows in order."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is remembered of a key, and its types."""

    def beside(self, page: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """An answer for each row of a page, and what is remembered then."""


def unnamed(frame: Any) -> tuple[Any, Mapping[str, Any]]:
    """A frame under names of our own, and its columns by the names that they had: no two are called
    the same then, in any case, and none has dots."""
    from pyspark.sql import functions as sql

    names = frame.columns
    inner = frame.toDF(*(f"c{at}" for at in range(len(names))))
    return inner, {name: sql.col(f"c{at}") for at, name in enumerate(names)}


def in_one_task(frame: Any, key: Sequence[Any], order: Sequence[Any]) -> Any:
    """The rows of each key in one task, in order; ``key``: columns of text."""
    texts = [alike_column(column) for column in key]
    return frame.repartition(*texts).sortWithinPartitions(*order)


def answered(frame: Any, asked: Mapping[str, Any], answers: Answers, kind: Any) -> Any:
    """A frame with the column ``FOUND``; ``asked``: what ``answers`` gets of each row."""
    from pyspark.sql.functions import arrow_udf

    return frame.withColumn(FOUND, arrow_udf(answers, kind).asNondeterministic()(*asked.values()))


def clocked(asked: Mapping[str, Any]) -> dict[str, Any]:
    """With the time at which Spark began with the frame, or with the micro-batch (s)."""
    from pyspark.sql import functions as sql

    return {**asked, CLOCK: sql.unix_seconds(sql.current_timestamp())}


def deciding(work: PageOperator, names: Sequence[str]) -> Answers:
    """An operator's answers about columns of these names, the last of which is the clock."""

    def answers(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        memory = BucketRecords.empty(work.fields)
        pages = RowPages(batches, names)
        for page in pages:
            now_s = page[CLOCK][0].as_py()
            found, memory = work.beside(page.drop_columns([CLOCK]), memory, now_s)
            pages.remembered = len(memory.keys)
            yield found

    return answers


@dataclass(slots=True)
class RowPages:
    """Columns of rows as tables that are worth deciding about at one time.

    Each decision goes through all records that are remembered, so a page grows with these: the cost
    of a row has a bound.

    Attributes:
        batches, names: The columns as they come, and what they are called.
        remembered: How many records there are by now.
    """

    batches: Iterable[tuple[pa.Array, ...]]
    names: Sequence[str]
    remembered: int = 0

    def __iter__(self) -> Iterator[Any]:
        """Page by page; none is held here while the next one is gathered."""
        held: list[Any] = []
        rows = 0
        for batch in self.batches:
            held.append(pa.record_batch(list(batch), names=list(self.names)))
            rows += len(batch[0])
            if rows >= max(PAGE_ROWS, self.remembered // RECORDS):
                gathered, rows = held, 0
                held = []
                yield pa.Table.from_batches(gathered)
                del gathered
        if rows:
            yield pa.Table.from_batches(held)
