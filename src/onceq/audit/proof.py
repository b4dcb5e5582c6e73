"""A proof in a folder: every event that audits have read, so that the next one reads what is new.

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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from onceq.audit.duck import DuckEngine, opened
from onceq.audit.files import Coverage, HistoryFile, Started, numbered
from onceq.audit.numbering import Numbering, Told
from onceq.errors import ConfigurationError, StorageFailure
from onceq.history.columns import span_of
from onceq.store.files import RealFiles, hold
from onceq.store.framing import crc32

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
class Judged:
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
class Proof:
    """See the module.

    Attributes:
        engine: Over the events that are kept.
        rows: By manager, how many events are kept when this audit is.
    """

    folder: Path
    connection: duckdb.DuckDBPyConnection
    engine: DuckEngine
    managers: dict[str, Judged]
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

    def _judged(self, one: Coverage) -> Judged:
        before = self.managers.get(one.id)
        life = span_of(os.path.basename(one.files[-1])) if one.files else None
        lives = [life.life] if life else []
        lives += [before.life] if before else []
        return Judged(
            one.manager, one.id, one.start, one.end, one.up_to_us, max(lives), one.lives,
            one.gaps, rows=self.rows[one.id],
            files={os.path.basename(path): ends_of(path) for path in one.files},
            starts=[astuple(start) for start in one.starts], silent=one.silent,
            numbering=asdict(one.numbering), acts=[asdict(act) for act in one.acts],
        )  # fmt: skip


@contextlib.contextmanager
def held(folder: str) -> Iterator[Proof]:
    """The proof in a folder, from which nobody else goes on before the end of the block.

    Raises:
        StoreLocked: Somebody does.
        ConfigurationError: There is something else in the folder, the proof is damaged or of
            another version, or the folder cannot be written to.
    """
    with told_if_not_kept(folder):
        _check_folder(folder)  # nothing is put into a folder of something else
        os.makedirs(folder, exist_ok=True)
        lock = hold(
            os.path.join(folder, LOCK),
            f"goes on from the proof in {folder}; wait for its end, or name another folder",
        )
    try:
        with _opened(Path(folder)) as proof:
            yield proof
    finally:
        _FILES.close(lock)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Proof]:
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
            managers = [Judged(**json.loads(plain)) for (plain,) in rows]
        except (duckdb.Error, ValueError, TypeError) as error:
            said = " ".join(str(error).split())
            raise ConfigurationError(
                f"{path} is damaged, or no proof ({said}): begin another proof"
            ) from None
        yield Proof(folder, connection, engine, {one.id: one for one in managers})


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """What was not kept is forgotten."""
    with contextlib.suppress(duckdb.Error):  # there is nothing any more
        connection.rollback()


def _check_folder(folder: str) -> None:
    """Raise ConfigurationError for a folder that has something else than a proof."""
    place = Path(folder)
    if (place / FORMER).exists():
        raise ConfigurationError(
            f"--proof {folder} was kept by onceq 0.3.0.dev or earlier, in a form that is no more: "
            "begin another proof, in a new folder"
        )
    mine = {LOCK, NAME, _WAL}
    if place.exists() and (not place.is_dir() or {path.name for path in place.iterdir()} - mine):
        raise ConfigurationError(f"--proof {folder} is no proof, and not empty: name another")


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


def join(histories: Sequence[Coverage], proof: Proof) -> dict[str, list[str]]:
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


def _new(one: Coverage, judged: Judged) -> list[str]:
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
    one.numbering = Numbering(**judged.numbering)
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
