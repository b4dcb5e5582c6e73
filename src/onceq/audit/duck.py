"""DuckDB as the engine of an audit: on one machine, and what does not fit into memory goes to
temporary files.

Managers and queues stand in the tables as small numbers.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.files import KINDS, HistoryFile, read
from onceq.errors import ConfigurationError
from onceq.history.columns import EVENTS

PART_ROWS: Final = 1 << 17
"""Rows of files that are taken in at once."""
_PLACES: Final = ("queue", "outgoing", "dead-letter", "journal")
_CODED: Final = {"manager": "party", "source": "party", "queue": "queue"}
"""Columns of texts that stand as numbers, and whose names those are."""
_TYPES: Final = {"event": "event_name", "kind": "place_kind"} | dict.fromkeys(_CODED, "integer")
ARROW: Final = {
    "string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip


class DuckEngine:
    """Runs the SQL of an audit in this process; see ``Engine``.

    Args:
        connection: To a database in memory, or to a file that keeps the events.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._duck = connection
        run = connection.execute
        for name, words in (("event_name", EVENTS), ("place_kind", _PLACES)):
            if not run(f"SELECT 1 FROM duckdb_types() WHERE type_name = '{name}'").fetchone():
                run(f"CREATE TYPE {name} AS ENUM ({', '.join(repr(word) for word in words)})")
        columns = ", ".join(f"{name} {_TYPES.get(name, kind)}" for name, kind in KINDS.items())
        run(f"CREATE TABLE IF NOT EXISTS event ({columns})")
        run("CREATE TABLE IF NOT EXISTS known_name (what VARCHAR, number INTEGER, name VARCHAR)")
        self._known: dict[str, dict[str, int]] = {"party": {}, "queue": {}}
        for what, number, name in run("SELECT * FROM known_name ORDER BY number").fetchall():
            self._known[what][name] = number

    def load(self, files: Sequence[HistoryFile], managers: Sequence[str]) -> None:
        """Take in the events of files, which are those of managers, given by their GUIDs.

        Raises:
            ConfigurationError: A file is damaged inside.
        """
        before = {what: len(names) for what, names in self._known.items()}
        for manager in sorted(managers):
            self._number("party", manager)
        parts, rows = list[pa.Table](), 0
        for table in read(files):
            parts.append(self._coded(table))
            rows += len(table)
            if rows >= PART_ROWS:  # small files are many, and each part costs some time
                self._insert(parts)
                parts, rows = [], 0
        self._insert(parts)
        fresh = [
            (what, number, name)
            for what, names in self._known.items() for name, number in names.items()
            if number >= before[what]
        ]  # fmt: skip
        if fresh:
            self._duck.executemany("INSERT INTO known_name VALUES (?, ?, ?)", fresh)

    def _number(self, what: str, text: str) -> int:
        known = self._known[what]
        return known.setdefault(text, len(known))

    def _coded(self, table: pa.Table) -> pa.Table:
        for name, what in _CODED.items():
            chunks = []
            for chunk in table[name].chunks:
                words = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
                numbers = [self._number(what, text) for text in words.dictionary.to_pylist()]
                chunks.append(pa.array(numbers, pa.int32()).take(words.indices))
            column = pa.chunked_array(chunks, pa.int32())
            table = table.set_column(table.column_names.index(name), name, column)
        return table

    def _insert(self, parts: Sequence[pa.Table]) -> None:
        if parts:
            texts = [part.unify_dictionaries() for part in parts]
            self._duck.register("part", pa.concat_tables(texts, promote_options="permissive"))
            self._duck.execute("INSERT INTO event BY NAME SELECT * FROM part")
            self._duck.unregister("part")

    def names(self, column: str) -> dict[Any, str]:
        """The texts of a column by their numbers."""
        return {number: text for text, number in self._known[column].items()}

    def party_of(self, id: str) -> Any:
        """The number of a manager, given by its GUID, also of one of which no event tells."""
        return self._number("party", id)

    def give(self, name: str, table: pa.Table) -> None:
        """Make a table of rows that Python has."""
        self._duck.register("given", table)
        self._duck.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM given")
        self._duck.unregister("given")

    def make(self, name: str, query: str) -> None:
        """Make a table of the rows of a query."""
        self._duck.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def drop(self, name: str) -> None:
        """Let go of a table."""
        self._duck.execute(f"DROP TABLE {name}")

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, of which there are few."""
        found = self._duck.execute(query)
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def write(self, query: str, folder: str, columns: Mapping[str, str]) -> None:
        """Write the rows of a query as a Parquet file into a new folder."""
        schema = pa.schema([(name, ARROW[kind]) for name, kind in columns.items()])
        os.makedirs(folder)
        batches = self._duck.sql(query).to_arrow_reader(PART_ROWS)
        path = os.path.join(folder, "part-0.parquet")
        with pq.ParquetWriter(path, schema, compression="zstd") as file:
            for batch in batches:
                file.write_table(pa.Table.from_batches([batch]).cast(schema))


@contextlib.contextmanager
def in_memory() -> Iterator[DuckEngine]:
    """An engine without events, whose memory is let go at the end of the block."""
    with opened(":memory:") as connection:
        yield DuckEngine(connection)


@contextlib.contextmanager
def opened(place: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database, with a folder of its own for what memory has no room for."""
    with tempfile.TemporaryDirectory(prefix="onceq-audit-") as spilled:
        config: dict[str, Any] = {"temp_directory": spilled, "preserve_insertion_order": "false"}
        with duckdb.connect(place, config=config) as connection:
            try:
                yield connection
            except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
                said = " ".join(str(error).split())
                raise ConfigurationError(
                    f"the audit has no room ({said}): take a folder for temporary files with more "
                    "(TMPDIR), fewer managers at a time, or onceq spark audit"
                ) from None
