"""Histories of a queue that a landing reads up, and the table that it has written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.model.identity import guid_bytes
from onceq.model.requests import TakeRead
from onceq.spark.land.memory import FORMAT, HIDDEN
from onceq.spark.land.plan import IDENTITY
from onceq.spark.land.reading import opened
from tests.audit.planting import Row
from tests.history.worlds import Kept

READER = "onceq spark land 1"
Q, R = r"private$\q", r"private$\r"
LANDED, OTHERS, WAITING = 12, 3, 5
"""The landing has received the first of them, an application those behind; the rest waits."""
KINDS = pa.schema([("queueManager", pa.string()), ("queue", pa.string()),
                   ("lookupId", pa.int64()), ("messageId", pa.binary())])  # fmt: skip

SUMS = pa.schema([("body", pa.binary()), ("bodyCrc", pa.int64())])
BAD = KINDS.append(pa.field("body", pa.binary()))


def lived(path: Path) -> Path:
    """Histories of A, which sends to two queues of B, and of B, where a landing reads one."""
    world = Kept("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    b.create("r")
    for at in range(LANDED + OTHERS + WAITING):
        a.once(rf"DIRECT=OS:B\{Q}", b"%d" % at)
    a.once(rf"DIRECT=OS:B\{R}", b"for r", b"too")
    world.run(30)
    places = [row["lookupId"] % (1 << 64) for row in world.told("B").rows()
              if row["event"] == "accepted" and row["queue"] == Q]  # fmt: skip
    take = partial(TakeRead, Q, reader=READER, query="1", who="it")
    b.ask(take(0, places[0], places[4]))
    tx = b.begin()  # as a stream does
    b.ask(take(tx, places[5], places[LANDED - 1]))
    b.commit(tx)
    b.receive(Q, count=OTHERS)
    world.run(30)
    world.save(path)
    return path


def accepted(path: Path, queue: str = Q) -> list[Row]:
    """The rows of a table that has all messages of a queue of B, in order."""
    events = pa.concat_tables(pq.read_table(file) for file in sorted((path / "B").iterdir()))
    return [
        {
            "queueManager": "B", "queue": queue, "lookupId": row["lookupId"],
            "messageId": guid_bytes(row["source"]) + row["message"].to_bytes(4, "little"),
        }
        for row in events.to_pylist()
        if row["event"] == "accepted" and row["queue"] == queue
    ]  # fmt: skip


def planned(to: Path, total: int, **more: Any) -> Path:
    """A folder in which a landing has begun."""
    (to / HIDDEN).mkdir(parents=True)
    plan = {
        "format": FORMAT, "queues": Q, "columns": list(IDENTITY), "by_date": False, "keep": False,
        "table": "parquet", "body": "", "prefix": "", "schema": None, "subscription": READER,
    }  # fmt: skip
    (to / HIDDEN / "plan.json").write_text(json.dumps(plan | more))
    done = {"batch": 1, "total": total, "bad": 0}
    (to / HIDDEN / "done.json").write_text(json.dumps(done))
    return to


def landed(
    to: Path, rows: Sequence[Row], *, bad: Sequence[Row] = (), total: int | None = None,
    **more: Any,
) -> Path:  # fmt: skip
    """A table of Parquet files that has these rows, and of bad ones.

    Args:
        total: So many the landing counts; else as many as there are.
        more: What else its plan says.
    """
    planned(to, len(rows) + len(bad) if total is None else total, **more)
    prefix = more.get("prefix", "")
    half = len(rows) // 2
    for at, part in enumerate((rows[:half], rows[half:])):
        kinds = pa.schema([*KINDS, *(SUMS.field(n) for n in SUMS.names if n in part_of(rows))])
        table = pa.Table.from_pylist(list(part), kinds)
        table = table.rename_columns([prefix + name for name in kinds.names])
        pq.write_table(table, to / f"batch-{at:09}-00000.parquet")
    if bad:
        errors = to.with_name(f"{to.name}_errors")
        errors.mkdir()
        table = pa.Table.from_pylist(list(bad), BAD)
        pq.write_table(table, errors / "batch-000000001-00000.parquet")
    return to


def part_of(rows: Sequence[Row]) -> set[str]:
    """The names of the columns of rows."""
    return set(rows[0]) if rows else set()


def audited(path: Path, *tables: Path, **more: Any) -> Row:
    """What the audit says of histories and tables."""
    wish = Wish(landed=[opened(str(one)) for one in tables], **more)
    return command.run([str(path)], wish, lambda _: None)


def faults(found: Row) -> dict[str, int]:
    """How often each fault was found."""
    return {one["fault"]: one["violations"] for one in found["checked"] if one["violations"]}
