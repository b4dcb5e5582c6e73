"""Finding histories, and what part of each manager's life they tell.

It numbers the acts of administration of each manager, and reads events as Arrow tables with the
columns that the rules ask for.

A history whose beginning is cut off, that has a gap, or that is missing altogether limits what can
be said; that is said, and no message is called lost because of it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from onceq.errors import ConfigurationError
from onceq.history.columns import (
    ACT_COLUMNS,
    ACTS,
    ADDED,
    COLUMNS,
    FOLDER,
    META,
    STARTS,
    VERSION,
    Span,
    Start,
    span_of,
)
from onceq.model.identity import NO_GUID, guid_text

# ---- numbering -----------------------------------------------------------------------------------
#
# Acts of administration, and whether those of a manager are all there: file after file, their
# numbers rise by one.


Ranges = list[list[int]]


@dataclass(slots=True)
class FileNumbering:
    """What is known of the numbers up to the end of a file; as JSON it goes into a proof.

    Attributes:
        life, end: Where that file ends.
        to: Number of the last act up to there; -1: nobody knows it.
        missing, added: First and last number of acts that are not told; and that are told although
            another one has come before.
    """

    life: int = 1
    end: int = 0
    to: int = 0
    missing: Ranges = field(default_factory=list)
    added: Ranges = field(default_factory=list)

    def take(self, span: Span, told_to: int, numbers: Sequence[int]) -> None:
        """The next file.

        Args:
            told_to: Number of the last act up to its end, as it says; -1: it does not.
            numbers: Of its acts, in the order of the log.
        """
        goes_on = (span.life, span.start) == (self.life, self.end) and self.to >= 0
        to = self.to if goes_on else None
        for number in numbers:
            if to is not None and number <= to:
                self.added.append([number, number])
                continue
            if to is not None and number > to + 1:
                self.missing.append([to + 1, number - 1])
            to = number
        if to is not None and told_to > to:
            self.missing.append([to + 1, told_to])
        if to is not None and 0 <= told_to < to:
            self.added.append([told_to + 1, to])
        self.life, self.end, self.to = span.life, span.end, told_to


@dataclass(frozen=True, slots=True)
class Told:
    """An act; names are those of a history.

    Attributes:
        at_us: When, in microseconds since 1970.
        life: Of the file that tells it.
    """

    act: int
    actor: str
    address: str
    action: str
    about: str
    result: str
    since: int
    at_us: int
    position: int
    life: int

    def plain(self, manager: str) -> dict[str, Any]:
        """For JSON."""
        return {"manager": manager} | {
            name: getattr(self, name) for name in (*ACT_COLUMNS[:-1], "at_us")
        }


# ---- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """A queue manager was started; see ``history.columns.Start``.

    Attributes:
        life: Of the file that tells it.
    """

    life: int
    position: int
    at_us: int
    orderly: bool | None

    @property
    def again(self) -> bool:
        """Whether the manager had been started before."""
        return self.position > 0


@dataclass
class Coverage:
    """What is known of one manager.

    Attributes:
        start, end: Log positions of what its files tell.
        gaps: (from, to) of the parts between that are missing.
        up_to_us: Nothing before that time is missing at the end, by its clock.
        lives: More than one: its log was behind its history once (a restored backup).
        unread: Rows that do not say which message they are about: its packet was damaged when the
            history read it.
        unread_to: Log position behind the last of them.
        starts: Of the manager, in order.
        silent: Files of earlier versions, which do not tell starts.
        acts_to: By file, the number of the last act up to its end; -1 where it does not say that.
        acts, numbering: Its acts of administration, once they were read (``acts``).
    """

    manager: str
    id: str
    folder: str
    start: int
    end: int
    up_to_us: int
    files: list[str] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    lives: int = 1
    unread: int = 0
    unread_to: int = -1
    starts: list[Started] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    acts_to: dict[str, int] = field(default_factory=dict)
    acts: list[Told] = field(default_factory=list)
    numbering: FileNumbering = field(default_factory=FileNumbering)

    @property
    def whole(self) -> bool:
        """Whether its life is told from the beginning without a gap."""
        return self.start == 0 and self.unbroken

    @property
    def unbroken(self) -> bool:
        """Whether nothing is missing inside."""
        return not self.gaps and self.lives == 1 and not self.unread

    def limits(self) -> list[str]:
        """What is missing, in words."""
        said = []
        if self.start:
            said.append(f"its beginning is cut off (up to log position {self.start:,})")
        if self.gaps:
            parts = ", ".join(f"{a:,} to {b:,}" for a, b in self.gaps[:5])
            said.append(f"{len(self.gaps)} part(s) of it are missing (log positions {parts})")
        if self.lives > 1:
            said.append(f"the store was restored {self.lives - 1} time(s)")
        if self.unread:
            said.append(
                f"{self.unread:,} row(s) do not say which message they are about: its packet was "
                "damaged when the history read it"
            )
        return said

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain |= {"files": len(self.files), "limits": self.limits()}
        plain["files_without_starts"] = len(self.silent)
        plain["starts"] = [{**asdict(one), "again": one.again} for one in self.starts]
        for name in ("unread_to", "silent", "acts_to", "acts", "numbering"):
            del plain[name]
        return plain

    def add_starts(self, starts: Iterable[Started], silent: Iterable[str]) -> None:
        """Some that are known from elsewhere, also such as are known here."""
        known = {(one.life, one.position): one for one in (*starts, *self.starts)}
        self.starts = [known[key] for key in sorted(known)]
        self.silent = sorted({*self.silent, *silent})


def find(folders: Sequence[str]) -> list[Coverage]:
    """The histories in folders: of a history, of a manager, or of several of either.

    Args:
        folders: Paths, also with ``*`` and ``**``.

    Raises:
        ConfigurationError: There is none in one of them, a file is none of ours or not whole, or
            one of both cannot be read.
    """
    found: dict[str, Path] = {}
    for given in folders:
        places = _places(given)
        try:
            here = [folder for place in places for folder in _folders(place)]
        except OSError as error:
            raise ConfigurationError(f"{error.filename} cannot be read: {error.strerror}") from None
        if not here:
            raise ConfigurationError(
                f"{_nothing(given, places)}: name the data directory of a queue manager that has "
                "the setting history = true, or a folder with several of them"
            )
        found.update({str(folder.resolve()): folder for folder in here})
    known: dict[str, Coverage] = {}
    for folder in found.values():
        one = _coverage(folder)
        other = known.setdefault(one.id, one)
        if other is not one:
            raise ConfigurationError(
                f"{one.folder} and {other.folder} are both histories of {one.manager}: name one"
            )
    return sorted(known.values(), key=lambda one: (one.manager, one.id))


def is_to_come(folders: Sequence[str]) -> bool:
    """Whether one of them is there, and has no history yet."""
    with contextlib.suppress(OSError):  # ``find`` says so
        for given in folders:
            there = [place for place in _places(given) if place.is_dir()]
            if there and not any(_folders(place) for place in there):
                return True
    return False


def _places(given: str) -> list[Path]:
    return [Path(p) for p in glob.glob(given, recursive=True)] or [Path(given)]


def _nothing(given: str, places: Sequence[Path]) -> str:
    """Why no history was found."""
    if any(place.is_dir() for place in places):
        return f"there is no history in {given}"
    if any(place.is_file() for place in places):
        return f"{given} is a file, and histories are folders"
    return f"there is no folder {given}"


def _folders(place: Path) -> list[Path]:
    """Folders with files of a history, at most two levels below."""
    levels = (place, place / FOLDER, *sorted(place.glob("*")), *sorted(place.glob(f"*/{FOLDER}")))
    return [level for level in levels if level.is_dir() and _spans(level)]


def _spans(folder: Path) -> list[Span]:
    return sorted(span for path in folder.iterdir() if (span := span_of(path.name)))


def _coverage(folder: Path) -> Coverage:
    spans = _spans(folder)
    # Each of them: what an empty or a wrong file does not tell would be called lost.
    metas = [_meta(folder / span.name) for span in spans]
    for span, meta in zip(spans, metas, strict=True):
        if (meta["life"], meta["from"], meta["to"]) != (span.life, span.start, span.end):
            raise ConfigurationError(
                f"{folder / span.name} was written as another part of the history (log positions "
                f"{meta['from']:,} to {meta['to']:,}): give it its name back, or copy it again"
            )
    if len({meta["managerId"] for meta in metas}) > 1:
        raise ConfigurationError(f"{folder} holds files of several managers; keep them apart")
    last = metas[-1]
    gaps = [
        (one.end, other.start)
        for one, other in pairwise(spans)
        if one.end != other.start and one.life == other.life
    ]
    found = Coverage(
        last["manager"], last["managerId"], str(folder), spans[0].start, spans[-1].end,
        last["upTo"], [str(folder / span.name) for span in spans], gaps,
        len({span.life for span in spans}),
    )  # fmt: skip
    found.acts_to = {
        path: meta.get(ACTS, -1) for path, meta in zip(found.files, metas, strict=True)
    }
    found.add_starts(
        (Started(meta["life"], **asdict(Start.of(one)))
         for meta in metas for one in meta.get(STARTS, ())),
        (span.name for span, meta in zip(spans, metas, strict=True) if STARTS not in meta),
    )  # fmt: skip
    return found


def _meta(path: Path) -> dict[str, Any]:
    try:
        schema = pq.read_schema(path)
    except (ArrowException, OSError) as error:
        raise ConfigurationError(
            f"{path} is no Parquet file that can be read, or only half of one ({error}); fetch it "
            "again, or take it away: then the audit knows that a part is missing"
        ) from None
    raw = (schema.metadata or {}).get(META)
    if raw is None or not set(COLUMNS) - ADDED <= set(schema.names):
        raise ConfigurationError(f"{path} is no file of a history of onceq")
    meta: dict[str, Any] = json.loads(raw)
    if meta["version"] > VERSION:
        raise ConfigurationError(f"{path} was written by a newer onceq (version {meta['version']})")
    return meta


@contextlib.contextmanager
def told_if_damaged(path: str) -> Iterator[None]:
    """Raises ConfigurationError for a file of a history that cannot be read."""
    try:
        yield
    except (ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path} is damaged inside ({said}), or was removed meanwhile (history_bytes_max): "
            "copy it again, or take it away: then the audit knows that a part is missing"
        ) from None


def size(histories: Sequence[Coverage]) -> int:
    """Bytes of all files."""
    return sum(os.path.getsize(path) for one in histories for path in one.files)


# ---- events --------------------------------------------------------------------------------------
#
# The events of histories as Arrow tables with the columns that the rules ask for.


NOBODY: Final = guid_text(NO_GUID)
"""The source of a message whose packet could not be read."""
MANAGER_BITS: Final = 40
"""A row number has the number of its manager above this number of bits."""
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
