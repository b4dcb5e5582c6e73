"""The events of histories as arrays: one row an event, texts as numbers of a list.

Rows stand as their files tell them: manager after manager, and within each in the order of its log.
So the first row of a group, of those that one manager tells, is the one that happened first there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.arrays import NONE, Column, Ints, Mask, blocks
from onceq.audit.files import Coverage, told_if_damaged
from onceq.audit.narrow import Growing, Narrow, Narrowing
from onceq.history.columns import EVENTS
from onceq.model.identity import NO_GUID, guid_text

CODES: Final = {name: code for code, name in enumerate(EVENTS)}
"""The number of each event in ``Events.event``."""
KINDS: Final = ("queue", "outgoing", "dead-letter", "journal")
"""What ``Events.kind`` counts."""
ABSENT: Final = -1
"""A text that is not there, in an array of numbers of texts."""
PART_ROWS: Final = 1 << 17
"""Rows of files that are taken in at once."""
NOBODY: Final = guid_text(NO_GUID)
"""The source of a message whose packet could not be read."""
_TEXTS: Final = ["managerId", "event", "source", "kind", "queue"]
_TRUTHS: Final = ("observed", "transactional", "dead_letter", "journal")
_WORDS: Final = {
    "manager": "managerId", "event": "event", "time": "eventTime", "observed": "observed",
    "position": "position", "ordinal": "ordinal", "source": "source", "message": "message",
    "kind": "kind", "queue": "queue", "place": "place", "lookup": "lookupId",
    "from_place": "fromPlace", "from_lookup": "fromLookupId", "stream": "stream",
    "number": "number", "transaction": "transaction", "transactional": "transactional",
    "klass": "class", "dead_letter": "deadLetter", "journal": "journal", "size": "bytes",
    "crc": "bodyCrc",
}  # fmt: skip
"""What columns of ``Events`` are called in a history."""
READ: Final = tuple(_WORDS.values())
"""What is read of one."""


class _Texts:
    """A column of numbers of texts, or of truths, as it is kept."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, events: Events, owner: type) -> Column:
        found = events.columns[self._name]
        assert isinstance(found, np.ndarray)
        return found


class _Numbers:
    """A column of numbers, each in 64 bits: made each time that it is asked for."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, events: Events, owner: type) -> Ints:
        found = events.columns[self._name]
        assert isinstance(found, Narrow)
        return found.wide()


@dataclass(frozen=True, slots=True)
class Events:
    """Events, shape (rows,) each; names are those of the columns of a history.

    Attributes:
        parties: GUIDs, to which ``manager`` and ``source`` point.
        queues: Names of queues, to which ``queue`` points.
        columns: What is kept, by the names below. Who needs some rows of a column of numbers only
            takes those.
        manager, source, queue, kind: Numbers of texts; ABSENT where there is none.
        event: Numbers of ``CODES``.
        time: Microseconds since 1970, UTC.
        klass: The message class.
        crc: CRC-32 of the body; NONE where the row does not have it.
    """

    parties: list[str]
    queues: list[str]
    columns: dict[str, Column | Narrow]

    manager = _Texts()
    event = _Texts()
    time = _Numbers()
    observed = _Texts()
    position = _Numbers()
    ordinal = _Numbers()
    source = _Texts()
    message = _Numbers()
    kind = _Texts()
    queue = _Texts()
    place = _Numbers()
    lookup = _Numbers()
    from_place = _Numbers()
    from_lookup = _Numbers()
    stream = _Numbers()
    number = _Numbers()
    transaction = _Numbers()
    transactional = _Texts()
    klass = _Numbers()
    dead_letter = _Texts()
    journal = _Texts()
    size = _Numbers()
    crc = _Numbers()

    def __len__(self) -> int:
        return len(self.columns["event"])

    def take(self, rows: Column | slice) -> Events:
        """These rows (numbers, a mask, or a range) in this order."""
        columns = {
            name: column.take(rows) if isinstance(column, Narrow) else column[rows]
            for name, column in self.columns.items()
        }
        return Events(self.parties, self.queues, columns)

    def numbers(self, name: str) -> Narrow:
        """A column of numbers as it is kept."""
        found = self.columns[name]
        assert isinstance(found, Narrow)
        return found

    def are(self, *names: str) -> Mask:
        """Which rows are one of these events."""
        found = np.zeros(len(self), np.bool_)
        for name in names:
            found |= self.event == CODES[name]
        return found

    def at(self, kind: str) -> Mask:
        """Which rows are about a queue of this kind."""
        return np.asarray(self.kind == KINDS.index(kind))


def unread(events: Events, histories: Sequence[Coverage]) -> None:
    """Tell histories of their rows that do not say which message they are about."""
    if NOBODY not in events.parties:
        return
    nobody = ~events.observed & (events.source == events.parties.index(NOBODY))
    for one in histories:
        if one.id in events.parties:
            rows = np.flatnonzero(nobody & (events.manager == events.parties.index(one.id)))
            one.unread = len(rows)
            one.unread_to = int(events.numbers("position")[rows].max(initial=-2)) + 1


def read(histories: Sequence[Coverage]) -> Events:
    """All events of all histories, which are told of rows that say too little.

    Raises:
        ConfigurationError: A file is damaged inside.
    """
    made, parts, rows = _Building(), list[pa.Table](), 0
    for path in (path for one in histories for path in one.files):
        parts.append(read_file(path))
        rows += len(parts[-1])
        if rows >= PART_ROWS:  # small files are many, and each part costs some time
            made.add(pa.concat_tables(parts))
            parts, rows = [], 0
    if parts:
        made.add(pa.concat_tables(parts))
    events = made.events()
    pa.default_memory_pool().release_unused()
    unread(events, histories)
    return events


def read_file(path: str) -> pa.Table:
    """The columns of ``READ`` of one file; raises ConfigurationError if it is damaged inside."""
    with told_if_damaged(path):
        # Checksums of pages: of histories written before they had some, only what cannot be
        # decompressed or decoded is noticed. A ``ParquetFile`` takes a third of the time that
        # ``read_table`` takes, which counts where a history has hundreds of files.
        file = pq.ParquetFile(path, read_dictionary=_TEXTS, page_checksum_verification=True)
        names = file.schema_arrow.names
        table = file.read([name for name in READ if name in names])
    for name in READ:
        if name not in names:  # it was written before there was such a column
            table = table.append_column(name, pa.nulls(len(table), pa.int64()))
    return table.select(list(READ))


def of_table(
    table: pa.Table, parties: Sequence[str] | None = None, queues: Sequence[str] | None = None
) -> Events:
    """The events of a table with the columns of ``READ``.

    Args:
        parties, queues: What numbers of texts point to, where other tables must have the same.
    """
    made = _Building(queues or ())
    for start in range(0, len(table), PART_ROWS):
        made.add(table.slice(start, PART_ROWS))
    return made.events(parties)


class _Texting:
    """A column of texts that comes in parts.

    Args:
        known: The numbers of texts, shared by columns of the same texts; more are added.
    """

    def __init__(self, known: dict[str, int]) -> None:
        self._known = known
        self._codes = Growing(np.int8)

    def add(self, column: pa.ChunkedArray) -> None:
        """The next part."""
        texts, codes = texts_of(column)
        known = self._known
        places = [*(known.setdefault(text, len(known)) for text in texts), ABSENT]
        self._codes.widen(_least(len(known)))
        self._codes.add(np.array(places)[codes])

    def made(self, order: Sequence[int] | None = None) -> Column:
        """The whole column.

        Args:
            order: By the number of a text, another one.
        """
        if order is not None:
            self._codes.widen(_least(max(order, default=0) + 1))
            numbers = np.array([*order, ABSENT])
            for rows in blocks(len(self._codes.rows)):
                self._codes.rows[rows] = numbers[self._codes.rows[rows]]
        return self._codes.rows


def _least(count: int) -> type[np.signedinteger[Any]]:
    """In what numbers of so many texts, and ABSENT, have room."""
    return next(kind for kind in (np.int8, np.int16, np.int32) if count <= np.iinfo(kind).max)


class _Building:
    """Events that come in parts, of which nothing is kept but the columns as they will be.

    Args:
        queues: The first that have numbers.
    """

    def __init__(self, queues: Sequence[str] = ()) -> None:
        self._parties: dict[str, int] = {}
        self._queues = {name: at for at, name in enumerate(queues)}
        kinds = {name: at for at, name in enumerate(KINDS)}
        self._texts = {
            "manager": _Texting(self._parties), "source": _Texting(self._parties),
            "queue": _Texting(self._queues), "event": _Texting(dict(CODES)),
            "kind": _Texting(kinds),
        }  # fmt: skip
        self._truths = {name: Growing(np.bool_) for name in _TRUTHS}
        self._numbers = {name: Narrowing() for name in _WORDS if name not in
                         (*self._texts, *_TRUTHS)}  # fmt: skip

    def add(self, table: pa.Table) -> None:
        """The next rows, with the columns of ``READ``."""
        for name, texts in self._texts.items():
            texts.add(table[_WORDS[name]])
        for name, truths in self._truths.items():
            truths.add(table[_WORDS[name]].fill_null(False).to_numpy())
        for name, numbers in self._numbers.items():
            numbers.add(table[_WORDS[name]].cast(pa.int64()).fill_null(NONE).to_numpy())

    def events(self, parties: Sequence[str] | None = None) -> Events:
        """All of them; see ``of_table``."""
        own = sorted(self._parties) if parties is None else list(parties)
        places = {text: at for at, text in enumerate(own)}
        order = [places.get(text, len(own)) for text in self._parties]
        columns: dict[str, Column | Narrow] = {}
        for name, texts in self._texts.items():
            columns[name] = texts.made(order if name in ("manager", "source") else None)
        columns.update((name, truths.rows) for name, truths in self._truths.items())
        columns.update((name, numbers.made()) for name, numbers in self._numbers.items())
        return Events(own, list(self._queues), columns)


def texts_of(column: pa.ChunkedArray) -> tuple[list[str], Column]:
    """The different texts of a column, and the number of each row's."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return [], np.zeros(0, np.int32)
    indices: list[Any] = [
        chunk.indices.cast(pa.int32()).fill_null(ABSENT).to_numpy(zero_copy_only=False)
        for chunk in column.chunks
    ]
    return column.chunk(0).dictionary.to_pylist(), np.concatenate(indices)
