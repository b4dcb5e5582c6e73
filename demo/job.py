"""The Spark job: the hub's queue into Parquet, exactly once, then what the data itself proves.

Runs as a process of its own: ``python -m demo.job CONFIG``, while messages arrive and the hub is
killed. Prints its progress and its findings as lines of JSON. Messages are removed from the queue
batch by batch, each time after Spark has committed the batch that wrote them. It ends when a file
says how many there are, and all of them are in Parquet. What is very late goes back to its airport,
through the same queues. And the rows are handed to the receiver's rules once more, as a bad feed
would bring them.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onceq.spark.argument_checks import original
from onceq.spark.runtime import QUICK, quiet_session

BATCH_MESSAGES = 40_000
EVERY = "1 second"
"""Between the beginnings of two batches, if the first takes less."""
LOOK_S = 0.2
ARRIVED = "arrived"
"""File in which the demo says how many messages have arrived in all."""
COLUMNS = (
    "lookupId bigint, queue string, sourceMachine string, streamId string, seqNumber bigint, "
    "prevNumber bigint, body binary"
)
LATE_MINUTES = 120
REPEATED_SHARE = 10
"""One row in so many comes twice in the bad feed."""
FIELDS = (
    "origin string, seq bigint, row bigint, carrier string, flight int, tailnum string, "
    "dest string, sched_dep string, dep_delay int, arr_delay int, air_time int, distance int"
)


def say(**what: Any) -> None:
    """One line for the demo."""
    print(json.dumps(what), flush=True)


def warm_up(spark: Any, work: Path) -> None:
    """Two rows the way that the stream's rows go: what a first batch loads and compiles takes
    seconds beside five busy queue managers."""

    def loaded(batches: Iterator[Any]) -> Iterator[Any]:
        import onceq.spark.source.reader  # noqa: F401  (workers stay, and have it then)

        yield from batches

    rows = spark.range(0, 2, numPartitions=2).mapInArrow(loaded, "id bigint")
    body = "CAST(concat('{\"seq\":', id, '}') AS binary)"
    parsed = rows.selectExpr("*", f"from_json(decode({body}, 'UTF-8'), '{FIELDS}') AS flight")
    parsed.select("id", "flight.*").write.parquet(str(work / "warm.parquet"))


def land(spark: Any, config: dict[str, Any]) -> int:
    """Everything that arrives in the queue into Parquet; returns how many batches it took."""
    work = Path(config["work"])
    stream = (
        spark.readStream.format("onceq")
        .schema(COLUMNS)
        .option("queueManager", config["manager"])
        .option("queue", config["queue"])
        .option("readMode", "receive")
        .option("maxMessagesPerTrigger", BATCH_MESSAGES)
        .load()
    )
    parsed = stream.selectExpr(
        "*", f"from_json(decode(body, 'UTF-8'), '{FIELDS}') AS flight"
    ).select(*stream.columns, "flight.*")
    writer = (
        parsed.writeStream.format("parquet")
        .option("path", str(work / "flights.parquet"))
        .option("checkpointLocation", str(work / "checkpoint"))
    )
    query = writer.trigger(processingTime=EVERY).start()
    batches = follow(query, work / ARRIVED)
    query.stop()
    # What is written is removed from the queue when the stream looks for more: it does so once
    # more, from its checkpoint, and finds nothing.
    writer.trigger(availableNow=True).start().awaitTermination()
    return batches


def follow(query: Any, arrived: Path) -> int:
    """Tell when the stream waits for messages, and then how many rows are written, until it is as
    many as a file says.

    Returns:
        How many batches had rows.

    Raises:
        OnceqError: The query has failed.
        RuntimeError: It has ended by itself.
    """
    rows: dict[int, int] = {}
    wanted: int | None = None
    while wanted is None or sum(rows.values()) < wanted:
        query.awaitTermination(LOOK_S)
        if not query.isActive:
            failed = query.exception()
            if failed is None:
                raise RuntimeError("the stream has ended by itself")
            raise original(failed)  # Of all that Spark prints the line that says what was wrong.
        if query.status["message"].startswith("Waiting"):
            say(listening=True)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                rows[progress["batchId"]] = progress["numInputRows"]
        say(rows=sum(rows.values()))
        if wanted is None and arrived.exists():
            wanted = int(arrived.read_text())
    return len(rows)


def send_back(spark: Any, config: dict[str, Any]) -> dict[str, int]:
    """Flights that left very late, to the airports that they left; twice, which sends them once.

    Returns:
        How many were sent to each airport.
    """
    late = spark.table("flights").where(f"dep_delay >= {LATE_MINUTES}").orderBy("origin", "seq")
    rows = late.selectExpr(
        f"concat('DIRECT=OS:', origin, r'\\{config['late_queue']}') AS queue",
        "concat(carrier, ' ', flight, ' to ', dest) AS label",
        "to_json(named_struct('row', row, 'minutes', dep_delay)) AS body",
    )
    for _ in range(2):
        (
            rows.write.format("onceq")
            .mode("append")
            .option("queueManager", config["manager"])
            .option("txnAppId", "demo: late flights")
            .option("txnVersion", 1)
            .save()
        )
    return {row.origin: row["count"] for row in late.groupBy("origin").count().collect()}


def filter_again(spark: Any) -> dict[str, int]:
    """The landed rows as an at-least-once feed without any order: what the receiver's rules let
    through of it.

    Returns:
        Rows by verdict.
    """
    from onceq.spark.operators import eod_filter

    flights = spark.table("flights").select(
        "sourceMachine", "queue", "streamId", "seqNumber", "prevNumber"
    )
    repeated = flights.where(f"seqNumber % {REPEATED_SHARE} = 0")
    feed = flights.unionByName(repeated).orderBy("prevNumber", "sourceMachine", ascending=False)
    judged = eod_filter(feed).where("verdict <> 'order-ack'").groupBy("verdict").count()
    found = {row.verdict: row["count"] for row in judged.collect()}
    return {"repeated rows": repeated.count(), **found}


def verify(spark: Any, config: dict[str, Any]) -> dict[str, Any]:
    """What the Parquet files themselves say about once and in order.

    ``row`` is the line of the source, which no two flights share; ``seq`` is an airport's own
    count of its departures in the order in which it committed them; ``lookupId`` is their order
    in the hub's queue.
    """
    flights = spark.read.parquet(str(Path(config["work"]) / "flights.parquet"))
    flights.createOrReplaceTempView("flights")
    counts = spark.sql(
        "SELECT count(*) AS written, count(DISTINCT row) AS flights,"
        " count(DISTINCT lookupId) AS places, sum(CASE WHEN row IS NULL THEN 1 ELSE 0 END)"
        " AS unreadable FROM flights"
    ).first()
    order = spark.sql(
        "SELECT origin, count(*) AS flights, max(seq) AS last,"
        " sum(CASE WHEN seq <> before + 1 THEN 1 ELSE 0 END) AS broken FROM ("
        "  SELECT origin, seq, lag(seq, 1, 0L) OVER (PARTITION BY origin ORDER BY lookupId)"
        "  AS before FROM flights) GROUP BY origin ORDER BY origin"
    ).collect()
    return {
        "written": counts.written,
        "flights": counts.flights,
        "places": counts.places,
        "unreadable": counts.unreadable or 0,
        "out_of_order": sum(row.broken for row in order),
        "origins": {row.origin: {"flights": row.flights, "last": row.last} for row in order},
        "digests": digests(Path(config["work"]) / "flights.parquet"),
    }


def digests(parquet: Path) -> dict[str, str]:
    """SHA-256 over the bodies of each airport in queue order, read without Spark."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    # Spark's own log says which files count; after a clean run that is all of them.
    table = ds.dataset(str(parquet), format="parquet").to_table(
        columns=["origin", "lookupId", "body"]
    )
    table = table.sort_by("lookupId")
    found = {}
    for origin in sorted(filter(None, pc.unique(table["origin"]).to_pylist())):
        bodies = table.filter(pc.equal(table["origin"], origin))["body"].to_pylist()
        found[origin] = hashlib.sha256(b"\n".join(bodies)).hexdigest()
    return found


def delays(spark: Any) -> dict[str, Any]:
    """Delays by carrier and by route."""
    columns = (
        "count(*) AS flights, sum(CASE WHEN dep_delay IS NULL THEN 1 ELSE 0 END) AS cancelled,"
        " round(avg(dep_delay), 1) AS dep_delay, round(avg(arr_delay), 1) AS arr_delay,"
        " round(100 * avg(CASE WHEN arr_delay > 15 THEN 1.0 WHEN arr_delay IS NOT NULL THEN 0.0"
        " END), 1) AS late"
    )
    carriers = spark.sql(
        f"SELECT carrier, {columns} FROM flights GROUP BY carrier ORDER BY flights DESC"
    )
    routes = spark.sql(
        f"SELECT origin, dest, {columns} FROM flights GROUP BY origin, dest"
        " HAVING count(*) >= greatest(1, (SELECT count(*) FROM flights) / 900)"
        " ORDER BY arr_delay DESC NULLS LAST, origin, dest LIMIT 10"
    )
    return {
        "carriers": [json.loads(line) for line in carriers.toJSON().collect()],
        "routes": [json.loads(line) for line in routes.toJSON().collect()],
    }


def main() -> int:
    """The command."""
    config = json.loads(Path(sys.argv[1]).read_text())
    begun = time.monotonic()
    more = {**QUICK, "spark.log.level": "ERROR", "spark.driver.memory": "1500m"}
    folder = Path(config["work"]) / "spark"
    with quiet_session("local[2]", "onceq demo", more, folder=folder) as spark:
        run(spark, config, begun)
    return 0


def run(spark: Any, config: dict[str, Any], begun: float) -> None:
    """Everything, with a line at the beginning of each part."""
    say(stage="stream", seconds=time.monotonic() - begun)
    warm_up(spark, Path(config["work"]))
    batches = land(spark, config)
    say(stage="verify", seconds=time.monotonic() - begun)
    found = verify(spark, config)
    say(stage="delays", seconds=time.monotonic() - begun)
    found.update(delays(spark), batches=batches)
    say(stage="back", seconds=time.monotonic() - begun)
    found["late"] = send_back(spark, config)
    say(stage="filter", seconds=time.monotonic() - begun)
    found["filtered"] = filter_again(spark)
    found["seconds"] = time.monotonic() - begun
    say(result=found)


if __name__ == "__main__":
    sys.exit(main())
