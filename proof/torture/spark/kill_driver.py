"""The Spark side of ``make spark-kill``: one query from queues into queues, run again whenever it
fails, until told to finish.

``python -m proof.torture.spark.kill_driver CONFIG`` prints a line of JSON for each batch that is
committed and each query that has failed. When its standard input ends it works off what is left and
exits.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from onceq.spark.runtime import QUICK, quiet_session

LOOK_S = 0.1
MASTER = "local[2,3]"
"""A task that has lost its worker is tried again twice before its query fails."""


def say(**what: Any) -> None:
    """One line for the tool."""
    print(json.dumps(what), flush=True)


def query(spark: Any, config: dict[str, Any], trigger: dict[str, Any]) -> Any:
    """From the queues into the destination, or to those that keys decide."""
    rows = (
        spark.readStream.format("onceq")
        .schema("queueManager string, lookupId bigint, body binary, label string")
        .option("queueManager", ",".join(config["managers"]))
        .option("queue", config["queue"])
        .option("maxMessagesPerTrigger", config["messages"])
        .option("minPartitions", config["partitions"])
        .load()
    )
    if config.get("tasks"):
        writer = rows.writeStream.foreachBatch(partial(write, config))
    elif "folder" in config:
        writer = rows.writeStream.format("parquet").option("path", config["folder"])
    elif "keys" in config:
        writer = onceq(keyed(rows, config).select("body", "label", "queue").writeStream, config)
    else:
        writer = onceq(rows.select("body", "label").writeStream, config)
        writer = writer.option("queue", config["destination"])
    return writer.option("checkpointLocation", config["checkpoint"]).trigger(**trigger).start()


def onceq(writer: Any, config: dict[str, Any]) -> Any:
    """Into queues, through all queue managers."""
    return writer.format("onceq").option("queueManager", ",".join(config["managers"]))


def write(config: dict[str, Any], frame: Any, batch: int) -> None:
    """A batch, whose keys have one partition each, with the queue manager that they come from."""
    rows = keyed(frame, config).repartition(config["tasks"], "queueManager", "key")
    rows = rows.sortWithinPartitions("lookupId").select("body", "label", "queue")
    writer = onceq(rows.write.mode("append"), config)
    writer.option("txnAppId", "spark-kill").option("txnVersion", batch).save()


def keyed(rows: Any, config: dict[str, Any]) -> Any:
    """With a key for each row, and the destination of the key."""
    from pyspark.sql import functions as sql

    number = sql.split(rows["body"].cast("string"), " ")[1].cast("bigint")
    places = sql.array(*(sql.lit(place) for place in config["destinations"]))
    at = sql.col("key") % len(config["destinations"])
    found = rows.withColumn("key", number % config["keys"])
    return found.withColumn("queue", sql.get(places, at.cast("int")))


def follow(running: Any, over: threading.Event) -> None:
    """Tell of batches until the query ends or it is time to finish; raises what it died of."""
    last = -1
    while running.isActive and not over.is_set():
        running.awaitTermination(LOOK_S)
        progress = running.lastProgress
        if progress and progress["batchId"] != last and progress["numInputRows"]:
            last = progress["batchId"]
            say(batch=last, rows=progress["numInputRows"])
    running.stop()
    if running.exception() is not None:
        raise running.exception()


def codes(text: str) -> str:
    """Return the codes of our errors, from any place in a text of Spark."""
    return " ".join(dict.fromkeys(re.findall(r"\[[a-z]+(?:-[a-z]+)+\]", text)))


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> int:
    """The command."""
    config = json.loads(Path(sys.argv[1]).read_text())
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    more = {**QUICK, "spark.driver.memory": "1g"}
    with quiet_session(MASTER, "onceq spark-kill", more, folder=Path(config["work"])) as spark:
        say(ready=True)
        run(spark, config, over)
    return 0


def run(spark: Any, config: dict[str, Any], over: threading.Event) -> None:
    """Queries one after another, the last one until nothing is left."""
    trigger: dict[str, Any] = {"processingTime": "0 seconds"}
    while True:
        finishing = over.is_set()
        if finishing:
            trigger = {"availableNow": True}
        try:
            follow(query(spark, config, trigger), threading.Event() if finishing else over)
        except Exception as error:  # noqa: BLE001 - after any error the query must go on
            say(failed=f"{codes(str(error))} {str(error)[:500]}")
            continue
        if finishing:
            return


if __name__ == "__main__":
    sys.exit(main())
