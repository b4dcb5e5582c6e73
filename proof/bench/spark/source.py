"""The Spark source beside what Spark's own data source API reaches with the same rows.

The yardstick is a source of three lines that hands out record batches made before: same columns,
same number of tasks, same sink (``noop``). So the ratio says how much of the API's speed is left
when the rows come out of a queue. Each case runs once unmeasured, because Spark's workers have to
start, and then in turn; the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onceq
from onceq.spark.runtime import quiet_session
from onceq.spark.source.offsets import PARTITION_MESSAGES
from onceq.spark.source.options import USUAL, ddl
from onceq.spark.source.rows import arrow_schema, record_batch
from proof.nodes import Node, free_port

BODY_BYTES = 200
PAGE = 10_000
PER_TRIGGER = 100_000
LARGE_TRIGGER = 400_000
"""What the docs recommend: what a trigger costs by itself counts little beside its rows."""
ROUNDS = 3
LARGE_ROWS = 3_000_000
"""With this many rows or more each case runs once: a start counts little beside its minutes."""
NARROW = ("lookupId", "body")
HEADERS = tuple(name for name in USUAL if name not in ("body", "extension"))


def turns(rows: int) -> Iterator[bool]:
    """For each round whether it is measured."""
    yield from [True] if rows >= LARGE_ROWS else [False] + [True] * ROUNDS


def readers(rows: int, per_trigger: int) -> tuple[Any, Any]:
    """The two readers of the yardstick. Local classes: they travel to the workers by value."""
    from pyspark.sql.datasource import DataSourceReader, InputPartition
    from pyspark.sql.datasource import DataSourceStreamReader as StreamReader
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

    tasks = PARTITION_MESSAGES

    def cut(first: int, last: int) -> list[Any]:
        count = -(-(last - first) // tasks)
        edges = [first + (last - first) * i // count for i in range(count + 1)]
        return [InputPartition(pair) for pair in itertools.pairwise(edges)]

    def read(path: str, part: tuple[int, int]) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(path) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
        left = part[1] - part[0]
        while left > 0:
            size = min(left, batch.num_rows)
            yield batch if size == batch.num_rows else batch.slice(0, size)
            left -= size

    class Batches(DataSourceReader):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            self.path = path

        def partitions(self) -> list[Any]:
            return cut(0, rows)

        def read(self, partition: Any) -> Iterator[Any]:
            return read(self.path, partition.value)

    class Stream(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            self.path = path

        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def getDefaultReadLimit(self) -> Any:
            return ReadMaxRows(per_trigger)

        def prepareForTriggerAvailableNow(self) -> None:
            pass

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            return {"at": min(start["at"] + per_trigger, rows)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
            return cut(start["at"], end["at"]) if start != end else []

        def read(self, partition: Any) -> Iterator[Any]:
            return read(self.path, partition.value)

        def commit(self, end: dict[str, int]) -> None:
            pass

    return Batches, Stream


def prebuilt(rows: int, files: dict[str, str], per_trigger: int) -> Any:
    """A data source that gives ``rows`` rows from record batches in files, made before.

    Args:
        files: By schema in Spark's short form, the Arrow file with one batch.
    """
    from pyspark.sql.datasource import DataSource

    batches, stream = readers(rows, per_trigger)

    class Prebuilt(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return f"prebuilt-{per_trigger}"

        def schema(self) -> str:
            return ddl(USUAL)

        def reader(self, schema: Any) -> Any:
            return batches(files[schema.simpleString()])

        def streamReader(self, schema: Any) -> Any:
            return stream(files[schema.simpleString()])

    return Prebuilt


class Bench:
    """One daemon, one queue, one session."""

    def __init__(self, spark: Any, folder: Path, rows: int, size: int = BODY_BYTES) -> None:
        self.spark = spark
        self.rows = rows
        self.size = size
        self.folder = folder
        self.node = Node(folder, "HUB", free_port(), {})
        self.node.start()
        self.manager = onceq.connect(str(self.node.path))
        self.queues = 0
        self.queue = self.fill()
        files: dict[str, str] = {}
        page = self.manager.peek_many(self.queue, PAGE)
        for names in (tuple(USUAL), NARROW, HEADERS):
            schema = arrow_schema(names)
            batch = record_batch(page, manager="HUB", queue=self.queue, names=names, schema=schema)
            files[self._simple(names)] = self._kept(batch, len(files))
        for per_trigger in (PER_TRIGGER, LARGE_TRIGGER):
            spark.dataSource.register(prebuilt(rows, files, per_trigger))

    def _simple(self, names: tuple[str, ...]) -> str:
        text: str = self.spark.createDataFrame([], ddl(names)).schema.simpleString()
        return text

    def _kept(self, batch: Any, number: int) -> str:
        import pyarrow as pa

        path = str(self.folder / f"rows-{number}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        return path

    def fill(self) -> str:
        """A new queue with all messages."""
        self.queues += 1
        queue = f"private$\\bench{self.queues}"
        self.manager.create_queue(queue, transactional=True)
        for done in range(0, self.rows, PAGE):
            count = min(PAGE, self.rows - done)
            self.manager.send_many(
                queue, [b"x" * self.size] * count, transactional=True, label="bench"
            )
        return queue

    def batch(self, form: str, names: tuple[str, ...]) -> float:
        """Rows a second of a batch read."""
        real = form == "onceq"
        reader = self.spark.read.format(form if real else f"{form}-{PER_TRIGGER}")
        reader = reader.schema(ddl(names))
        if real:
            reader = reader.option("queueManager", str(self.node.path))
            reader = reader.option("queue", self.queue)
        began = time.perf_counter()
        reader.load().write.format("noop").mode("overwrite").save()
        return self.rows / (time.perf_counter() - began)

    def stream(self, form: str, names: tuple[str, ...], per_trigger: int = PER_TRIGGER) -> float:
        """Rows a second of a stream, removal included."""
        real = form == "onceq"
        reader = self.spark.readStream.format(form if real else f"{form}-{per_trigger}")
        reader = reader.schema(ddl(names))
        if real:
            reader = reader.option("queueManager", str(self.node.path))
            reader = reader.option("queue", self.fill()).option(
                "maxMessagesPerTrigger", per_trigger
            )
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            began = time.perf_counter()
            query = (
                reader.load().writeStream.format("noop").trigger(availableNow=True)
                .option("checkpointLocation", checkpoint).start()
            )  # fmt: skip
            query.awaitTermination()
            return self.rows / (time.perf_counter() - began)

    def close(self) -> None:
        """Stop the daemon."""
        self.manager.close()
        self.node.kill(signal.SIGTERM)


def measure(bench: Bench) -> dict[str, float]:
    """Rows a second of each case, and its ratio to the API's own."""
    cases: dict[str, Callable[[str], float]] = {
        "batch, all columns": lambda form: bench.batch(form, tuple(USUAL)),
        "batch, lookupId and body": lambda form: bench.batch(form, NARROW),
        "batch, headers": lambda form: bench.batch(form, HEADERS),
        "stream, all columns": lambda form: bench.stream(form, tuple(USUAL)),
        "stream, large triggers": lambda form: bench.stream(form, tuple(USUAL), LARGE_TRIGGER),
        "stream, lookupId and body": lambda form: bench.stream(form, NARROW),
    }
    best: dict[str, float] = {}
    for counts in turns(bench.rows):
        for name, case in cases.items():
            for form, title in (("prebuilt", f"{name}, API alone"), ("onceq", name)):
                rate = case(form)
                if counts:
                    best[title] = max(best.get(title, 0.0), rate)
    ratios = {f"{name}, part of the API": best[name] / best[f"{name}, API alone"] for name in cases}
    return {**best, **ratios}


def run(rows: int, size: int = BODY_BYTES) -> dict[str, float]:
    """Measure everything with ``rows`` rows, with bodies of ``size`` bytes.

    Returns:
        By case: rows a second; "..., part of the API": the ratio.
    """
    with tempfile.TemporaryDirectory() as folder, quiet_session("local[2]", "bench") as spark:
        bench = Bench(spark, Path(folder), rows, size)
        try:
            return measure(bench)
        finally:
            bench.close()


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    found = run(args.rows)
    if args.json:
        print(json.dumps(found))
        return 0
    for name, value in found.items():
        print(f"{name:<50} {value:>14,.2f}")
    return 0
