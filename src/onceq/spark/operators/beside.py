"""Rows that stay in Spark while Python decides about them, column beside column.

Bodies and labels have no say in what an operator decides. So of a frame that is no stream Spark
brings the rows of a key into one task and puts them in order; Python gets the columns that decide,
page by page, and gives back an answer for each row, in the same order. What it remembers from page
to page is what an operator remembers of a key in a stream from micro-batch to micro-batch. Rows
and answers are put together by Spark as they stand, never joined: a frame that gives other rows
when it is read again cannot mix them up.

Nobody may leave out, repeat or reorder rows on their way to such a function. Therefore Spark is
told that it is not deterministic, and leaves the filters and orders of later steps behind it.

Upholds: I24 (a task holds one page and what is remembered, however many rows a key has).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from onceq.spark.operators.case_folding import alike_column
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import CLOCK

PAGE_ROWS: Final = 65_536
"""Rows that are decided at one time: finding the keys of a few costs as much."""
RECORDS: Final = 4
"""Records for each row of a page, if there are many: with more a row costs more, with fewer the
page takes more memory than the records."""
FOUND: Final = "__onceq_found"

Answers = Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]
"""From the columns of rows to an answer for each."""


class Decision(Protocol):
    """What an operator decides about rows in order."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is remembered of a key, and its types."""

    def beside(self, page: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
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


def deciding(work: Decision, names: Sequence[str]) -> Answers:
    """An operator's answers about columns of these names, the last of which is the clock."""

    def answers(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        memory = Memory.empty(work.fields)
        pages = Pages(batches, names)
        for page in pages:
            now_s = page[CLOCK][0].as_py()
            found, memory = work.beside(page.drop_columns([CLOCK]), memory, now_s)
            pages.remembered = len(memory.keys)
            yield found

    return answers


@dataclass(slots=True)
class Pages:
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
