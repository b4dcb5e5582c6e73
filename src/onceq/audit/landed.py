"""Landed tables as arrays: which message each row says it is, beside the histories of its queue.

Who reads the tables is handed in (``Landed``): the libraries of tables stay out of an audit that
has none. Rows say their message by the computer name of the queue manager, the queue as it was
named to the landing, the place in it and the identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onceq.audit.arrays import NONE, Column, Ints, Mask
from onceq.audit.events import ABSENT, Events, texts_of
from onceq.audit.files import Coverage
from onceq.errors import ConfigurationError
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.limits import AUDIT_ROWS_MAX
from onceq.model.spelling import local

IDENTIFIED: Final = ("queueManager", "queue", "lookupId", "messageId")
"""What tells a message from all others: its identifier where it stood."""
SUM: Final = "bodyCrc"
"""Of the body that a row says; DIFFERENT if it says two."""
DIFFERENT: Final = -2
ID_BYTES: Final = GUID_BYTES + 4
UNTOLD: Final = ABSENT - 1
"""The reader of a row whose file was written before readers were told."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A table that a landing has written.

    Attributes:
        name: How people call it: its folder.
        reader: The name under which the landing reads and removes messages.
        alone: Whether no other landing has that name.
        keeps: Whether the landing leaves messages in their queues.
        queues: Names of the queues that it lands.
        committed: Messages of its batches that are done.
        library: What reads the rows.
        rows, bad: The columns of ``IDENTIFIED`` of the table, and of the table of bad rows; behind
            them ``SUM`` where they tell it.
    """

    name: str
    reader: str
    alone: bool
    keeps: bool
    queues: tuple[str, ...]
    committed: int
    library: str
    rows: Iterable[pa.RecordBatch]
    bad: Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that are of a message, shape (rows,) each.

    Attributes:
        manager: Number of the party in ``Events.parties``; below 0 where its history is not here.
        queue: Number in the ``Names`` of queues.
        lookup: As histories have it, a signed number.
        source: Number of the party.
        message: Number of the message.
        crc: CRC-32 of the body that the row says; NONE where it says none.
        all, bad: How many rows both tables have, and how many the one of bad rows has.
        strange: Rows that say no message: others have added them.
        unknown: Names of managers whose history is not here.
    """

    manager: Ints
    queue: Ints
    lookup: Ints
    source: Ints
    message: Ints
    crc: Ints
    all: int
    bad: int
    strange: int
    unknown: list[str]

    def __len__(self) -> int:
        return len(self.message)

    @property
    def here(self) -> Mask:
        """Which of them are of managers whose histories are here."""
        return np.asarray(self.manager >= 0)


class Names:
    """Queues, of which the same one may be named in several ways."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The same number for all names of a queue."""
        return self._numbers.setdefault(local(name), len(self._numbers))

    def numbers(self, names: Sequence[str]) -> Ints:
        """Those of many; behind them what ABSENT finds."""
        return np.array([*(self.number(name) for name in names), ABSENT], np.int64)


def taken(table: Landed, events: Events, histories: Sequence[Coverage], names: Names) -> Rows:
    """All rows of a table and of its bad ones. Parties that events do not have are added to them.

    Raises:
        ConfigurationError: There are too many, or none is of a manager whose history is here.
    """
    managers = {one.manager.lower(): events.parties.index(one.id) for one in histories
                if one.id in events.parties}  # fmt: skip
    known = {party: at for at, party in enumerate(events.parties)}
    parts: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 6]
    unknown: list[str] = []
    counts = [0, 0]
    for at, batches in enumerate((table.rows, table.bad)):
        for batch in batches:
            counts[at] += batch.num_rows
            if sum(counts) > AUDIT_ROWS_MAX:
                raise ConfigurationError(
                    f"{table.name} has more than {AUDIT_ROWS_MAX:,} rows, and no more fit into "
                    "memory: audit the histories without it"
                )
            ours = batch.filter(_whole(batch))
            if not ours.num_rows:
                continue
            here = _coded(ours.column(IDENTIFIED[0]), managers, unknown)
            parts.append((here, *_numbers(ours, names, known, events.parties)))
    manager, queue, lookup, source, message, crc = map(np.concatenate, zip(*parts, strict=True))
    made = Rows(
        manager, queue, lookup, source, message, crc, all=sum(counts), bad=counts[1],
        strange=sum(counts) - len(message), unknown=unknown,
    )  # fmt: skip
    if len(made) and not made.here.any():
        raise ConfigurationError(
            f"{table.name} has rows of {', '.join(made.unknown)}, and no history here tells of it: "
            "name the folder of that queue manager as well; if it is named, its next file is still "
            "to come, and --ask waits for it"
        )
    return made


def _whole(batch: pa.RecordBatch) -> pa.Array:
    """Which rows say a message."""
    size = pc.fill_null(pc.binary_length(batch.column("messageId").cast(pa.binary())), 0)
    mask = pc.equal(size, ID_BYTES)
    for name in IDENTIFIED[:3]:
        mask = pc.and_(mask, pc.is_valid(batch.column(name)))
    return mask


def _coded(column: pa.Array, numbers: dict[str, int], unknown: list[str]) -> Ints:
    """The number of each text; of those that have none one below 0 each, by ``unknown``."""
    encoded = column.cast(pa.string()).dictionary_encode()
    found = []
    for text in encoded.dictionary.to_pylist():
        if text.lower() not in numbers and text not in unknown:
            unknown.append(text)
        found.append(numbers.get(text.lower(), ABSENT))
        if found[-1] == ABSENT:
            found[-1] -= unknown.index(text)
    codes: Ints = np.array(found, np.int64)[encoded.indices.to_numpy()]
    return codes


def _numbers(
    batch: pa.RecordBatch, names: Names, known: dict[str, int], parties: list[str]
) -> tuple[Ints, ...]:
    """Queue, place, source, number of the message and sum of the body of each row."""
    encoded = batch.column("queue").cast(pa.string()).dictionary_encode()
    queue = names.numbers(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    lookup = batch.column("lookupId").cast(pa.int64()).to_numpy()
    fixed = batch.column("messageId").cast(pa.binary()).cast(pa.binary(ID_BYTES))
    begin, end = fixed.offset * ID_BYTES, (fixed.offset + len(fixed)) * ID_BYTES
    raw = np.frombuffer(fixed.buffers()[1], np.uint8)[begin:end].reshape(-1, ID_BYTES)
    guids = np.ascontiguousarray(raw[:, :GUID_BYTES]).view(f"V{GUID_BYTES}")[:, 0]
    different, each = np.unique(guids, return_inverse=True)
    sources = []
    for one in different:
        text = guid_text(bytes(one))
        if text not in known:
            known[text] = len(parties)
            parties.append(text)
        sources.append(known[text])
    source = np.array([*sources, ABSENT], np.int64)[each.ravel()]
    message = np.ascontiguousarray(raw[:, GUID_BYTES:]).view("<u4")[:, 0].astype(np.int64)
    return queue, lookup, source, message, _sums(batch)


def _sums(batch: pa.RecordBatch) -> Ints:
    if SUM not in batch.schema.names:
        return np.full(batch.num_rows, NONE, np.int64)
    return np.asarray(pc.fill_null(batch.column(SUM), NONE).to_numpy(), np.int64)


def readers(histories: Sequence[Coverage]) -> tuple[list[str], Column]:
    """Who has read what each row of the histories tells as received.

    Returns:
        Names; and of each row, in the order of the files, the number of its name: ABSENT for an
        application that says none, UNTOLD where the file does not have the column.
    """
    names: dict[str, int] = {}
    parts: list[Column] = [np.zeros(0, np.int64)]
    for path in (path for one in histories for path in one.files):
        file = pq.ParquetFile(path)
        if "reader" not in file.schema_arrow.names:
            parts.append(np.full(file.metadata.num_rows, UNTOLD, np.int64))
            continue
        texts, codes = texts_of(file.read(["reader"]).column("reader"))
        table = np.array(
            [*(names.setdefault(text, len(names)) for text in texts), ABSENT], np.int64
        )
        parts.append(table[codes])
    return list(names), np.concatenate(parts)
