"""The story of a message: everything that any manager tells of it, one line an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

STORIES_MAX: Final = 50
"""Violations whose stories are told; all of them are counted and written as Parquet."""
LINES_MAX: Final = 60


def stories(rows: DataFrame, violations: DataFrame) -> list[dict[str, Any]]:
    """The first violations with the rows of their messages over all managers."""
    first = (
        violations.orderBy(f.expr("cast(substring(invariant, 2) as int)"), "fault", "copy")
        .limit(STORIES_MAX)
        .collect()
    )
    if not first:
        return []
    by_copy = {row["copy"]: [] for row in first}  # type: dict[str, list[Row]]
    wanted = violations.sparkSession.createDataFrame(
        [(row["copy"], row["source"], row["message"]) for row in first],
        "want string, who string, id bigint",
    ).distinct()
    told = rows.join(
        f.broadcast(wanted),
        f.expr("copy = want or (copy is null and source = who and message = id)"),
    )
    for row in told.orderBy("eventTime", "managerId", "position", "ordinal").collect():
        by_copy[row["want"]].append(row)
    return [
        {
            "invariant": row["invariant"], "fault": row["fault"], "said": row["said"],
            "title": title(row), "rows": [line(r) for r in by_copy[row["copy"]][:LINES_MAX]],
        }
        for row in first
    ]  # fmt: skip


def title(row: Row) -> str:
    """Which message, for people."""
    number = row["copy"].split("/")
    place = f", number {number[2]} of stream {number[1]}" if number[2:] else ""
    message = "" if row["message"] is None else f"message {row['message']} "
    return f"{message}of {row['source']}{place} ({row['route'] or 'route unknown'})"


def line(row: Row) -> str:
    """One event."""
    when = row["eventTime"].strftime("%Y-%m-%d %H:%M:%S.%f" if row["exactTime"] else
                                     "%Y-%m-%d %H:%M:%S")  # fmt: skip
    parts = [f"{when:26}", f"{row['manager']:10}", f"{row['event']:14}"]
    if row["queue"]:
        parts.append(row["queue"])
    if row["lookupId"] is not None:
        parts.append(f"lookup {row['lookupId']}")
    if row["className"]:
        parts.append(row["className"])
    parts.append("(observed)" if row["observed"] else f"@{row['position']}")
    return " ".join(parts)
