"""What an audit reports beside its verdicts: latencies, repetitions, stuck streams, traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS: Final = 60
"""Pieces of time in a picture of traffic."""
ROUTES_MAX: Final = 50
"""Routes in one table; those with most messages."""
STATES: Final = {
    "received": "received by an application",
    "waiting": "waiting in its queue",
    "in flight": "on its way",
    "rejected": "refused by its reader",
    "expired": "expired in its queue",
    "purged": "purged from its queue by an operator",
    "queue deleted": "deleted with its queue",
    "refused": "refused by the receiver, told to the sender",
    "not delivered": "not delivered, told to the sender",
    "not received": "arrived, not received, told to the sender",
    "removed": "purged at the sender by an operator",
    "in doubt": "in doubt",
    "unverified": "acknowledged by a manager whose history is missing or too short",
    "unknown": "its beginning is not in these histories",
}
"""Every state of a copy, in the order of tables, and how it is called there."""


def states(copies: DataFrame) -> dict[str, int]:
    """How many copies are in each state, by the name for people."""
    counted = {row["state"]: row["count"] for row in copies.groupBy("state").count().collect()}
    return {words: counted[name] for name, words in STATES.items() if name in counted}


def latencies(copies: DataFrame) -> list[dict[str, Any]]:
    """Seconds from commit to acceptance and from acceptance to reception, by route."""
    made = []
    for begin, end, first, last in (
        ("commit", "acceptance", "commitTime", "acceptTime"),
        ("acceptance", "reception", "coalesce(acceptTime, commitTime)", "receiveTime"),
    ):
        took = copies.withColumn(
            "took", f.expr(f"cast({last} as double) - cast({first} as double)")
        )
        grouped = took.where("took is not null").groupBy("route").agg(
            f.count("*").alias("messages"),
            f.expr("percentile_approx(took, array(0.5, 0.9, 0.99), 10000)").alias("at"),
            f.max("took").alias("most"),
        )  # fmt: skip
        for row in grouped.orderBy(f.desc("messages"), "route").limit(ROUTES_MAX).collect():
            p50, p90, p99 = (round(value, 3) for value in row["at"])
            made.append(
                {"route": row["route"], "from": begin, "to": end, "messages": row["messages"],
                 "p50_s": p50, "p90_s": p90, "p99_s": p99, "max_s": round(row["most"], 3)}
            )  # fmt: skip
    return made


def resends(copies: DataFrame) -> list[dict[str, Any]]:
    """Routes on which anything was transmitted more than once, as far as that was observed."""
    grouped = copies.where("transmitted > 1 or repeated > 0").groupBy("route").agg(
        f.count("*").alias("messages"),
        f.sum(f.expr("greatest(transmitted - 1, 0)")).alias("times"),
        f.sum("repeated").alias("came_again"),
    )  # fmt: skip
    return [row.asDict() for row in grouped.orderBy(f.desc("times"), "route").collect()]


def stuck(copies: DataFrame, *, as_of_us: int, after_s: float) -> list[dict[str, Any]]:
    """Streams with messages that have waited long for an order acknowledgment.

    Args:
        as_of_us: The latest time that any history tells of: a manager that waits tells nothing.
    """
    waits = copies.where("state = 'in flight' and stream is not null").withColumn(
        "waits", f.expr(f"{as_of_us} / 1000000 - cast(commitTime as double)")
    )
    grouped = waits.where(f.col("waits") >= after_s).groupBy("route", "stream").agg(
        f.count("*").alias("messages"), f.min("number").alias("first_number"),
        f.min(f.expr("cast(commitTime as bigint)")).alias("since_s"),
        f.max("waits").alias("waits_s"),
    )  # fmt: skip
    return [row.asDict() for row in grouped.orderBy(f.desc("waits_s"), "stream").collect()]


def traffic(rows: DataFrame, copies: DataFrame) -> DataFrame:
    """Messages of each route by time: ``route``, ``event``, ``second`` (begin), ``messages``."""
    told = rows.where("event in ('committed', 'accepted', 'received') and copy is not null")
    ends = told.agg(f.expr("min(cast(eventTime as bigint))").alias("first"),
                    f.expr("max(cast(eventTime as bigint))").alias("last")).first()  # fmt: skip
    first = ends["first"] if ends is not None and ends["first"] is not None else 0
    last = ends["last"] if ends is not None and ends["last"] is not None else 0
    step = max((last - first) // BUCKETS, 1)
    return (
        told.join(copies.select("copy", "route"), "copy")
        .withColumn("second", f.expr(
            f"{first} + ((cast(eventTime as bigint) - {first}) div {step}) * {step}"))
        .groupBy("route", "event", "second").agg(f.count("*").alias("messages"))
    )  # fmt: skip
