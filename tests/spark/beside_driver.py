"""A query whose batches go into a Delta table and into a queue. As a process of its own it stops in
its second batch between the two, and waits there to be killed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def writing(
    where: str, queue: str, table: str, app: str, between: Callable[[int], object]
) -> Callable[[Any, int], None]:
    """What is done with each batch; ``between`` is called between the two writes."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    def write(frame: Any, batch: int) -> None:
        frame.persist()
        last: int | None = None
        if DeltaTable.is_deltatable(table):
            last = DeltaTable(table).transaction_version(app)
        if last is None or batch > last:
            done = CommitProperties(app_transactions=[Transaction(app, batch)])
            write_deltalake(table, frame.toArrow(), mode="append", commit_properties=done)
        between(batch)
        writer = frame.write.format("onceq").mode("append").option("queueManager", where)
        writer.option("txnAppId", app).option("txnVersion", batch).save(queue)
        frame.unpersist()

    return write


def run(session: Any, rows: str, checkpoint: str, write: Callable[[Any, int], None]) -> None:
    """All files that are there, each as a batch."""
    frame = session.readStream.schema("body string").option("maxFilesPerTrigger", 1).json(rows)
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def _stop(batch: int) -> None:
    if batch == 1:
        print("between", flush=True)
        sys.stdin.read()


def main(where: str, queue: str, table: str, app: str, rows: str, checkpoint: str) -> None:
    """The process."""
    from onceq.spark.runtime import QUICK, quiet_session

    with quiet_session("local[2]", "driver", QUICK, folder=Path(checkpoint + "-spark")) as session:
        run(session, rows, checkpoint, writing(where, queue, table, app, _stop))


if __name__ == "__main__":
    main(*sys.argv[1:])
