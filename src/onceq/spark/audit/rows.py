"""Events as rows of numbers, on their way through Spark.

Files are read by ``onceq.audit.events``, whose checks they pass here, too. Texts become numbers at
once: a row of numbers takes half of the room, in Spark's files as well as in the memory of a task.
Spark brings rows together in any order, so each has the number that it has among all rows, by which
a part is put into the order that the rules need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onceq.audit import story, tables
from onceq.audit.events import KINDS, READ, read_file
from onceq.audit.files import Coverage
from onceq.errors import OnceqError
from onceq.history.columns import COLUMNS, EVENTS

ROW: Final = "row"
"""Column: how many rows come before it, over all files in their order."""
EVENT: Final = {name: code for code, name in enumerate(EVENTS)}
"""The number of each event."""
ROWS: Final = {
    name: {"string": "int", "timestamp": "bigint"}.get(COLUMNS[name][0], COLUMNS[name][0])
    for name in READ
} | {ROW: "bigint"}
"""Columns, and their SQL types."""
_TEXTS: Final = tuple(name for name in READ if COLUMNS[name][0] == "string")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a history.

    Attributes:
        rows: How many it has.
        before: How many rows come before it, in the files that are read before.
    """

    path: str
    rows: int
    before: int


def files_of(histories: Sequence[Coverage]) -> list[File]:
    """The files of histories, in order."""
    found, before = list[File](), 0
    for path in (path for one in histories for path in one.files):
        rows = pq.read_metadata(path).num_rows
        found.append(File(path, rows, before))
        before += rows
    return found


def _texts(parties: Sequence[str], queues: Sequence[str]) -> dict[str, pa.Array]:
    """What the numbers of each column of texts point to."""
    lists = {
        "managerId": parties, "source": parties, "queue": queues, "event": list(EVENTS),
        "kind": KINDS,
    }  # fmt: skip
    return {name: pa.array(list(lists[name]), pa.string()) for name in _TEXTS}


def coded(table: pa.Table, parties: Sequence[str], queues: Sequence[str], before: int) -> pa.Table:
    """Rows of a file as numbers.

    Args:
        before: Number of the first row.
    """
    texts, kinds, columns = _texts(parties, queues), tables.schema(ROWS), {}
    for name in READ:
        column = table[name]
        if name in texts:
            column = pc.index_in(column.cast(pa.string()), texts[name])
        columns[name] = column.cast(kinds.field(name).type)
    return pa.table(columns | {ROW: np.arange(before, before + len(table))})


def decoded(table: pa.Table, parties: Sequence[str], queues: Sequence[str]) -> pa.Table:
    """The rows of a part in their order, with texts again, each of which is there once."""
    row = table[ROW].to_numpy()
    if not (row[1:] > row[:-1]).all():
        table = table.take(pa.array(np.argsort(row)))
    texts = _texts(parties, queues)
    return pa.table({
        name: _named(table[name], texts[name]) if name in texts else table[name] for name in READ
    })  # fmt: skip


def _named(numbers: pa.ChunkedArray, texts: pa.Array) -> pa.ChunkedArray:
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk, texts) for chunk in numbers.chunks], kind
    )


def read(some: Iterable[File], parties: Sequence[str], queues: Sequence[str]) -> Iterator[pa.Table]:
    """The events of some files, as rows of numbers.

    Raises:
        ConfigurationError: One is damaged inside; with its code in its text, for Spark.
    """
    for file in some:
        yield coded(checked(file), parties, queues, file.before)


def shown(some: Iterable[File]) -> Iterator[pa.Table]:
    """What stories show of the events of some files."""
    kinds = tables.schema({name: COLUMNS[name][0] for name in story.SHOWN})
    for file in some:
        yield pq.read_table(file.path, columns=story.SHOWN).select(story.SHOWN).cast(kinds)


def checked(file: File) -> pa.Table:
    """The rows of a file; raises ConfigurationError with its code in its text, for Spark."""
    try:
        return read_file(file.path)
    except OnceqError as error:
        raise type(error)(f"[{error.code}] {error.text}") from None
