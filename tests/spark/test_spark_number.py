"""``number`` in Spark: batch, streams, batches that run again, and mistakes that are told."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.property.test_spark_number import Sender, table_of

pytestmark = pytest.mark.spark

Found = dict[str, list[tuple[bytes, int, int]]]


@pytest.fixture(scope="module")
def sender() -> Sender:
    made = Sender(random.Random(23))
    for _ in range(300):
        made.something()
    return made


def by_queue(rows: list[Any]) -> Found:
    """Body, number and previous number of what was numbered, in the order of numbers."""
    found: Found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seqNumber"] or 0):
        if row["seqNumber"] is not None:
            found[row["queue"]].append((bytes(row["body"]), row["seqNumber"], row["prevNumber"]))
    return found


def test_a_frame_as_the_core_would_number_it(spark: Any, sender: Sender) -> None:
    from onceq.spark.operators import number

    twice = sender.rows + sender.rows[::3]
    frame = spark.createDataFrame(table_of(twice)).repartition(3)
    done = number(frame, stamp=77, buckets=3)
    assert done.columns == [*frame.columns, "streamId", "seqNumber", "prevNumber"]
    rows = done.collect()
    assert by_queue(rows) == sender.numbered()
    assert len(rows) == len(twice), "what got no number is there, too"
    assert {row.streamId for row in rows if row.seqNumber} == {str(77 << 32 | 1)}
    assert {row.streamId for row in rows if not row.seqNumber} == {None}


def test_numbers_pass_the_filter(spark: Any, sender: Sender) -> None:
    """What one operator numbers, the other accepts: once each, and nothing else."""
    from onceq.spark.operators import accepted, eod_filter, number

    sent = number(spark.createDataFrame(table_of(sender.rows))).where("seqNumber is not null")
    done = eod_filter(sent.union(sent))
    assert accepted(done).count() == len(sender.rows)
    assert done.where("verdict = 'duplicate'").count() == len(sender.rows)


def test_a_stream_over_restarts_and_repeated_batches(
    rocks: Any, sender: Sender, tmp_path: Path
) -> None:
    from onceq.spark.operators import number

    table = table_of(sender.rows)
    size = len(table) // 3 + 1
    (tmp_path / "in").mkdir()
    batches: dict[int, list[dict[str, Any]]] = {}
    crashes: list[int] = []

    def write(frame: Any, batch: int) -> None:
        rows = sorted((row.asDict() for row in frame.collect()), key=repr)
        assert batches.setdefault(batch, rows) == rows, "a number never changes"
        if batch in crashes:
            crashes.remove(batch)
            raise RuntimeError(f"in batch {batch}")

    def run() -> None:
        stream = rocks.readStream.schema(rocks.createDataFrame(table).schema)
        files = stream.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        number(files, buckets=4).writeStream.foreachBatch(write).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        ).trigger(availableNow=True).start().awaitTermination()

    def add(number: int, part: int) -> None:
        # Spark takes files by the time of their last change, and in no order where that is equal.
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table.slice(part * size, size), file)
        os.utime(file, (number, number))

    crashes = [1]
    add(0, 0)
    add(1, 1)
    with pytest.raises(Exception, match="in batch 1"):
        run()
    add(2, 2)
    add(3, 0)
    run()
    assert sorted(batches) == [0, 1, 2, 3]
    assert by_queue([row for rows in batches.values() for row in rows]) == sender.numbered()
    assert {row["seqNumber"] for row in batches[3]} == {None}, "it was all numbered before"


def test_mistakes_are_told_before_anything_runs(spark: Any, sender: Sender) -> None:
    from onceq.spark.operators import number

    frame = spark.createDataFrame(table_of(sender.rows))
    for bad, text in (
        (lambda: number(frame.drop("sendOrder")), "needs the column sendOrder"),
        (lambda: number(frame.selectExpr("*", "1 SEQNUMBER")), "adds the column seqNumber"),
        (lambda: number(frame, stamp=1 << 32), "stamp is a time"),
        (lambda: number(frame, buckets=40_000), "buckets is a whole number"),
    ):
        with pytest.raises(Exception, match=rf"^\[configuration\].*{text}"):
            bad()
