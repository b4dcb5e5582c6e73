"""One row for each copy of each transactional message: what all managers tell of it, counted.

A copy is a message on its way to one destination. In a stream it is known by source, stream and
number at both managers; one that never leaves its manager by its identifier and queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from onceq.spark.audit.files import Coverage

ENDED_IN_QUEUE: Final = ("received", "expired", "rejected", "purged", "deleted")
ENDED_AT_SENDER: Final = ("not-delivered", "in-doubt", "purged")
IN_QUEUE: Final = "kind = 'queue'"
OUTGOING: Final = "kind = 'outgoing'"
OWN_GRAVES_FROM: Final = 16
"""Smaller numbers are those of the system's queues."""


def read(spark: SparkSession, histories: Sequence[Coverage]) -> DataFrame:
    """All rows of all histories, each with the key of its copy (null where it has none)."""
    files = [file for one in histories for file in one.files]
    rows = spark.read.parquet(*files)
    local = f.expr("split(queue, ';')[0]")
    key = f.when(f.col("stream").isNotNull(), f.concat_ws("/", "source", "stream", "number")).when(
        f.expr("transactional and kind = 'queue'"),
        f.concat_ws("/", "source", "message", local),
    )
    return rows.withColumn("copy", key)


def ledger(rows: DataFrame, histories: Sequence[Coverage]) -> DataFrame:
    """The copies, with ``state`` (what has become of each) and the counts behind it."""
    told = rows.where(
        "copy is not null and transactional and event != 'passed-over' "
        "and (kind is null or kind in ('queue', 'outgoing'))"
    )
    graves = rows.where(f"event = 'dead-lettered' and place >= {OWN_GRAVES_FROM}")
    told = told.join(
        graves.select("managerId", "place", "lookupId"), ["managerId", "place", "lookupId"],
        "left_anti",
    )  # fmt: skip
    copies = told.groupBy("copy").agg(*_counts())
    covered = _covered(rows.sparkSession, histories)
    return _states(_with_receivers(copies, covered))


def _count(condition: str) -> Column:
    return f.count_if(f.expr(condition))


def _first(column: str, condition: str) -> Column:
    return f.min(f.expr(f"case when {condition} then {column} end"))


def _counts() -> list[Column]:
    put = "not observed and event = 'committed'"
    taken = "event = 'accepted'"
    ends = ", ".join(f"'{name}'" for name in ENDED_IN_QUEUE)
    given_up = ", ".join(f"'{name}'" for name in ENDED_AT_SENDER)
    return [
        f.min("source").alias("source"),
        f.min("stream").alias("stream"),
        f.min("number").alias("number"),
        f.min("message").alias("message"),
        f.count_distinct(f.expr("case when event in ('committed', 'accepted') then message end"))
        .alias("messages"),
        _count(put).alias("committed"),
        _first("managerId", put).alias("sender"),
        _first("manager", put).alias("senderName"),
        _first("queue", put).alias("destination"),
        _first("place", f"{put} and {OUTGOING}").alias("outgoing"),
        _first("struct(position, ordinal)", put).alias("commitAt"),
        _first("eventTime", put).alias("commitTime"),
        _first("transaction", put).alias("transaction"),
        _count(taken).alias("accepted"),
        _first("managerId", taken).alias("receiver"),
        _first("manager", taken).alias("receiverName"),
        _first("queue", taken).alias("queue"),
        _first("place", taken).alias("place"),
        _first("struct(position, ordinal)", taken).alias("acceptAt"),
        _first("eventTime", taken).alias("acceptTime"),
        _count("event = 'refused'").alias("refused"),
        _first("managerId", "event = 'refused'").alias("refuser"),
        _count("event = 'acknowledged'").alias("acknowledged"),
        _first("eventTime", "event = 'acknowledged'").alias("acknowledgeTime"),
        *(_count(f"event = '{name}' and {IN_QUEUE}").alias(name) for name in ENDED_IN_QUEUE),
        _first("eventTime", f"event = 'received' and {IN_QUEUE}").alias("receiveTime"),
        _count(f"event in ({ends}) and {IN_QUEUE}").alias("queueEnds"),
        _count(f"event = 'not-delivered' and {OUTGOING}").alias("notDelivered"),
        _count(f"event = 'in-doubt' and {OUTGOING}").alias("inDoubt"),
        _count(f"event = 'purged' and {OUTGOING}").alias("removed"),
        _count(f"event in ({given_up}) and {OUTGOING}").alias("givenUp"),
        _count("event = 'confirmed'").alias("confirmed"),
        _count("event = 'not-received'").alias("notReceived"),
        _count("event = 'transmitted'").alias("transmitted"),
        _count("event = 'duplicate'").alias("repeated"),
        f.max("eventTime").alias("lastTime"),
    ]  # fmt: skip


def _covered(spark: SparkSession, histories: Sequence[Coverage]) -> DataFrame:
    values = [(h.id, h.manager, h.whole, h.unbroken, h.up_to_us) for h in histories]
    return spark.createDataFrame(
        values, "id string, name string, whole boolean, unbroken boolean, upTo bigint"
    )


def _with_receivers(copies: DataFrame, covered: DataFrame) -> DataFrame:
    """Who the receiver of each copy is, also where it tells nothing of it: whoever tells of others
    from the same outgoing queue, or has the name that they were sent to."""
    known = (
        copies.where("outgoing is not null and coalesce(receiver, refuser) is not null")
        .groupBy("sender", "outgoing").agg(f.min(f.expr("coalesce(receiver, refuser)")).alias("to"))
    )  # fmt: skip
    host = r"regexp_extract(destination, '(?i)^DIRECT=OS:([^\\\\]+)', 1)"
    guid = "regexp_extract(destination, '(?i)^PRIVATE=([0-9a-f-]{36})', 1)"
    named = covered.select(f.lower("name").alias("host"), f.col("id").alias("byName"))
    named = named.groupBy("host").agg(f.min("byName").alias("byName"), f.count("*").alias("n"))
    named = named.where("n = 1").drop("n")
    found = (
        copies.join(f.broadcast(known), ["sender", "outgoing"], "left")
        .withColumn("host", f.lower(f.expr(host)))
        .join(f.broadcast(named), "host", "left")
        .withColumn("byGuid", f.expr(f"nullif(lower({guid}), '')"))
        .withColumn(
            "to", f.expr("coalesce(receiver, refuser, to, if(stream is null, sender, null), "
                         "byGuid, byName)")
        )
    )  # fmt: skip
    there = covered.select(
        f.col("id").alias("to"), f.col("name").alias("toName"),
        f.col("whole").alias("toWhole"), f.col("unbroken").alias("toUnbroken"),
        f.col("upTo").alias("toUpTo"),
    )  # fmt: skip
    here = covered.select(
        f.col("id").alias("source"), f.col("name").alias("fromName"),
        f.col("whole").alias("fromWhole"), f.col("upTo").alias("fromUpTo"),
    )  # fmt: skip
    return (
        found.join(f.broadcast(there), "to", "left").join(f.broadcast(here), "source", "left")
        .drop("host", "byName", "byGuid")
    )  # fmt: skip


def _states(copies: DataFrame) -> DataFrame:
    """One word for what has become of each."""
    state = f.expr("""
        case
          when received > 0 then 'received'
          when rejected > 0 then 'rejected'
          when expired > 0 then 'expired'
          when deleted > 0 then 'queue deleted'
          when purged > 0 then 'purged'
          when refused > 0 then 'refused'
          when accepted > 0 or (committed > 0 and outgoing is null) then 'waiting'
          when notDelivered > 0 then 'not delivered'
          when removed > 0 then 'removed'
          when confirmed > 0 then 'received'
          when notReceived > 0 then 'not received'
          when inDoubt > 0 then 'in doubt'
          when acknowledged > 0 then 'unverified'
          when committed > 0 then 'in flight'
          else 'unknown'
        end""")
    path = r"regexp_replace(split(coalesce(queue, destination), ';')[0], '{}', '')".format(
        r"(?i)^DIRECT=(OS|TCP|HTTPS?):[^\\\\]+\\\\"
    )
    route = f.expr(
        f"concat(coalesce(senderName, fromName, source), ' → ', coalesce(toName || '\\\\', ''), "
        f"if(toName is null, destination, {path}))"
    )
    return copies.withColumn("state", state).withColumn("route", route)
