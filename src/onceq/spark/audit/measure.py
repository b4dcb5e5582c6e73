"""What an audit reports beside its verdicts: latencies, repetitions, stuck streams, traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from onceq.audit.measure import BUCKETS, NAMES, ROUTES_MAX, WAYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def states(copies: DataFrame) -> dict[str, int]:
    """How many copies are in each state, by the name for people."""
    counted = {row["state"]: row["count"] for row in copies.groupBy("state").count().collect()}
    return {words: counted[name] for name, words in NAMES.items() if name in counted}


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
    waits = copies.where("state = 'in flight' and messageStream is not null").withColumn(
        "waits", f.expr(f"{as_of_us} / 1000000 - cast(commitTime as double)")
    )
    late = waits.where(f.col("waits") >= after_s).withColumnRenamed("stream", "code")
    grouped = late.groupBy("route", f.col("messageStream").alias("stream")).agg(
        f.count("*").alias("messages"), f.min("messageNumber").alias("first_number"),
        f.min(f.expr("cast(commitTime as bigint)")).alias("since_s"),
        f.max("waits").alias("waits_s"),
    )  # fmt: skip
    return [row.asDict() for row in grouped.orderBy(f.desc("waits_s"), "stream").collect()]


def traffic(copies: DataFrame) -> DataFrame:
    """Messages of each route by time: ``route``, ``event``, ``second`` (begin), ``messages``."""
    times = ("commitTime", "acceptTime", "receiveTime", "againTime", "cameTime")
    counts = ("committed", "accepted", "received", "greatest(transmitted - 1, 0)", "repeated")
    kinds = ", ".join(
        f"struct('{way}' as event, cast({time} as bigint) as at, {count} as times)"
        for way, time, count in zip(WAYS, times, counts, strict=True)
    )
    told = copies.select("route", f.expr(f"inline(array({kinds}))")).where("times > 0")
    told = told.where("at is not null")
    ends = told.agg(f.min("at").alias("first"), f.max("at").alias("last")).first()
    first = ends["first"] if ends is not None and ends["first"] is not None else 0
    last = ends["last"] if ends is not None and ends["last"] is not None else 0
    step = max((last - first) // BUCKETS, 1)
    return (
        told.withColumn("second", f.expr(f"{first} + ((at - {first}) div {step}) * {step}"))
        .groupBy("route", "event", "second").agg(f.sum("times").alias("messages"))
    )  # fmt: skip
