"""The verdicts: which invariants the histories refute, copy by copy.

Each rule is one condition over the ledger of copies; numbers are those of the invariants. A rule
speaks only where the histories are complete enough to be certain: what was cut off, or is not
written yet, is no loss.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLACK_S: Final = 300
"""Clocks of two managers may differ by so much."""

RULES: Final = (
    ("I4", "accepted-twice", "accepted > 1", "accepted {accepted} times"),
    ("I4", "received-twice", "received > 1", "received {received} times"),
    ("I3", "phantom", "certainSender and committed = 0 and (accepted > 0 or queueEnds > 0)",
     "it is in a queue, and its sender never committed it"),
    ("I3", "from-nowhere", "toWhole and stream is not null and to = coalesce(receiver, to) "
     "and accepted = 0 and queueEnds > 0", "it left a queue that it never came into"),
    ("I6", "gap", "certainHole and committed > 0 and stream is not null and accepted = 0 "
     "and refused = 0 and givenUp = 0 and notReceived = 0 and confirmed = 0",
     "a later message of its stream was accepted, this one never"),
    ("I10", "released-unaccepted", "certainEnd and acknowledged > 0 and accepted = 0 "
     "and refused = 0", "its sender was told that it arrived, and forgot it; it never arrived"),
    ("I7", "number-reused", "messages > 1 or (committed > 1 and stream is not null)",
     "one number in one stream stands for {messages} messages, committed {committed} times"),
    ("I11", "two-ends", "queueEnds > 1 and received <= 1",
     "it ended {queueEnds} times in its queue"),
    ("I11", "two-ends-at-sender", "givenUp + confirmed + notReceived > 1",
     "its sender has noted {senderEnds} ends of it"),
    ("I11", "accepted-after-not-delivered", "notDelivered > 0 and accepted > 0",
     "its sender says that it was not delivered, and it was accepted"),
    ("I11", "accepted-and-refused", "accepted > 0 and refused > 0",
     "it was accepted and refused"),
    ("I11", "confirmed-unreceived", "confirmed > 0 and toUnbroken and accepted > 0 "
     "and received = 0 and queueEnds > 0", "its sender was told that it was received; it was not"),
    ("I11", "received-and-not", "notReceived > 0 and received > 0",
     "its sender was told that it was not received; it was"),
)  # fmt: skip
"""Invariant, name of the fault, when it is there, and what is said of it."""


def judge(rows: DataFrame, copies: DataFrame, *, settled: bool) -> DataFrame:
    """All violations: invariant, fault, copy, source, message, route, said.

    Args:
        settled: Nothing was under way when the histories were taken: what is missing is lost.
    """
    known = _certain(copies, settled=settled)
    found = [_by_rules(known), _order(known), _graves(rows, copies), _told(rows, copies)]
    return reduce(lambda one, other: one.unionByName(other), found).distinct()


def _certain(copies: DataFrame, *, settled: bool) -> DataFrame:
    """Where the absence of a row means that nothing happened."""
    lane = Window.partitionBy("source", "stream")
    accepted = "case when accepted > 0 then number end"
    before = lane.orderBy("number").rowsBetween(Window.unboundedPreceding, -1)
    # Backwards, because a frame that ends with its partition takes Spark the square of its rows.
    after = lane.orderBy(f.desc("number")).rowsBetween(Window.unboundedPreceding, -1)
    now = f.lit(settled)
    us = "cast({} as double) * 1000000"
    late = f"toUpTo > {us.format('acknowledgeTime')} + {SLACK_S * 1_000_000}"
    early = f"fromUpTo > {us.format('acceptTime')} + {SLACK_S * 1_000_000}"
    return (
        copies.withColumn("earlier", f.max(f.expr(accepted)).over(before))
        .withColumn("later", f.min(f.expr(accepted)).over(after))
        .withColumn("laterSent", f.max(f.expr("case when committed > 0 then number end"))
                    .over(after))
        .withColumn("reaches", f.expr("toWhole or (toUnbroken and earlier is not null)"))
        .withColumn("certainHole", f.expr("coalesce(reaches and later is not null, false)"))
        .withColumn("certainEnd", f.expr("coalesce(reaches and later is not null, false) or "
                                         f"coalesce(toWhole and ({late}), false)")
                    | (now & f.expr("coalesce(reaches, false)")))
        .withColumn("certainSender", f.expr("coalesce(fromWhole, false)")
                    & (now | f.expr(f"coalesce(laterSent is not null or {early}, false)")))
    )  # fmt: skip


def _by_rules(copies: DataFrame) -> DataFrame:
    cases = f.array_compact(
        f.array(
            *(
                f.when(f.expr(f"coalesce({when}, false)"), _verdict(invariant, fault, said))
                for invariant, fault, when, said in RULES
            )
        )
    )
    ends = copies.withColumn("senderEnds", f.expr("givenUp + confirmed + notReceived"))
    return (
        ends.withColumn("verdict", f.explode(cases))
        .select("verdict.*", "copy", "source", "message", "route")
    )  # fmt: skip


def _verdict(invariant: str, fault: str, said: str) -> object:
    parts = [
        f.col(part[1:-1]).cast("string") if part.startswith("{") else f.lit(part)
        for part in _pieces(said)
    ]
    return f.struct(
        f.lit(invariant).alias("invariant"), f.lit(fault).alias("fault"),
        f.concat(*parts).alias("said"),
    )  # fmt: skip


def _pieces(text: str) -> list[str]:
    """Text and names in braces, apart."""
    import re

    return [piece for piece in re.split(r"(\{\w+\})", text) if piece]


def _order(copies: DataFrame) -> DataFrame:
    """I5: acceptances follow the commits of each sender; without its history, the numbers."""
    taken = copies.where("accepted > 0 and stream is not null").withColumn(
        "lane", f.expr("if(outgoing is null, concat('s', stream), concat('o', outgoing))")
    )
    window = (
        Window.partitionBy("receiver", "place", "source", "lane").orderBy("acceptAt")
        .rowsBetween(Window.unboundedPreceding, -1)
    )  # fmt: skip
    place = f.expr(
        "if(outgoing is null, struct(number as position, 0 as ordinal), "
        "struct(commitAt.position as position, cast(commitAt.ordinal as int) as ordinal))"
    )
    return (
        taken.withColumn("sentAs", place)
        .withColumn("highest", f.max("sentAs").over(window))
        .where("highest > sentAs")
        .select(
            f.lit("I5").alias("invariant"), f.lit("out-of-order").alias("fault"),
            f.lit("accepted after one that was committed later").alias("said"),
            "copy", "source", "message", "route",
        )
    )  # fmt: skip


NEGATIVE: Final = (
    "event in ('not-delivered', 'in-doubt', 'not-received') or (event in "
    "('purged', 'expired', 'rejected', 'deleted') and class is not null)"
)
POSITIVE: Final = "event in ('received', 'acknowledged', 'confirmed')"


def _graves(rows: DataFrame, copies: DataFrame) -> DataFrame:
    """I12 and I14: dead letters and journal copies, by the place that they come from."""
    origin = rows.where("transactional and not observed").select(
        "*", f.expr("coalesce(fromPlace, place)").alias("p"),
        f.expr("coalesce(fromLookupId, lookupId)").alias("l"),
    )  # fmt: skip
    grouped = origin.where("p is not null").groupBy("managerId", "p", "l").agg(
        f.max(f.expr("case when event = 'committed' then copy end")).alias("sent"),
        f.max(f.expr("coalesce(copy, concat(source, '/', message))")).alias("anyCopy"),
        f.min("source").alias("source"), f.min("message").alias("message"),
        f.bool_or(f.expr("event = 'committed' and deadLetter")).alias("wanted"),
        f.count_if(f.expr("event = 'committed'")).alias("committed"),
        f.count_if(f.expr(f"fromPlace is null and ({NEGATIVE})")).alias("negative"),
        f.count_if(f.expr(f"fromPlace is null and ({POSITIVE})")).alias("positive"),
        f.count_if(f.expr("event = 'dead-lettered' and fromPlace is not null")).alias("dead"),
        f.count_distinct(f.expr("case when event = 'dead-lettered' then place end"))
        .alias("graves"),
        f.count_if(f.expr("event = 'journaled' and fromPlace is not null")).alias("copied"),
        f.count_distinct(f.expr("case when event = 'journaled' then place end"))
        .alias("journals"),
    )  # fmt: skip
    faults = f.array_compact(
        f.array(
            f.when(f.expr("committed > 0 and wanted and negative > 0 and dead = 0"),
                   _verdict("I12", "dead-letter-missing", "it ended unreceived, and its sender "
                            "asked for a dead letter; there is none")),
            f.when(f.expr("dead > graves"),
                   _verdict("I12", "dead-letter-twice", "it has {dead} dead letters")),
            f.when(f.expr("committed > 0 and dead > 0 and negative = 0"),
                   _verdict("I12", "dead-letter-unfounded",
                            "there is a dead letter of it, and it has not ended")),
            f.when(f.expr("copied > journals"),
                   _verdict("I14", "journal-twice", "it stands {copied} times in a journal")),
            f.when(f.expr("committed > 0 and copied > 0 and positive = 0"),
                   _verdict("I14", "journal-unfounded",
                            "a journal has a copy of it, and what it tells has not happened")),
        )
    )  # fmt: skip
    routes = copies.select("copy", "route")
    return (
        grouped.withColumn("verdict", f.explode(faults))
        .withColumn("copy", f.expr("coalesce(sent, anyCopy)"))
        .join(routes, "copy", "left")
        .select("verdict.*", "copy", "source", "message", "route")
    )


def _told(rows: DataFrame, copies: DataFrame) -> DataFrame:
    """I13: what acknowledgment messages say has happened, and none says the contrary."""
    whole = copies.where("toWhole").select(f.col("to").alias("managerId")).distinct()
    names = copies.groupBy("source", "message").agg(
        f.min("copy").alias("copy"), f.min("route").alias("route"), f.count("*").alias("copies")
    )
    by = ["managerId", "source", "message"]
    facts = (
        rows.where("not observed and message is not null").groupBy(*by).agg(
            f.count_if(f.expr("event in ('accepted', 'committed', 'sent') and kind = 'queue'"))
            .alias("entries"),
            f.count_if(f.expr("event = 'received' and kind = 'queue'")).alias("received"),
            f.count_if(f.expr("event = 'told' and class = 2")).alias("reached"),
            f.count_if(f.expr("event = 'told' and class = 16384")).alias("got"),
            f.count_if(f.expr("event = 'told' and class >= 32768 and class < 49152"))
            .alias("unreached"),
            f.count_if(f.expr("event = 'told' and class >= 49152")).alias("ungot"),
        )
        .join(f.broadcast(whole), "managerId")
        .join(names, ["source", "message"], "left")
    )  # fmt: skip
    faults = f.array_compact(
        f.array(
            f.when(f.expr("reached > 0 and entries = 0"),
                   _verdict("I13", "untrue-arrival", "an acknowledgment says that it arrived; it "
                            "did not")),
            f.when(f.expr("got > 0 and received = 0"),
                   _verdict("I13", "untrue-receive", "an acknowledgment says that it was received; "
                            "it was not")),
            f.when(f.expr("copies = 1 and reached > 0 and unreached > 0"),
                   _verdict("I13", "contradiction", "it is acknowledged as arrived, and as not")),
            f.when(f.expr("copies = 1 and got > 0 and ungot > 0"),
                   _verdict("I13", "contradiction", "it is acknowledged as received, and as not")),
        )
    )  # fmt: skip
    return facts.withColumn("verdict", f.explode(faults)).select(
        "verdict.*", f.expr("coalesce(copy, concat(source, '/', message))").alias("copy"),
        "source", "message", "route",
    )  # fmt: skip
