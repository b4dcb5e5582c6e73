"""Rows a second of the sink, beside a sink of the same API that does nothing, and Spark's own
yardsticks on the same rows: its rate source to nowhere, Parquet read and written.

Called by ``bench``.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onceq
from onceq.spark.runtime import quiet_session
from proof.bench.spark.source import BODY_BYTES, turns
from proof.nodes import Node, free_port

PARTITIONS = 2
WRITE_ROWS = 1_000_000
"""Of one write: what stands prepared for it."""
NARROW = ("body",)
OWN = ("body", "'row ' || seq AS label", "seq AS appSpecific")
"""With a label and a number of its own for each row."""
WIDE = (
    "body", "label", "correlationId", "responseQueue", "adminQueue", "appSpecific", "bodyType",
)  # fmt: skip

Figures = dict[str, float]


def table(spark: Any, part: range, size: int, place: str) -> Any:
    """The rows that are written, in Parquet, with the columns of the sink.

    Args:
        part: Their numbers.
        size: Of a body.
    """
    frame = spark.range(part.start, part.stop, 1, PARTITIONS).selectExpr(
        f"CAST(rpad(CAST(id AS STRING), {size}, 'x') AS BINARY) AS body",
        "concat('row ', id DIV 1000) AS label",
        "CAST(lpad(CAST(id DIV 1000 AS STRING), 20, '0') AS BINARY) AS correlationId",
        "CAST(NULL AS STRING) AS responseQueue",
        "CAST(NULL AS STRING) AS adminQueue",
        "id DIV 1000 AS appSpecific",
        "8 AS bodyType",
        "id AS seq",
    )
    frame.write.parquet(place)
    return spark.read.parquet(place)


def nothing() -> type:
    """A data source whose writer takes record batches and drops them: the API alone."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Dropping(DataSourceArrowWriter):  # type: ignore[misc]
        def write(self, iterator: Iterator[Any]) -> Any:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Nothing(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "bench_nothing"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return Dropping()

    return Nothing


class Bench:
    """One daemon, one table, one session."""

    def __init__(self, spark: Any, folder: Path, rows: int, size: int = BODY_BYTES) -> None:
        self.rows = rows
        self.folder = folder
        self.spark = spark
        self.frames = [
            table(
                spark,
                range(first, min(first + WRITE_ROWS, rows)),
                size,
                str(folder / f"{first}.parquet"),
            )
            for first in range(0, rows, WRITE_ROWS)
        ]
        self.frame = spark.read.parquet(*(str(path) for path in sorted(folder.glob("*.parquet"))))
        spark.dataSource.register(nothing())
        self.node = Node(folder, "HUB", free_port(), {})
        self.node.start()
        self.manager = onceq.connect(str(self.node.path))
        self._queues = 0

    def write(self, form: str, names: tuple[str, ...], **options: str) -> float:
        """Rows a second of batch writes, each of at most WRITE_ROWS."""
        began = time.perf_counter()
        for frame in self.frames:
            frame.selectExpr(*names).write.format(form).mode("append").options(**options).save()
        return self.rows / (time.perf_counter() - began)

    def sink(self, names: tuple[str, ...]) -> float:
        """The same into a new queue; every row must be there."""
        self._queues += 1
        queue = f"private$\\sunk{self._queues}"
        self.manager.create_queue(queue, transactional=True)
        rate = self.write("onceq", names, queueManager=str(self.node.path), queue=queue)
        held = self.manager.queue(queue).messages
        self.manager.purge(queue)
        if held != self.rows:
            raise AssertionError(f"{held} messages are in the queue, {self.rows} were written")
        return rate

    def parquet(self) -> float:
        """Rows a second of Spark's own Parquet writer."""
        began = time.perf_counter()
        self.frame.select(*WIDE).write.mode("overwrite").parquet(str(self.folder / "copy.parquet"))
        return self.rows / (time.perf_counter() - began)

    def read(self) -> float:
        """Rows a second of Spark's own Parquet reader."""
        began = time.perf_counter()
        self.frame.select(*WIDE).write.format("noop").mode("overwrite").save()
        return self.rows / (time.perf_counter() - began)

    def rate(self) -> float:
        """Rows a second of Spark's rate source, one batch, to nowhere."""
        rows = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", self.rows)
            .option("numPartitions", PARTITIONS)
            .load()
        )
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            began = time.perf_counter()
            query = (
                rows.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return self.rows / (time.perf_counter() - began)

    def close(self) -> None:
        """Stop the daemon."""
        self.manager.close()
        self.node.kill(signal.SIGTERM)


def run(rows: int, size: int = BODY_BYTES) -> Figures:
    """Measure everything; return the best of some rounds, after one unmeasured."""
    with tempfile.TemporaryDirectory() as folder, quiet_session("local[2]", "bench") as spark:
        bench = Bench(spark, Path(folder), rows, size)
        cases: dict[str, Callable[[], float]] = {
            "rate source to nowhere": bench.rate,
            "Parquet read": bench.read,
            "Parquet write": bench.parquet,
            "sink, narrow, API alone": lambda: bench.write("bench_nothing", NARROW),
            "sink, narrow": lambda: bench.sink(NARROW),
            "sink, own, API alone": lambda: bench.write("bench_nothing", OWN),
            "sink, own": lambda: bench.sink(OWN),
            "sink, wide, API alone": lambda: bench.write("bench_nothing", WIDE),
            "sink, wide": lambda: bench.sink(WIDE),
        }
        best: Figures = {}
        try:
            for counts in turns(rows):
                for title, case in cases.items():
                    rate = case()
                    if counts:
                        best[title] = max(best.get(title, 0.0), rate)
        finally:
            bench.close()
    return best
