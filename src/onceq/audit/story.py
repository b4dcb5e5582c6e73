"""The story of a message: everything that any manager tells of it, one line an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from onceq.audit.acts import Acts
from onceq.audit.engine import Engine
from onceq.audit.files import Coverage
from onceq.audit.rules import Rule

STORIES_MAX: Final = 50
"""Messages whose stories are told; all violations are counted and written as Parquet."""
LINES_MAX: Final = 60
Key = tuple[str, int | None, int | None]
"""Source, stream and number of a copy."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stories(
    engine: Engine, rules: Sequence[Rule], histories: Sequence[Coverage]
) -> list[dict[str, Any]]:
    """The first messages that contradict an invariant, with what is wrong and their events."""
    wrong = engine.rows(f"""
        SELECT v.*, i.id, coalesce(i.name, i.id) AS sender, f.route
        FROM (
          SELECT v.*, row_number() OVER (
            PARTITION BY v.rule ORDER BY i.id, v.stream NULLS FIRST, v.home, v.number, v.place
          ) AS nth
          FROM violation v JOIN party i ON i.party = v.source
        ) v
        JOIN party i ON i.party = v.source
        LEFT JOIN fate f ON f.copy = v.copy
        WHERE v.nth <= {STORIES_MAX}
        ORDER BY v.rule, v.nth
    """)
    by_message: dict[Key, list[dict[str, Any]]] = {}
    for row in wrong:
        key = (row["id"], row["stream"], row["number"])
        if key in by_message or len(by_message) < STORIES_MAX:
            by_message.setdefault(key, []).append(row)
    told = _lines(engine, [rows[0] for rows in by_message.values()], Acts(histories))
    return [
        {
            "title": _title(rows[0], next((row["route"] for row in rows if row["route"]), "")),
            "key": {"source": rows[0]["id"], **{name: rows[0][name] for name in
                    ("stream", "number", "message")}},
            "faults": [
                {"invariant": rules[row["rule"]].invariant, "fault": rules[row["rule"]].fault,
                 "said": rules[row["rule"]].text(row["one"], row["two"])}
                for row in rows
            ],
            "rows": told[at],
        }
        for at, rows in enumerate(by_message.values())
    ]  # fmt: skip


def _title(row: Mapping[str, Any], route: str) -> str:
    """Which message, for people."""
    place = "" if row["stream"] is None else f", number {row['number']} of stream {row['stream']}"
    which = "" if row["message"] is None else f"message {row['message']} "
    return f"{which}of {row['sender']}{place} ({route or 'route unknown'})"


def _lines(engine: Engine, messages: Sequence[Mapping[str, Any]], acts: Acts) -> list[list[str]]:
    """The events of each message, and those that name it and no place in a stream."""
    if not messages:
        return []
    keys = [
        {"story": at, **{name: row[name] for name in ("source", "stream", "number", "message")}}
        for at, row in enumerate(messages)
    ]
    kind = pa.string() if isinstance(keys[0]["source"], str) else pa.int32()
    engine.give("wanted", pa.Table.from_pylist(keys, pa.schema([
        ("story", pa.int32()), ("source", kind), ("stream", pa.int64()), ("number", pa.int64()),
        ("message", pa.int64()),
    ])))  # fmt: skip
    rows = engine.rows("""
        SELECT
          s.story, e.time, e.exact, coalesce(p.name, p.id) AS manager, p.id AS manager_id, e.event,
          q.name AS queue, e.lookup, e.class_name, e.observed, e.position, e.ordinal
        FROM (
          SELECT w.story, e.event_row FROM event e JOIN wanted w
          ON e.source = w.source AND e.stream = w.stream AND e.number = w.number
          UNION ALL
          SELECT w.story, e.event_row FROM event e JOIN wanted w
          ON e.source = w.source AND e.message = w.message WHERE e.stream IS NULL
        ) s
        JOIN event e ON e.event_row = s.event_row
        JOIN party p ON p.party = e.manager
        LEFT JOIN queue_name q ON q.queue = e.queue
        ORDER BY s.story, e.time, p.id, e.position, e.ordinal, e.event_row
    """)
    told: list[list[str]] = [[] for _ in messages]
    for row in rows:
        if len(told[row["story"]]) < LINES_MAX:
            told[row["story"]].append(line(row, acts.why(row)))
    return told


def line(row: Mapping[str, Any], why: str) -> str:
    """One event.

    Args:
        why: The act of administration that did it; "" where there is none.
    """
    time = _EPOCH + timedelta(microseconds=row["time"])
    when = time.strftime("%Y-%m-%d %H:%M:%S.%f" if row["exact"] else "%Y-%m-%d %H:%M:%S")
    parts = [f"{when:26}", f"{row['manager']:10}", f"{row['event']:14}"]
    if row["queue"]:
        parts.append(row["queue"])
    if row["lookup"] is not None:
        parts.append(f"lookup {row['lookup'] % (1 << 64)}")
    if row["class_name"]:
        parts.append(row["class_name"])
    parts.append("(observed)" if row["observed"] else f"@{row['position']}")
    if why:
        parts.append(f"({why})")
    return " ".join(parts)
