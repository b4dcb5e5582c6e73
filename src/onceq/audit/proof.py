"""A proof in a folder: what an audit has judged, so that the next one reads what is new alone.

``proof.json`` names the other files, each of which is written once, under a name of its own, and
synced; it is replaced when all of them are there. So a crash leaves the proof before or the one
after. Rows that go on, and those that were put aside, stand as histories have them, with the place
of each in the history of its manager (``ROW``). One audit at a time goes on from it (``held``).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit import acts
from onceq.audit.files import Coverage, Started
from onceq.audit.numbering import Numbering
from onceq.audit.past import Past, past_of
from onceq.errors import ConfigurationError, StorageFailure
from onceq.history.columns import COLUMNS, span_of
from onceq.store.checksum import crc32
from onceq.store.files import RealFiles, hold

FORMAT: Final = 3
NAME: Final = "proof.json"
LOCK: Final = "lock"
"""Is never removed: see ``hold``."""
ROW: Final = "row"
"""Column: how many rows of its history come before it."""
TEXTS: Final = [name for name, (kind, _) in COLUMNS.items() if kind == "string"]
"""Columns whose texts stand in memory once each; in the files they are texts."""
FILE_ROWS: Final = 1 << 18
"""Rows that are written at once."""
_FILES: Final = RealFiles()
TAIL_BYTES: Final = 1 << 16
"""The end of a Parquet file, which says where everything in it is: it is summed."""


@dataclass
class Judged:
    """What was judged of one manager.

    Attributes:
        rows: Of its history.
        from_s: Time of the first.
        life: Of the last file.
        files: Name to size and sum of its end, of the files that were still there.
        open: File of the rows that go on.
        closed: Files of those that were put aside.
        starts, silent: See ``Coverage``; a start as its fields.
        acts: File of its acts of administration; "" in proofs of before there were any.
        numbering: See ``Coverage``; nothing is known from such a proof.
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
    from_s: int = 0
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    open: str = ""
    closed: list[str] = field(default_factory=list)
    starts: list[tuple[int, int, int, bool | None]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    acts: str = ""
    numbering: dict[str, Any] = field(default_factory=lambda: {"to": -1})


@dataclass
class Proof:
    """See the module.

    Attributes:
        generation: Rises with each writing.
        base: What messages that were put aside add to the findings; see ``kept``.
    """

    folder: Path
    generation: int = 0
    managers: dict[str, Judged] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)
    past: Past = field(default_factory=Past)
    past_file: str = ""

    def rows(self, names: Sequence[str]) -> pa.Table | None:
        """Rows of some of its files; raises ConfigurationError if one is gone or damaged."""
        parts = [_read(self.folder / name) for name in names if name]
        return pa.concat_tables(parts) if parts else None

    def add(self, what: str, manager: str, table: pa.Table) -> str:
        """Write a file of the next generation, durably; returns its name."""
        name = f"g{self.generation + 1}-{what}{f'-{manager}' if manager else ''}.parquet"
        path = self.folder / name
        schema = pa.schema([
            one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one
            for one in table.schema
        ])  # fmt: skip
        with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
            for start in range(0, max(len(table), 1), FILE_ROWS):
                file.write_table(table.slice(start, FILE_ROWS).cast(schema))
        _sync(path)
        return name

    def save(self) -> None:
        """Put the new proof in place of the old one; its files are there."""
        self.generation += 1
        plain = {
            "format": FORMAT, "generation": self.generation, "past": self.past_file,
            "base": self.base, "managers": [asdict(one) for one in self.managers.values()],
        }  # fmt: skip
        new = self.folder / f"{NAME}.new"
        new.write_text(json.dumps(plain), encoding="utf-8")
        _sync(new)
        _FILES.rename(str(new), str(self.folder / NAME))
        _FILES.sync_directory(str(self.folder))
        used = {self.past_file, *(one.open for one in self.managers.values())}
        used |= {one.acts for one in self.managers.values()}
        used |= {name for one in self.managers.values() for name in one.closed}
        for path in self.folder.glob("g*.parquet"):
            if path.name not in used:
                path.unlink()


def _there(folder: str) -> bool:
    """Whether a folder has a proof; raises ConfigurationError if it has something else."""
    place = Path(folder)
    if (place / NAME).exists():
        return True
    if place.exists() and (not place.is_dir() or {path.name for path in place.iterdir()} - {LOCK}):
        raise ConfigurationError(f"--proof {folder} is no proof, and not empty: name another")
    return False


@contextlib.contextmanager
def held(folder: str) -> Iterator[Proof]:
    """The proof in a folder, from which nobody else goes on before the end of the block.

    Of two audits that have read the same one, the later would replace what the other has kept, and
    remove its files.

    Raises:
        StoreLocked: Somebody does.
        ConfigurationError: As ``read``; or the folder cannot be written to.
    """
    with told_if_not_kept(folder):
        _there(folder)  # nothing is put into a folder of something else
        os.makedirs(folder, exist_ok=True)
        lock = hold(
            os.path.join(folder, LOCK),
            f"goes on from the proof in {folder}; wait for its end, or name another folder",
        )
    try:
        yield read(folder)
    finally:
        _FILES.close(lock)


@contextlib.contextmanager
def told_if_not_kept(folder: str | Path) -> Iterator[None]:
    """Raises ConfigurationError for a folder that cannot be written to."""
    try:
        yield
    except (OSError, StorageFailure) as error:
        said = error.text if isinstance(error, StorageFailure) else error.strerror or str(error)
        raise ConfigurationError(f"the proof cannot be kept in {folder}: {said}") from None


def read(folder: str) -> Proof:
    """The proof in a folder; an empty one if there is none, or no folder.

    Raises:
        ConfigurationError: There is something else, it is damaged, or of a newer version.
    """
    place = Path(folder)
    if not _there(folder):
        return Proof(place)
    path = place / NAME
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        number = plain["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}): begin another proof") from None
    if number > FORMAT:
        raise ConfigurationError(f"{path} was written by a newer onceq (format {number})")
    managers = [Judged(**one) for one in plain["managers"]]
    past = past_of(_read(place / plain["past"])) if plain["past"] else Past()
    return Proof(
        place, plain["generation"], {one.id: one for one in managers}, plain["base"], past,
        plain["past"],
    )  # fmt: skip


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
        known = proof.rows([proof.managers[one.id].acts])
        one.acts = [] if known is None else acts.of_table(known)
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


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, page_checksum_verification=True, read_dictionary=TEXTS)
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path} of the proof is gone or damaged ({said}): begin another proof"
        ) from None


def _sync(path: Path) -> None:
    file = _FILES.open(str(path))
    try:
        _FILES.sync(file)
    finally:
        _FILES.close(file)
