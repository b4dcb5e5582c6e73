"""The events of histories as Arrow tables with the columns that the rules ask for.

Files are read by pyarrow, whose checksums notice a damaged page, and not by the engine that judges
them. Each row has a number: rows of one manager are in the order of its log, and those of different
managers apart, whenever their files were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.files import Coverage, told_if_damaged
from onceq.history.columns import ADDED, COLUMNS
from onceq.model.identity import NO_GUID, guid_text

NOBODY: Final = guid_text(NO_GUID)
"""The source of a message whose packet could not be read."""
MANAGER_BITS: Final = 40
"""A row number has that of its manager above so many bits."""
ROW: Final = "event_row"
_NAMES: Final = {
    "manager": "managerId", "event": "event", "time": "eventTime", "exact": "exactTime",
    "observed": "observed", "position": "position", "ordinal": "ordinal", "source": "source",
    "message": "message", "kind": "kind", "queue": "queue", "place": "place",
    "lookup": "lookupId", "from_place": "fromPlace", "from_lookup": "fromLookupId",
    "stream": "stream", "number": "number", "transaction": "transaction",
    "transactional": "transactional", "message_class": "class", "class_name": "className",
    "dead_letter": "deadLetter", "journal": "journal", "size": "bytes", "crc": "bodyCrc",
    "reader": "reader",
}  # fmt: skip
"""What columns are called here, and in a history."""
TEXTS: Final = tuple(name for name, own in _NAMES.items() if COLUMNS[own][0] == "string")
KINDS: Final = {
    name: {"timestamp": "bigint"}.get(COLUMNS[own][0], COLUMNS[own][0])
    for name, own in _NAMES.items()
} | {"reader_told": "boolean", ROW: "bigint"}  # fmt: skip
"""Columns of an event, with their SQL types.

``time`` is microseconds since 1970; ``reader_told`` says whether the file tells who has read."""
_ARROW: Final = {
    "string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(),
}  # fmt: skip
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in KINDS.items()])


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file of a history that is to be read.

    Attributes:
        first: Number of its first row.
        rows: How many it has.
    """

    path: str
    first: int
    rows: int


def files_of(histories: Sequence[Coverage]) -> list[HistoryFile]:
    """All files of histories."""
    known = {one.id: 0 for one in histories}
    return numbered(((one.id, path) for one in histories for path in one.files), known)


def numbered(files: Iterable[tuple[str, str]], known: dict[str, int]) -> list[HistoryFile]:
    """Files with the numbers of their rows.

    Args:
        files: Manager and path, those of a manager in the order of its log.
        known: Rows of all managers that were read before; those of the files are added.
    """
    at = {manager: index << MANAGER_BITS for index, manager in enumerate(sorted(known))}
    found = []
    for manager, path in files:
        with told_if_damaged(path):
            rows = pq.read_metadata(path).num_rows
        found.append(HistoryFile(path, at[manager] + known[manager], rows))
        known[manager] += rows
    return found


def read(files: Iterable[HistoryFile]) -> Iterator[pa.Table]:
    """The events of files, those of a file at a time; texts are dictionaries.

    Raises:
        ConfigurationError: One is damaged inside.
    """
    dictionaries = [_NAMES[name] for name in TEXTS if _NAMES[name] not in ADDED]
    for one in files:
        with told_if_damaged(one.path):
            # Checksums of pages: of histories written before they had some, only what cannot be
            # decompressed or decoded is noticed. A ``ParquetFile`` takes a third of the time that
            # ``read_table`` takes, which counts where a history has hundreds of files.
            file = pq.ParquetFile(
                one.path, read_dictionary=dictionaries, page_checksum_verification=True
            )
            there = set(file.schema_arrow.names)
            table = file.read([own for own in _NAMES.values() if own in there])
        columns = {
            name: table[own] if own in there else nothing(len(table), _ARROW[KINDS[name]])
            for name, own in _NAMES.items()
        }  # what is not there was written before there was such a column
        for name, kind in KINDS.items():
            if kind == "boolean" and name in columns:
                columns[name] = columns[name].fill_null(False)
        columns["time"] = columns["time"].cast(pa.int64())
        columns["reader_told"] = pa.repeat("reader" in there, len(table))
        columns[ROW] = pa.array(np.arange(one.first, one.first + len(table), dtype=np.int64))
        yield pa.table(columns)


def nothing(rows: int, kind: pa.DataType) -> pa.ChunkedArray:
    """A column without values."""
    return pa.chunked_array([pa.nulls(rows, kind)])
