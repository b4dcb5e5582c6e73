"""What an audit must know of all rows before it follows any message.

Numbers stand for the names of parties and queues, so these are collected first; and what must be
judged in one task is counted, because it has to fit into its memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.audit.arrays import Ints, Mask, mixed
from onceq.audit.events import NOBODY
from onceq.audit.files import Coverage
from onceq.spark.audit.rows import File, checked

SHARE: Final = 100
"""A stream, or a queue, with less than a hundredth of a file is not counted there: however many
there are, little is to be remembered, and at most a hundredth of all events is not counted."""
SLOTS: Final = 1 << 17
"""Messages are marked in so many places: several may share one."""
SECOND_US: Final = 1_000_000
EVENT_BYTES: Final = 950
"""Memory that a task takes for each event of a stream, at the highest; measured."""
COPY_BYTES: Final = 2_600
"""Memory that a task takes for each message that was accepted in a queue, at the highest; measured.
"""

SURVEY: Final = {"survey": "string", "told": "binary"}
"""Columns of what is told of a file, the first as JSON, and their SQL types."""

Lane = tuple[str, int]
"""Who sends and the stream; or who receives and the place of the queue."""


@dataclass(frozen=True, slots=True)
class Largest:
    """What one task must hold.

    Attributes:
        count: How many ``noun`` it has.
        party: Who sends the stream, or has the queue.
        number: Of the stream, or the place of the queue.
    """

    bytes: int
    count: int
    noun: str
    what: str
    party: str
    number: int

    def told(self, histories: Sequence[Coverage]) -> str:
        """For people."""
        name = {one.id: one.manager for one in histories}.get(self.party, self.party)
        return (
            f"{self.what} {self.number} of {name} has {self.count:,} {self.noun}, for which one "
            f"task takes some {self.bytes / (1 << 30):,.1f} GiB"
        )


@dataclass(slots=True)
class Survey:
    """See the module.

    Attributes:
        parties, queues: Their names, in order.
        first_s: Time of the first event that each manager tells.
        unread: By manager: rows that do not say which message they are about, and the log position
            behind the last of them.
        lanes: Events of large streams.
        arrivals: Acceptances of large queues.
        told: By slot: whether acknowledgment messages speak of a message that is marked there.
    """

    parties: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    first_s: dict[str, int] = field(default_factory=dict)
    unread: dict[str, tuple[int, int]] = field(default_factory=dict)
    lanes: dict[Lane, int] = field(default_factory=dict)
    arrivals: dict[Lane, int] = field(default_factory=dict)
    told: Mask = field(default_factory=lambda: np.zeros(SLOTS, np.bool_), compare=False)

    def largest(self) -> Largest | None:
        """What takes most memory in one task; None if there is little."""
        found = [
            Largest(count * each, count, noun, what, *lane)
            for counts, each, noun, what in (
                (self.lanes, EVENT_BYTES, "events", "stream"),
                (self.arrivals, COPY_BYTES, "messages", "queue"),
            )
            for lane, count in counts.items()
        ]
        return max(found, key=lambda one: one.bytes, default=None)

    def tell(self, histories: Sequence[Coverage]) -> None:
        """Tell histories of their rows that say too little."""
        for one in histories:
            if one.id in self.unread:
                one.unread, one.unread_to = self.unread[one.id]


def surveyed(batches: Iterable[pa.RecordBatch], files: Sequence[File]) -> Iterator[pa.RecordBatch]:
    """Numbers of files to what is to be known of them, with the columns of ``SURVEY``.

    Raises:
        ConfigurationError: One is damaged inside; with its code in its text, for Spark.
    """
    for at in (at for batch in batches for at in batch.column(0).to_pylist()):
        table = checked(files[at])
        yield pa.RecordBatch.from_pydict({
            "survey": [json.dumps(survey_of(table))], "told": [_told(table)]
        })  # fmt: skip


def slots(messages: Ints) -> Ints:
    """Where messages are marked."""
    return (mixed(messages) % np.uint64(SLOTS)).astype(np.int64)


def _told(table: pa.Table) -> bytes:
    """``Survey.told`` of a file, as bits."""
    told = table.filter(pc.equal(table["event"].cast(pa.string()), "told"))["message"]
    marked = np.zeros(SLOTS, np.bool_)
    marked[slots(told.drop_null().cast(pa.int64()).to_numpy())] = True
    return np.packbits(marked).tobytes() if len(told) else b""


def survey_of(table: pa.Table) -> dict[str, Any]:
    """What is to be known of the rows of one manager, as JSON has it."""
    texts = ("managerId", "source", "queue")
    different = {name: pc.unique(table[name].cast(pa.string())).drop_null().to_pylist()
                 for name in texts}  # fmt: skip
    first = pc.min(table["eventTime"].cast(pa.int64())).as_py()
    source = table["source"].cast(pa.string())
    nobody = table.filter(pc.and_(pc.equal(source, NOBODY), pc.invert(table["observed"])))
    last = pc.max(nobody["position"]).as_py()
    accepted = table.filter(pc.equal(table["event"].cast(pa.string()), "accepted"))
    return {
        "parties": sorted({*different["managerId"], *different["source"]}),
        "queues": different["queue"],
        "managers": different["managerId"],
        "first_s": None if first is None else first // SECOND_US,
        "unread": [len(nobody), -1 if last is None else last + 1],
        "lanes": _large(table, "source", "stream"),
        "arrivals": _large(accepted, "managerId", "place"),
    }


def _large(table: pa.Table, *columns: str) -> list[list[Any]]:
    named = pa.table({
        "party": table[columns[0]].cast(pa.string()), "within": table[columns[1]].cast(pa.int64())
    }).drop_null()  # fmt: skip
    counted = named.group_by(["party", "within"]).aggregate([([], "count_all")])
    return [
        [row["party"], row["within"], row["count_all"]]
        for row in counted.to_pylist() if row["count_all"] * SHARE >= len(table)
    ]  # fmt: skip


def merged(surveys: Iterable[Mapping[str, Any]]) -> Survey:
    """The survey of all files, of rows with the columns of ``SURVEY``."""
    found = Survey()
    parties, queues = set[str](), set[str]()
    for row in surveys:
        if row["told"]:
            found.told |= np.unpackbits(np.frombuffer(row["told"], np.uint8)).astype(np.bool_)
        one = json.loads(row["survey"])
        parties.update(one["parties"])
        queues.update(one["queues"])
        rows, position = one["unread"]
        for manager in one["managers"]:  # one, or none where a file has no rows
            known = found.first_s.get(manager, one["first_s"])
            found.first_s[manager] = min(known, one["first_s"])
            if rows:
                before, upto = found.unread.get(manager, (0, -1))
                found.unread[manager] = before + rows, max(upto, position)
        for counts, more in ((found.lanes, one["lanes"]), (found.arrivals, one["arrivals"])):
            for party, within, count in more:
                counts[party, within] = counts.get((party, within), 0) + count
    found.parties, found.queues = sorted(parties), sorted(queues)
    return found
