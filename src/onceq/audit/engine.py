"""What runs the SQL of an audit: one interface, behind which DuckDB or Spark works.

The tables of an audit are made here, in the same steps by both: events, what is known of managers
and names of queues, and then each block of ``ledger.sql``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from string import Template
from typing import Any, Final, Protocol

import pyarrow as pa

from onceq.audit.files import NOBODY, Coverage
from onceq.model.names import local
from onceq.model.resultcodes import REFUSALS

SLACK_US: Final = 300 * 1_000_000
"""Clocks of two managers may differ by so much."""
OWN_GRAVES_FROM: Final = 16
"""Smaller numbers are those of the system's queues."""
FOLLOWING: Final = ("grave", "counted", "mixed", "followed", "heard_from", "copy")
JUDGING: Final = ("letter", "word")
COUNTING: Final = ("fate",)
"""Blocks of ``ledger.sql``, by the stage that needs them."""
PASSING: Final = {"grave", "mixed", "followed", "heard_from"}
"""Tables that nothing but other blocks of the same stage looks at."""
_NAMED: Final = re.compile(r"DIRECT=OS:([^\\]+)", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"PRIVATE=([0-9a-f-]{36})", re.IGNORECASE)
_DIRECT: Final = re.compile(r"DIRECT=(OS|TCP|HTTPS?):[^\\]+\\", re.IGNORECASE)
_BLOCK: Final = re.compile(r"^-- table (\w+):", re.MULTILINE)


class SqlEngine(Protocol):
    """Runs SQL over the events of histories, and keeps the tables that this makes."""

    def names(self, column: str) -> dict[Any, str]:
        """The texts of a column of events (``party`` for managers and sources, or ``queue``), by
        what stands for them in the tables."""

    def party_of(self, id: str) -> Any:
        """What stands for a manager, given by its GUID, also for one of which no event tells."""

    def give(self, name: str, table: pa.Table) -> None:
        """Make a small table of rows that Python has."""

    def make(self, name: str, query: str) -> None:
        """Make a table of the rows of a query."""

    def drop(self, name: str) -> None:
        """Let go of a table."""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, of which there are few."""

    def write(self, query: str, folder: str, columns: Mapping[str, str]) -> None:
        """Write the rows of a query as Parquet files into a folder.

        Args:
            columns: Their names and SQL types; times are microseconds in the query.
        """


def constants(*, settled: bool) -> dict[str, str]:
    """What the blocks of ``ledger.sql`` name with a dollar sign."""
    return {
        "settled": "true" if settled else "false",
        "slack_us": str(SLACK_US),
        "own_graves_from": str(OWN_GRAVES_FROM),
        "refusals": ", ".join(str(int(one)) for one in sorted(REFUSALS)),
        "reached": str(0x0002), "got": str(0x4000), "not_reached": str(0x8000),
        "not_got": str(0xC000),
        "nobody": NOBODY, "stroke": "chr(92)",
    }  # fmt: skip


def blocks(name: str, *, settled: bool) -> dict[str, str]:
    """The queries of a file of SQL by the table that each makes."""
    text = resources("onceq.audit").joinpath(name).read_text(encoding="utf-8")
    _, *parts = _BLOCK.split(text)
    values = constants(settled=settled)
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        query = "\n".join(lines[1:]).strip().removesuffix(";")
        found[name] = Template(query).substitute(values)
    return found


def make_ledger(engine: SqlEngine, names: Sequence[str], *, settled: bool) -> None:
    """Make some tables of ``ledger.sql``, in this order."""
    queries = blocks("ledger.sql", settled=settled)
    for name in names:
        engine.make(name, queries[name])
    for name in PASSING & set(names):
        engine.drop(name)


def count_unread(engine: SqlEngine, histories: Sequence[Coverage]) -> None:
    """Tell histories of their rows that do not say which message they are about."""
    nobody = [key for key, text in engine.names("party").items() if text == NOBODY]
    by_id = {one.id: one for one in histories}
    names = engine.names("party")
    for key in nobody:
        for row in engine.rows(
            f"SELECT manager, count(*) AS unread, max(position) AS last FROM event "
            f"WHERE source = {literal(key)} AND NOT observed GROUP BY manager"
        ):
            one = by_id[names[row["manager"]]]
            one.unread, one.unread_to = row["unread"], row["last"] + 1


def literal(key: Any) -> str:
    """What stands for a text in the tables, as SQL."""
    return f"'{key}'" if isinstance(key, str) else str(key)


def give_names(engine: SqlEngine, histories: Sequence[Coverage]) -> None:
    """Make ``party`` and ``queue_name``: what is known of managers and of names of queues."""
    parties = engine.names("party")
    by_id = {one.id: one for one in histories}
    keys = {text: key for key, text in parties.items()}
    rows = []
    for key, text in parties.items():
        one = by_id.get(text)
        # The log position up to which something is missing. After a restored backup positions
        # cannot be compared, so it is beyond all of them.
        untold_to = -1
        if one and one.lives > 1:
            untold_to = (1 << 63) - 1
        elif one:
            untold_to = max(one.unread_to, *(end for _, end in one.gaps), -1)
        rows.append({
            "party": key, "id": text, "name": one.manager if one else None,
            "told": one is not None, "whole": one is not None and one.whole,
            "unbroken": one is not None and one.unbroken,
            "readable": one is not None and not one.unread,
            "up_to": one.up_to_us if one else None,
            "untold_to": untold_to,
        })  # fmt: skip
    kind = pa.string() if any(isinstance(key, str) for key in parties) else pa.int32()
    engine.give("party", pa.Table.from_pylist(rows, pa.schema([
        ("party", kind), ("id", pa.string()), ("name", pa.string()), ("told", pa.bool_()),
        ("whole", pa.bool_()), ("unbroken", pa.bool_()), ("readable", pa.bool_()),
        ("up_to", pa.int64()), ("untold_to", pa.int64()),
    ])))  # fmt: skip
    hosts: dict[str, list[Any]] = {}
    for one in histories:
        if one.id in keys:
            hosts.setdefault(one.manager.lower(), []).append(keys[one.id])
    engine.give("queue_name", pa.Table.from_pylist(
        [
            {"queue": key, "name": name, "base": name.split(";")[0], "shown": path_of(name),
             "path": local(path_of(name)), "local": local(name),
             "http": name.upper().startswith("DIRECT=HTTP"),
             "named_party": _named_party(name, hosts, keys)}
            for key, name in engine.names("queue").items()
        ],
        pa.schema([
            ("queue", kind), ("name", pa.string()), ("base", pa.string()), ("shown", pa.string()),
            ("path", pa.string()), ("local", pa.string()), ("http", pa.bool_()),
            ("named_party", kind),
        ]),
    ))  # fmt: skip


def _named_party(name: str, hosts: Mapping[str, Sequence[Any]], keys: Mapping[str, Any]) -> Any:
    """The manager that the name of a queue leads to; None where that is not certain."""
    number, host = _NUMBERED.match(name), _NAMED.match(name)
    if number and number[1].lower() in keys:
        return keys[number[1].lower()]
    same = hosts.get(host[1].lower(), ()) if host else ()
    return same[0] if len(same) == 1 else None


def path_of(name: str) -> str:
    """The path of a queue at its manager, out of a direct format name or of its journal."""
    return _DIRECT.sub("", name.split(";")[0], count=1)


def one_row(engine: SqlEngine, query: str) -> dict[str, Any]:
    """The only row of a query."""
    (row,) = engine.rows(query)
    return row


def union(queries: Iterable[str]) -> str:
    """The rows of several queries with the same columns."""
    return " UNION ALL ".join(f"SELECT * FROM ({query})" for query in queries)
