"""What the operators of ``onceq.spark.operators`` cost, beside Spark's own ``dropDuplicates``.

Both take the same rows in the same run: messages with bodies of some 200 bytes (JSON, no two
alike) in Parquet files, mixed over 10, 1,000 and 100,000 streams, each stream in order. They go
through an operator to nowhere (``noop``): as one frame, and as a stream in micro-batches, of which
the first is not counted. Before anything is counted each case sees a few of the rows, so that no
case pays for code that Java has not compiled yet. Rounds are taken in turns and medians are told;
ratios are to the ``dropDuplicates`` of the same number of streams. Operators other than the filter
are measured with the middle number of streams only.

    python -m proof bench-spark-operators --rows 2000000
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.spark.runtime import prepare

STREAMS = (10, 1_000, 100_000)
ROUNDS = 3
LARGE_ROWS = 3_000_000
"""With this many rows or more each case runs once, if nobody says more."""
BATCH_ROWS = 200_000
WARM_ROWS = 2 * BATCH_ROWS
"""Of each case, before the first round."""
TASKS = 2
YARDSTICK = "dropDuplicates"
EVERYWHERE = (YARDSTICK, "eod_filter")
QUOTAS = "settle with quotas"
OPERATORS = ("nothing", *EVERYWHERE, "number", "expand_destinations", "settle", QUOTAS)
KEY = ["sourceMachine", "queue", "streamId", "seqNumber"]
QUEUE = r"DIRECT=OS:HUB\private$\orders"
Step = Callable[[Any], Any]


def run(
    rows: int, *, streams: Sequence[int] = STREAMS, rounds: int | None = None,
    operators: Sequence[str] = OPERATORS,
) -> dict[str, float]:  # fmt: skip
    """Rows a second of each operator.

    Returns:
        By "<stream or batch>, <operator>, <streams> streams".
    """
    figures: dict[str, list[float]] = {}
    rounds = rounds or (1 if rows >= LARGE_ROWS else ROUNDS)
    middle = streams[len(streams) // 2]
    with tempfile.TemporaryDirectory(prefix="bench-operators-") as folder, session() as spark:
        place = Path(folder)
        for count in streams:
            make(place / str(count), rows, count)
            make(place / f"few of {count}", min(rows, WARM_ROWS), count)
        cases = [
            (count, name, step)
            for count in streams
            for name, step in steps(spark).items()
            if name in operators and (count == middle or name in EVERYWHERE)
        ]
        for turn in range(-1, rounds):
            for count, name, step in cases:
                source = place / (str(count) if turn >= 0 else f"few of {count}")
                for way, measure in (("stream", stream_rate), ("batch", batch_rate)):
                    where = place / f"checkpoint-{turn}-{count}-{name}"
                    rate = measure(spark, source, step, where)
                    if turn >= 0:
                        figures.setdefault(f"{way}, {name}, {count} streams", []).append(rate)
    return {case: statistics.median(rates) for case, rates in figures.items()}


@contextmanager
def session() -> Iterator[Any]:
    """A quiet local session with the state store that the operators need."""
    prepare()
    from pyspark.sql import SparkSession

    from onceq.spark.operators.columns import PROVIDER, ROCKSDB

    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        spark = (
            SparkSession.builder.master(f"local[{TASKS}]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
            .config("spark.sql.shuffle.partitions", str(TASKS))
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.driver.memory", "3g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.local.dir", f"{folder}/local")
            .config(PROVIDER, ROCKSDB)
            .getOrCreate()
        )
        yield spark
        spark.stop()


def steps(spark: Any, *, hot: float = 0) -> dict[str, Step]:
    """What is measured: from frame to frame; ``hot``: the share of one queue with a quota."""
    from onceq.spark.operators import eod_filter, expand_destinations, number, settle

    queues = spark.createDataFrame([(QUEUE, True)], "queue string, transactional boolean")
    # Thirty-two queues that are soon full: the dearest case, every message decided by itself.
    full = [(f"{QUEUE}{n}", True, 1024) for n in range(32)]
    limited = spark.createDataFrame(full, "queue string, transactional boolean, quotaKb bigint")
    spread = "pmod(hash(sourceMachine), 32)"
    if hot:
        spread = f"if(sourceMachine = '{sender(0)}', 0, {spread})"
    place = f"concat('{QUEUE}', {spread}) queue".replace("\\", "\\\\")
    sized = ("* except (queue)", place, "length(body) + 300 packetBytes")
    bare = ("streamId", "seqNumber", "prevNumber")
    return {
        "nothing": lambda frame: frame,
        YARDSTICK: lambda frame: frame.dropDuplicates(KEY),
        "eod_filter": eod_filter,
        "number": lambda frame: number(frame.drop(*bare)),
        "expand_destinations": expand_destinations,
        "settle": lambda frame: settle(frame, queues),
        QUOTAS: lambda frame: settle(frame.selectExpr(*sized), limited),
    }


def make(place: Path, rows: int, streams: int, *, hot: float = 0) -> None:
    """Write messages of streams into files, two for each micro-batch; ``hot``: the share of the
    first stream, beside its even one."""
    place.mkdir()
    dice = np.random.default_rng(1)
    stream = dice.integers(0, streams, rows)
    if hot:
        stream[dice.random(rows) < hot] = 0
    order = np.argsort(stream, kind="stable")
    counts = np.bincount(stream, minlength=streams)
    number = np.empty(rows, np.int64)
    number[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    noise = dice.bytes(16 * rows).hex()
    half = BATCH_ROWS // 2
    for at in range(0, rows, half):
        part = slice(at, min(at + half, rows))
        size = part.stop - part.start
        senders = [sender(n) for n in stream[part].tolist()]
        table = pa.table(
            {
                "sourceMachine": senders,
                "queue": [QUEUE] * size,
                "streamId": [str(1_700_000_000 << 32 | 1)] * size,
                "seqNumber": number[part],
                "prevNumber": number[part] - 1,
                "lookupId": np.arange(part.start, part.stop),
                "commitOrder": np.arange(part.start, part.stop),
                "sendOrder": np.zeros(size, np.int32),
                "transactional": np.ones(size, np.bool_),
                "sentTime": pa.array([1_700_000_000_000_000] * size, pa.timestamp("us", "UTC")),
                "body": pa.array(
                    [body(n, noise) for n in range(part.start, part.stop)], pa.binary()
                ),
            }
        )
        pq.write_table(table, place / f"{at:012}.parquet", compression="snappy")


def sender(number: int) -> str:
    """The name of a sender."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def body(number: int, noise: str) -> bytes:
    """An order as an application would write it."""
    part = noise[32 * number : 32 * number + 32]
    return (
        f'{{"order": {number}, "customer": "{part[:16]}", "paid": false, "lines": [{{"sku": '
        f'"{part[16:22]}", "count": {number % 9}, "price": {number % 1999}.90}}, {{"sku": '
        f'"{part[22:28]}", "count": {number % 4}, "price": {number % 499}.50}}], "to": '
        f'"{part[28:]}"}}'
    ).encode()


def batch_rate(spark: Any, source: Path, step: Step, _: Path) -> float:
    """Rows a second of one frame."""
    frame = spark.read.parquet(str(source))
    count = frame.count()
    start = time.perf_counter()
    step(frame).write.format("noop").mode("overwrite").save()
    return float(count / (time.perf_counter() - start))


def stream_rate(
    spark: Any, source: Path, step: Step, checkpoint: Path, *, batch_rows: int = BATCH_ROWS
) -> float:
    """Rows a second of the micro-batches behind the first, or of the only one."""
    files = max(2 * batch_rows // BATCH_ROWS, 1)
    schema = spark.read.parquet(str(source)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(source))
    query = (
        step(frame)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [p for p in query.recentProgress if p.numInputRows]
    done = done[1:] or done
    took_ms = sum(p.durationMs["triggerExecution"] for p in done)
    return float(sum(p.numInputRows for p in done) / took_ms * 1000)


def main(arguments: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--streams", type=int, nargs="+", default=list(STREAMS))
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=list(OPERATORS))
    given = parser.parse_args(arguments)
    figures = run(given.rows, streams=given.streams, rounds=given.rounds, operators=given.operators)
    print(f"{'case':44} {'rows/s':>12} {'of ' + YARDSTICK:>18}")
    for case, rate in sorted(figures.items()):
        way, _, count = case.split(", ")
        yard = figures.get(f"{way}, {YARDSTICK}, {count}")
        print(f"{case:44} {rate:12,.0f} {rate / yard if yard else float('nan'):17.2f}x")
    return 0
