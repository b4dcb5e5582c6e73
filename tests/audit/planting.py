"""Faults planted by hand into saved histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.history.columns import META, Span, span_of
from onceq.history.events import SCHEMA
from tests.audit.histories import Q

Row = dict[str, Any]


class Planter:
    """Rows of one saved history, to be changed by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = sorted(p.name for p in folder.iterdir())
        spans = [span for name in names if (span := span_of(name))]
        self.span = Span(1, spans[0].start, spans[-1].end)
        tables = [pq.read_table(folder / span.name) for span in spans]
        metas = [json.loads(table.schema.metadata[META]) for table in tables]
        self.meta = metas[-1]
        self.starts = [start for meta in metas for start in meta["starts"]]
        self.meta |= {"life": 1, "from": self.span.start, "to": self.span.end}
        self.rows: list[Row] = pa.concat_tables(tables).to_pylist()
        self.acts = [(row["position"], row["act"]) for row in self.rows if row["act"]]
        for span in spans:
            (folder / span.name).unlink()
        self.spans = [self.span]

    def split(self, *positions: int, missing: int = 0) -> None:
        """Save it as several files, which begin and end at log positions.

        Args:
            missing: So many positions before each of these are in no file.
        """
        starts = [self.span.start, *positions]
        ends = [*(at - missing for at in positions), self.span.end]
        self.spans = [Span(1, start, end) for start, end in zip(starts, ends, strict=True)]

    def save(self) -> None:
        for span in self.spans:
            last = span.end == self.span.end
            rows = [
                row
                for row in self.rows
                if span.start <= row["position"] and (last or row["position"] < span.end)
            ]
            self._write(span, rows)

    def _write(self, span: Span, rows: list[Row]) -> None:
        starts = [one for one in self.starts if span.start <= one["position"] < span.end]
        meta = self.meta | {"from": span.start, "to": span.end, "starts": starts}
        meta["acts"] = max((act for at, act in self.acts if at < span.end), default=0)
        if span.end != self.span.end and rows:
            last = max(row["eventTime"] for row in rows)
            meta["upTo"] = int(last.timestamp() * 1_000_000)
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        pq.write_table(
            table.replace_schema_metadata({META: json.dumps(meta)}), self.folder / span.name
        )

    def find(self, event: str, **more: Any) -> Row:
        (row,) = [
            r for r in self.rows
            if r["event"] == event and all(r[name] == value for name, value in more.items())
        ]  # fmt: skip
        return row

    def again(self, row: Row, **more: Any) -> None:
        """The same once more, later."""
        self.rows.append({**row, "position": 1 << 40 | len(self.rows), **more})

    def drop(self, *events: str, **more: Any) -> None:
        for event in events:
            self.rows.remove(self.find(event, **more))


def stream_of(a: Planter) -> int:
    """The stream in which messages 1 to MESSAGES went to q."""
    found = next(r for r in a.rows if r["event"] == "committed" and r["queue"] == Q)["stream"]
    assert isinstance(found, int)
    return found


class Plants:
    """Two histories, and what must be found in them, with the copy that each fault is about."""

    def __init__(self, path: Path) -> None:
        self.a, self.b, self.c = (Planter(path / name) for name in "ABC")
        self.source = self.a.rows[0]["managerId"]
        self.stream = stream_of(self.a)
        self.expected: dict[tuple[str, str], str] = {}

    def save(self) -> None:
        for planter in (self.a, self.b, self.c):
            planter.save()

    def mine(self, number: int) -> Row:
        return {"stream": self.stream, "number": number}

    def of(self, number: int, *fault: str) -> None:
        self.expected[fault[0], fault[1]] = f"{self.source}/{self.stream}/{number}"

    def message(self, number: int) -> int:
        """Number of the identifier of the message with this number in the stream."""
        return next(
            int(row["message"]) for row in (*self.a.rows, *self.b.rows)
            if row["stream"] == self.stream and row["number"] == number and row["message"]
        )  # fmt: skip

    def mute(self, message: int, *classes: int) -> None:
        """Nothing is told of a message, given by its number in the stream."""
        message = self.message(message)
        self.b.rows = [
            r for r in self.b.rows
            if not (r["event"] == "told" and r["message"] == message
                    and (not classes or r["class"] in classes))
        ]  # fmt: skip


def bury(a: Planter, out: Row, place: int) -> None:
    """A dead letter of a message in an outgoing queue, like the one of the refused message."""
    grave = a.find("dead-lettered", className="nack-bad-destination-queue")
    same = {name: out[name] for name in ("stream", "number", "message")}
    a.again(grave, **same, lookupId=grave["lookupId"] + place, className="planted",
            fromPlace=out["place"], fromLookupId=out["lookupId"])  # fmt: skip


def copy_of(row: Row) -> str:
    return f"{row['source']}/{row['stream']}/{row['number']}"
