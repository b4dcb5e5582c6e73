"""The events of histories as arrays: one row an event, texts as numbers of a list.

Rows stand as their files tell them: manager after manager, and within each in the order of its log.
So the first row of a group, of those that one manager tells, is the one that happened first there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.arrays import NONE, Column, Ints, Mask
from onceq.audit.files import Coverage
from onceq.errors import ConfigurationError
from onceq.history.columns import EVENTS
from onceq.model.identity import NO_GUID, guid_text

CODES: Final = {name: code for code, name in enumerate(EVENTS)}
"""The number of each event in ``Events.event``."""
KINDS: Final = ("queue", "outgoing", "dead-letter", "journal")
"""What ``Events.kind`` counts."""
ABSENT: Final = -1
"""A text that is not there, in an array of numbers of texts."""
NOBODY: Final = guid_text(NO_GUID)
"""The source of a message whose packet could not be read."""
READ: Final = (
    "managerId", "event", "eventTime", "observed", "position", "ordinal", "source", "message",
    "kind", "queue", "place", "lookupId", "fromPlace", "fromLookupId", "stream", "number",
    "transaction", "transactional", "class", "deadLetter", "journal", "bytes", "bodyCrc",
)  # fmt: skip
_TEXTS: Final = ["managerId", "event", "source", "kind", "queue"]


@dataclass(frozen=True, slots=True)
class Events:
    """Events, shape (rows,) each; names are those of the columns of a history.

    Attributes:
        parties: GUIDs, to which ``manager`` and ``source`` point.
        queues: Names of queues, to which ``queue`` points.
        manager, source, queue, kind: Numbers of texts; ABSENT where there is none.
        event: Numbers of ``CODES``.
        time: Microseconds since 1970, UTC.
        klass: The message class.
        crc: CRC-32 of the body; NONE where the row does not have it.
    """

    parties: list[str]
    queues: list[str]
    manager: Column
    event: Column
    time: Ints
    observed: Mask
    position: Ints
    ordinal: Column
    source: Column
    message: Ints
    kind: Column
    queue: Column
    place: Ints
    lookup: Ints
    from_place: Ints
    from_lookup: Ints
    stream: Ints
    number: Ints
    transaction: Ints
    transactional: Mask
    klass: Ints
    dead_letter: Mask
    journal: Mask
    size: Ints
    crc: Ints

    def __len__(self) -> int:
        return len(self.event)

    def take(self, rows: Column) -> Events:
        """These rows (numbers, or a mask) in this order."""
        texts = (self.parties, self.queues)
        arrays = [getattr(self, field.name)[rows] for field in fields(self)[len(texts) :]]
        return Events(*texts, *arrays)

    def are(self, *names: str) -> Mask:
        """Which rows are one of these events."""
        wanted = np.zeros(len(EVENTS) + 1, np.bool_)
        wanted[[CODES[name] for name in names]] = True
        return wanted[self.event]

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
            one.unread_to = int(events.position[rows].max(initial=-2)) + 1


def read(histories: Sequence[Coverage]) -> Events:
    """All events of all histories, which are told of rows that say too little.

    Raises:
        ConfigurationError: A file is damaged inside.
    """
    made = of_table(pa.concat_tables(read_file(path) for one in histories for path in one.files))
    unread(made, histories)
    return made


def read_file(path: str) -> pa.Table:
    """The columns of ``READ`` of one file; raises ConfigurationError if it is damaged inside."""
    try:
        # Checksums of pages: of histories written before they had some, only what cannot be
        # decompressed or decoded is noticed. A ``ParquetFile`` takes a third of the time that
        # ``read_table`` takes, which counts where a history has hundreds of files.
        file = pq.ParquetFile(path, read_dictionary=_TEXTS, page_checksum_verification=True)
        names = file.schema_arrow.names
        table = file.read([name for name in READ if name in names])
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path} is damaged inside ({said}), or was removed meanwhile (history_bytes_max): "
            "copy it again, or take it away: then the audit knows that a part is missing"
        ) from None
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
    columns = dict(zip(table.column_names, table.columns, strict=True))
    del table  # each column goes when it has become an array: half of the memory

    def texts(name: str) -> tuple[list[str], Column]:
        return texts_of(columns.pop(name))

    def numbers(name: str) -> Ints:
        return _numbers(columns.pop(name))

    def truths(name: str) -> Mask:
        return _truths(columns.pop(name))

    managers, manager = texts("managerId")
    sources, source = texts("source")
    parties = sorted({*managers, *sources}) if parties is None else list(parties)
    names, queue = texts("queue")
    if queues is not None:
        names, queue = list(queues), _renumbered(queue, names, queues, np.int32)
    events, event = texts("event")
    kinds, kind = texts("kind")
    return Events(
        parties=parties, queues=names,
        manager=_renumbered(manager, managers, parties, np.int32),
        event=_renumbered(event, events, list(EVENTS), np.int8),
        time=numbers("eventTime"), observed=truths("observed"), position=numbers("position"),
        ordinal=numbers("ordinal").astype(np.int32),
        source=_renumbered(source, sources, parties, np.int32),
        message=numbers("message"), kind=_renumbered(kind, kinds, KINDS, np.int8), queue=queue,
        place=numbers("place"), lookup=numbers("lookupId"), from_place=numbers("fromPlace"),
        from_lookup=numbers("fromLookupId"), stream=numbers("stream"), number=numbers("number"),
        transaction=numbers("transaction"), transactional=truths("transactional"),
        klass=numbers("class"), dead_letter=truths("deadLetter"),
        journal=truths("journal"), size=numbers("bytes"), crc=numbers("bodyCrc"),
    )  # fmt: skip


def _numbers(column: pa.ChunkedArray) -> Ints:
    made: Ints = column.cast(pa.int64()).fill_null(NONE).to_numpy()
    return made


def _truths(column: pa.ChunkedArray) -> Mask:
    made: Mask = column.fill_null(False).to_numpy()
    return made


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


def _renumbered(
    codes: Column, texts: Sequence[str], known: Sequence[str], kind: type[np.signedinteger[Any]]
) -> Column:
    """The same with the numbers of another list; what is not in it has the next number."""
    places = {text: at for at, text in enumerate(known)}
    table = np.array([*(places.get(text, len(known)) for text in texts), ABSENT], kind)
    return table[codes]
