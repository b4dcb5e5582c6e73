"""A proof in a folder: every event that audits have read, so that the next one reads what is new.

DuckDB is the engine, on one machine; what does not fit into memory goes to temporary files.

``proof.duckdb`` keeps the events of all histories, also of files that are gone since, and what is
known of each manager. An audit adds what is new and judges everything again, in one transaction
that is committed when its findings are written: a crash leaves the proof before or the one after.
One audit at a time goes on from it (``held``).

Upholds: findings are those of an audit of all files that were ever there.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.files import (
    KINDS,
    Coverage,
    FileNumbering,
    HistoryFile,
    Started,
    Told,
    numbered,
    read,
)
from onceq.errors import ConfigurationError, StorageFailure
from onceq.history.columns import EVENTS, span_of
from onceq.store.files import RealFiles, hold
from onceq.store.framing import crc32

# ---- duck ----------------------------------------------------------------------------------------
#
# DuckDB as the engine of an audit: on one machine, and what does not fit into memory goes to
# temporary files.


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


# ---- proof ---------------------------------------------------------------------------------------


FORMAT: Final = 4
"""Formats 1 to 3 were other files: ``FORMER``."""
NAME: Final = "proof.duckdb"
FORMER: Final = "proof.json"
LOCK: Final = "lock"
"""Is never removed: see ``hold``."""
_WAL: Final = f"{NAME}.wal"
_FILES: Final = RealFiles()
TAIL_BYTES: Final = 1 << 16
"""The end of a Parquet file, which says where everything in it is: it is summed."""


@dataclass
class JudgedManager:
    """What was judged of one manager.

    Attributes:
        rows: Of its history.
        life: Of the last file.
        files: Name to size and sum of its end, of the files that were still there.
        starts, silent, numbering: See ``Coverage``; a start as its fields.
        acts: Its acts of administration, as their fields.
    """

    manager: str
    id: str
    start: int
    end: int
    up_to_us: int
    life: int
    lives: int
    gaps: list[tuple[int, int]]
    rows: int = 0
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    starts: list[tuple[int, int, int, bool | None]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    numbering: dict[str, Any] = field(default_factory=dict)
    acts: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class AuditProof:
    """The events that audits have read, kept in a folder, and one audit over them.

    Attributes:
        engine: Over the events that are kept.
        rows: By manager, how many events are kept when this audit is.
    """

    folder: Path
    connection: duckdb.DuckDBPyConnection
    engine: DuckEngine
    managers: dict[str, JudgedManager]
    rows: dict[str, int] = field(default_factory=dict)

    def files(self, fresh: dict[str, list[str]]) -> list[HistoryFile]:
        """Files that were not judged yet, with the numbers of their rows."""
        self.rows = {
            id: self.managers[id].rows if id in self.managers else 0 for id in fresh
        }  # fmt: skip
        return numbered(((id, path) for id, paths in fresh.items() for path in paths), self.rows)

    def keep(self, histories: Sequence[Coverage]) -> None:
        """Make this audit the one from which the next goes on; raises ConfigurationError."""
        with told_if_not_kept(self.folder):
            self.connection.execute("DELETE FROM judged")
            for one in histories:
                plain = json.dumps(asdict(self._judged(one)))
                self.connection.execute("INSERT INTO judged VALUES (?)", [plain])
            self.connection.commit()

    def _judged(self, one: Coverage) -> JudgedManager:
        before = self.managers.get(one.id)
        life = span_of(os.path.basename(one.files[-1])) if one.files else None
        lives = [life.life] if life else []
        lives += [before.life] if before else []
        return JudgedManager(
            one.manager, one.id, one.start, one.end, one.up_to_us, max(lives), one.lives,
            one.gaps, rows=self.rows[one.id],
            files={os.path.basename(path): ends_of(path) for path in one.files},
            starts=[astuple(start) for start in one.starts], silent=one.silent,
            numbering=asdict(one.numbering), acts=[asdict(act) for act in one.acts],
        )  # fmt: skip


@contextlib.contextmanager
def held(folder: str) -> Iterator[AuditProof]:
    """The proof in a folder, from which nobody else goes on before the end of the block.

    Raises:
        StoreLocked: Somebody does.
        ConfigurationError: There is something else in the folder, the proof is damaged or of
            another version, or the folder cannot be written to.
    """
    with told_if_not_kept(folder):
        # Nothing is put into a folder of something else.
        place = Path(folder)
        if (place / FORMER).exists():
            raise ConfigurationError(
                f"--proof {folder} was kept by onceq 0.3.0.dev or earlier, in a form that is no "
                "more: begin another proof, in a new folder"
            )
        mine = {LOCK, NAME, _WAL}
        if place.exists() and not (
            place.is_dir() and {path.name for path in place.iterdir()} <= mine
        ):
            raise ConfigurationError(f"--proof {folder} is no proof, and not empty: name another")
        os.makedirs(folder, exist_ok=True)
        lock = hold(
            os.path.join(folder, LOCK),
            f"goes on from the proof in {folder}; wait for its end, or name another folder",
        )
    try:
        with _opened(place) as proof:
            yield proof
    finally:
        _FILES.close(lock)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[AuditProof]:
    path = folder / NAME
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(opened(str(path)))
            connection.begin()
            stack.callback(_roll_back, connection)
            connection.execute("CREATE TABLE IF NOT EXISTS proof (format INTEGER)")
            connection.execute("CREATE TABLE IF NOT EXISTS judged (plain VARCHAR)")
            known = connection.execute("SELECT format FROM proof").fetchone()
            if known is None:
                connection.execute("INSERT INTO proof VALUES (?)", [FORMAT])
            elif known[0] > FORMAT:
                raise ConfigurationError(f"{path} was written by a newer onceq (format {known[0]})")
            engine = DuckEngine(connection)
            rows = connection.execute("SELECT plain FROM judged").fetchall()
            managers = [JudgedManager(**json.loads(plain)) for (plain,) in rows]
        except (duckdb.Error, ValueError, TypeError) as error:
            said = " ".join(str(error).split())
            raise ConfigurationError(
                f"{path} is damaged, or no proof ({said}): begin another proof"
            ) from None
        yield AuditProof(folder, connection, engine, {one.id: one for one in managers})


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """What was not kept is forgotten."""
    with contextlib.suppress(duckdb.Error):  # there is nothing any more
        connection.rollback()


@contextlib.contextmanager
def told_if_not_kept(folder: str | Path) -> Iterator[None]:
    """Raises ConfigurationError for a folder that cannot be written to."""
    try:
        yield
    except (OSError, StorageFailure, duckdb.Error) as error:
        said = error.text if isinstance(error, StorageFailure) else str(error)
        if isinstance(error, OSError):
            said = error.strerror or said
        raise ConfigurationError(f"the proof cannot be kept in {folder}: {said}") from None


def join(histories: Sequence[Coverage], proof: AuditProof) -> dict[str, list[str]]:
    """Make histories tell also what was judged of them, and is gone since.

    Returns:
        The files of each manager that were not judged yet.

    Raises:
        ConfigurationError: The proof is one of other managers, or not of these files.
    """
    if not proof.managers:
        return {one.id: list(one.files) for one in histories}
    if set(proof.managers) != {one.id for one in histories}:
        raise ConfigurationError(
            f"the proof {proof.folder} is one of {_names(proof.managers.values())}, and these are "
            f"histories of {_names(histories)}: name the same managers, or begin another proof"
        )
    for one in histories:
        one.acts = [Told(**plain) for plain in proof.managers[one.id].acts]
    return {one.id: _new(one, proof.managers[one.id]) for one in histories}


def _new(one: Coverage, judged: JudgedManager) -> list[str]:
    new, end, life, gaps = [], judged.end, judged.life, [(a, b) for a, b in judged.gaps]
    lives = judged.lives
    for path in one.files:
        name = os.path.basename(path)
        if name in judged.files:
            if ends_of(path) != tuple(judged.files[name]):
                raise ConfigurationError(
                    f"{path} has changed since it was judged: put it back, or begin another proof"
                )
            continue
        span = span_of(name)
        assert span is not None
        if span.life < life or (span.life == life and span.start < end):
            inside = judged.start <= span.start and not any(a < span.end <= b for a, b in gaps)
            if span.life == judged.life and not inside:
                raise ConfigurationError(
                    f"{path} is of a part that was missing when the rest was judged: begin another "
                    "proof"
                )
            continue  # it was judged, was gone, and is back
        if span.life != life:
            lives += 1
        elif span.start != end:
            gaps.append((end, span.start))
        end, life = span.end, span.life
        new.append(path)
    one.start, one.end, one.gaps, one.lives = judged.start, end, gaps, lives
    one.add_starts((Started(*values) for values in judged.starts), judged.silent)
    one.numbering = FileNumbering(**judged.numbering)
    if not new:
        one.up_to_us = judged.up_to_us
    return new


def ends_of(path: str) -> tuple[int, int]:
    """Size of a file, and the sum of its end."""
    file = _FILES.open(path, reading=True)
    try:
        size = _FILES.size(file)
        start = max(size - TAIL_BYTES, 0)
        return size, crc32(_FILES.read(file, start, size - start))
    finally:
        _FILES.close(file)


def _names(managers: Any) -> str:
    return ", ".join(sorted(one.manager for one in managers)) or "nobody"
