"""Landed tables beside the histories of their queues: what each rule compares, and what is told.

What reads the tables is handed in (``Landed``): the libraries of tables stay out of an audit that
has none. Rows say their message by the computer name of the queue manager, the queue as it was
named to the landing, the place in it and the identifier. Which reader has received a message says
the record that removed it: of what others received, before, between or after the runs of a landing,
it owes no row.

Upholds: nobody is accused where the history is not complete enough to be certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.audit.engine import SqlEngine, blocks, one_row
from onceq.audit.files import Coverage
from onceq.audit.rules import Rule
from onceq.errors import ConfigurationError
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.limits import AUDIT_ROWS_MAX
from onceq.model.names import local
from onceq.model.wording import plural

IDENTIFIED: Final = ("queueManager", "queue", "lookupId", "messageId")
"""What tells a message from all others: its identifier where it stood."""
SUM: Final = "bodyCrc"
"""Of the body that a row says; DIFFERENT if it says two."""
DIFFERENT: Final = -2
ID_BYTES: Final = GUID_BYTES + 4
LOST, TWICE = ("I6", "landed-lost"), ("I4", "landed-twice")
NOWHERE, ELSEWHERE = ("I3", "landed-from-nowhere"), ("I3", "landed-elsewhere")
ALTERED: Final = ("I3", "landed-altered")
MISSING: Final = ("I6", "landed-missing")
FAULTS: Final = (LOST, TWICE, NOWHERE, ELSEWHERE, ALTERED, MISSING)
_KNOWN_PLACE: Final = "whole AND NOT newer AND NOT (made AND NOT known)"
_ELSEWHERE: Final = (
    "((somewhere_row IS NOT NULL AND whole AND NOT newer AND NOT known) OR (NOT planned AND here))"
)
_TWICE: Final = "(nth_place > 1 OR (nth > greatest(came, 1) AND whole))"


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
class TableRows:
    """The rows of a table.

    Attributes:
        table: Those that say a message, as ``landed_row`` has them.
        all, bad: How many rows both tables have, and how many the one of bad rows has.
        unknown: Names of managers whose history is not here.
    """

    table: pa.Table
    all: int
    bad: int
    unknown: list[str]


def read_rows(engine: SqlEngine, table: Landed, histories: Sequence[Coverage]) -> TableRows:
    """All rows of a table and of its bad ones; what names their sources is added to the engine.

    Raises:
        ConfigurationError: There are too many, or none is of a manager whose history is here.
    """
    managers = {one.manager.lower(): engine.party_of(one.id) for one in histories}
    parts, counts = list[pa.Table](), [0, 0]
    hosts = set[str]()
    for at, batches in enumerate((table.rows, table.bad)):
        for batch in batches:
            counts[at] += batch.num_rows
            if sum(counts) > AUDIT_ROWS_MAX:
                raise ConfigurationError(
                    f"{table.name} has more than {AUDIT_ROWS_MAX:,} rows, and no more fit into "
                    "memory: audit the histories without it"
                )
            ids = batch.column("messageId").cast(pa.binary())
            says_message = pc.equal(pc.fill_null(pc.binary_length(ids), 0), ID_BYTES)
            for name in IDENTIFIED[:3]:
                says_message = pc.and_(says_message, pc.is_valid(batch.column(name)))
            ours = batch.filter(says_message)
            if ours.num_rows:
                parts.append(_row_columns(engine, ours, managers, hosts))
    kind = pa.string() if any(isinstance(key, str) for key in managers.values()) else pa.int32()
    empty = pa.schema([
        ("manager", kind), ("host", pa.string()), ("queue", pa.string()), ("lookup", pa.int64()),
        ("source", kind), ("message", pa.int64()), ("crc", pa.int64()),
    ]).empty_table()  # fmt: skip
    rows = pa.concat_tables([empty, *parts])
    rows = rows.append_column("landed_row", pa.array(np.arange(len(rows), dtype=np.int64)))
    unknown = sorted(host for host in hosts if host.lower() not in managers)
    if len(rows) and rows["manager"].null_count == len(rows):
        raise ConfigurationError(
            f"{table.name} has rows of {', '.join(unknown)}, and no history here tells of it: "
            "name the folder of that queue manager as well; if it is named, its next file is still "
            "to come, and --ask waits for it"
        )
    return TableRows(rows, sum(counts), counts[1], unknown)


def _row_columns(
    engine: SqlEngine, batch: pa.RecordBatch, managers: Mapping[str, Any], hosts: set[str]
) -> pa.Table:
    """The columns of ``landed_row`` of rows."""
    host = batch.column("queueManager").cast(pa.string()).dictionary_encode()
    queue = batch.column("queue").cast(pa.string()).dictionary_encode()
    names = host.dictionary.to_pylist()
    hosts.update(names)
    kind = pa.string() if any(isinstance(key, str) for key in managers.values()) else pa.int32()
    fixed = batch.column("messageId").cast(pa.binary()).cast(pa.binary(ID_BYTES))
    begin, end = fixed.offset * ID_BYTES, (fixed.offset + len(fixed)) * ID_BYTES
    raw = np.frombuffer(fixed.buffers()[1], np.uint8)[begin:end].reshape(-1, ID_BYTES)
    guids = np.ascontiguousarray(raw[:, :GUID_BYTES]).view(f"V{GUID_BYTES}")[:, 0]
    different, each = np.unique(guids, return_inverse=True)
    sources = pa.array([engine.party_of(guid_text(bytes(one))) for one in different], kind)
    message = np.ascontiguousarray(raw[:, GUID_BYTES:]).view("<u4")[:, 0].astype(np.int64)
    sums = pa.nulls(batch.num_rows, pa.int64())
    if SUM in batch.schema.names:
        sums = batch.column(SUM).cast(pa.int64())
    return pa.table({
        "manager": pa.array([managers.get(name.lower()) for name in names], kind)
        .take(host.indices),
        "host": pa.array([name.lower() for name in names], pa.string()).take(host.indices),
        "queue": pa.array([local(name) for name in queue.dictionary.to_pylist()], pa.string())
        .take(queue.indices),
        "lookup": batch.column("lookupId").cast(pa.int64()),
        "source": sources.take(pa.array(each.ravel())),
        "message": pa.array(message), "crc": sums,
    })  # fmt: skip


class Tables:
    """Landed tables, each of which is judged by rules of its own.

    Args:
        tables: They are read at once.
    """

    def __init__(
        self, engine: SqlEngine, tables: Sequence[Landed], histories: Sequence[Coverage]
    ) -> None:
        self._engine = engine
        self._tables = [(one, read_rows(engine, one, histories)) for one in tables]

    def rules(self, *, settled: bool) -> list[Rule]:
        """The rules of all tables, whose tables of SQL are made here."""
        made = []
        for at, (table, rows) in enumerate(self._tables):
            self._engine.give("landed_row", rows.table)
            self._engine.give(
                "landing", pa.table({"reader": [table.reader], "alone": [table.alone]})
            )
            queues = sorted({local(name) for name in table.queues})
            self._engine.give("landed_queue", pa.table({"queue": pa.array(queues, pa.string())}))
            for name, query in blocks("landed.sql", settled=settled).items():
                shared = name in ("placed", "placed_message")
                if not shared or not at:
                    self._engine.make(name if shared else f"{name}_{at}", query)
            made += _rules(table.name, at)
        return made

    def tell(self, said: dict[str, Any]) -> None:
        """Add to findings what is said of each table, beside what the rules have found."""
        said["landed"] = []
        for at, (table, rows) in enumerate(self._tables):
            counts = self._count(at)
            missing = max(table.committed - (len(rows.table) - counts["twice"]) - counts["lost"], 0)
            one = _collect_figures(table, rows, counts, missing)
            said["landed"].append(one)
            said["notes"] += _notes(table, rows, counts)
            said["violations"] += missing
            said["messages_violated"] += missing
            said["checked"].append(
                {"invariant": MISSING[0], "fault": MISSING[1], "violations": missing,
                 "looks_at": f"what the landing of {table.name} counts with its rows",
                 "looked_at": table.committed}
            )  # fmt: skip
        said["checked"].sort(key=lambda one: int(one["invariant"][1:]))

    def _count(self, at: int) -> dict[str, int]:
        found = one_row(self._engine, f"""
            SELECT
              count(*) FILTER (WHERE {_TWICE}) AS twice,
              count(*) FILTER (WHERE known AND NOT ended) AS waiting,
              count(*) FILTER (WHERE newer) AS newer,
              count(*) FILTER (WHERE NOT here) AS strangers,
              count(*) FILTER (WHERE here AND NOT whole) AS blind,
              count(*) FILTER (WHERE made AND NOT known) AS made
            FROM landed_{at}
        """)  # fmt: skip
        found |= one_row(
            self._engine,
            "SELECT count(*) AS received, count(*) FILTER (WHERE nth > landed_rows) AS lost "
            f"FROM owed_{at}",
        )
        return found | one_row(self._engine, f"SELECT others, untold FROM others_{at}")


def _rules(name: str, at: int) -> list[Rule]:
    """What is compared with the rows of one table."""
    plain = name.replace("{", "(").replace("}", ")")  # in braces are numbers
    its = f"it has a row in {plain} (lookup {{lookup}}), and"
    named = ("source", "message")
    table = f"landed_{at}"
    return [
        Rule(*LOST, f"what the landing has received with the rows of {name}", "true",
             "nth > landed_rows",
             f"the landing of {plain} has received it, and no row has it",
             table=f"owed_{at}"),
        Rule(*ALTERED, f"sums (CRC-32) of bodies in rows of {name} with those of their messages",
             "told_crc IS NOT NULL AND crc IS NOT NULL", "told_crc <> crc",
             f"{its} the row says another body", table=table, about="crc_row", named=named),
        Rule(*TWICE, f"rows of {name}", "true", _TWICE, f"{its} another one",
             table=table, about="came_row", named=named),
        Rule(*NOWHERE, f"rows of {name} with what came into its queues", _KNOWN_PLACE,
             f"NOT known AND NOT {_ELSEWHERE}", f"{its} it was never in that queue",
             table=table, about="came_row", named=named),
        Rule(*ELSEWHERE, f"rows of {name} with the queues of their messages", "here",
             _ELSEWHERE, f"{its} its queue is another", table=table,
             about="coalesce(came_row, somewhere_row)", named=named),
    ]  # fmt: skip


def _collect_figures(
    table: Landed, rows: TableRows, counts: Mapping[str, int], missing: int
) -> dict[str, Any]:
    """Return all figures of a table."""
    twice, lost = counts["twice"], counts["lost"]
    good = plural(rows.all - rows.bad, "row")
    bad = f" and {plural(rows.bad, 'bad row')}" if rows.bad else ""
    often = f"{twice:,} TWICE" if twice else "none twice"
    gone = f", {lost + missing:,} MISSING" if lost + missing else ""
    return {
        "table": table.name, "library": table.library, "committed": table.committed,
        "rows": rows.all - rows.bad, "bad": rows.bad, "strange": rows.all - len(rows.table),
        "received": counts["received"], "twice": twice, "lost": lost, "missing": missing,
        "waiting": counts["waiting"], "newer": counts["newer"],
        "received_by_others": counts["others"], "received_untold": counts["untold"],
        "sentence": f"{table.committed:,} committed, {good}{bad}, {often}"
        f"{gone} (read back by {table.library})",
    }  # fmt: skip


def _notes(table: Landed, rows: TableRows, counts: Mapping[str, int]) -> list[str]:
    """What could not be known of a table."""
    told = (
        (rows.all - len(rows.table), "row(s) say no message: others have added them"),
        (counts["strangers"],
         f"row(s) are of {', '.join(rows.unknown)}, whose history is not here"),
        (counts["blind"], "row(s) are of managers whose history is not whole: whether their "
                          "messages were ever there nobody knows"),
        (counts["newer"], "row(s) are of messages that came after the end of the history"),
        (counts["made"], "row(s) may be of acknowledgments or reports of their manager, whose "
                         "coming no history tells"),
        (counts["untold"], "message(s) in no row were received among those of the table, by "
                           "others or before histories told who reads"),
    )  # fmt: skip
    notes = [f"{table.name}: {count:,} {text}" for count, text in told if count]
    if not table.alone:
        notes.append(
            f"{table.name}: its landing reads under a name that others have as well; of what was "
            "received nobody knows by which, so losses are only counted"
        )
    return notes
