"""``number`` in Spark: batch, streams, batches that run again, and mistakes that are told."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.property.numbering import Numbers, Sender, numbers_in, table_of
from tests.spark.files import write_files

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sender() -> Sender:
    made = Sender(random.Random(23))
    for _ in range(300):
        made.something()
    return made


def by_queue(rows: list[Any]) -> Numbers:
    """What was numbered by queue, in the order of numbers."""
    rows = [row if isinstance(row, dict) else row.asDict() for row in rows]
    return numbers_in(sorted(rows, key=lambda row: (row["streamId"] or "", row["seqNumber"] or 0)))


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


def test_numbers_go_on_after_a_table(spark: Any, sender: Sender) -> None:
    """In the same streams; or in new ones, where the old ones are acknowledged as a whole."""
    from onceq.spark.operators import eod_filter, number, order_acknowledgments

    half = len(sender.rows) // 2
    first = number(spark.createDataFrame(table_of(sender.rows[:half])), stamp=77).persist()
    rest = spark.createDataFrame(table_of(sender.rows[half - 3 :]))
    again = first.selectExpr("* except (queue)", "upper(queue) queue").where("seqNumber is null")
    second = number(rest, after=first.unionByName(again), stamp=78).collect()
    assert by_queue([*first.collect(), *second]) == sender.numbered()
    acks = order_acknowledgments(eod_filter(first))
    renewed = by_queue(number(rest, after=first, acknowledgments=acks.union(acks)).collect())
    for queue, found in by_queue(second).items():
        new = [(body, 1, n, n - 1) for n, (body, *_) in enumerate(found, 1)]
        assert renewed[queue] == new
    first.unpersist()


def test_a_stream_goes_on_and_is_renewed(rocks: Any, tmp_path: Path) -> None:
    """After a table, and when acknowledgments come, which are a stream as well."""
    from onceq.spark.operators import number

    told = "sourceMachine string, queue string, streamId string, seqNumber bigint"
    before = rocks.createDataFrame(
        [("a", "R", "5", 7, 3, 0)], f"{told}, commitOrder int, sendOrder int"
    )
    first = table_of([("q", 1, 0, b"a"), ("r", 3, 0, b"old"), ("r", 4, 0, b"b")])
    second = table_of([("q", 5, 0, b"c"), ("r", 5, 1, b"d")])
    write_files(tmp_path / "messages", first, second)
    acks = rocks.createDataFrame([("A", "R", "5", 8)], told).toArrow()
    write_files(tmp_path / "acks", acks.slice(1), acks)
    schema = rocks.createDataFrame(first).schema
    reader = rocks.readStream.option("maxFilesPerTrigger", 1)
    query = number(
        reader.schema(schema).parquet(str(tmp_path / "messages")), after=before, stamp=77,
        acknowledgments=reader.schema(told).parquet(str(tmp_path / "acks")), buckets=2,
    ).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))  # fmt: skip
    out = str(tmp_path / "out")
    query.trigger(availableNow=True).start(out, "parquet").awaitTermination()
    found = {bytes(r.body): (r.streamId, r.seqNumber) for r in rocks.read.parquet(out).collect()}
    begun = str(77 << 32 | 1)
    assert found == {
        b"a": (begun, 1), b"old": (None, None), b"b": ("5", 8), b"c": (begun, 2), b"d": ("6", 1),
    }  # fmt: skip


def test_mistakes_are_told_before_anything_runs(spark: Any, sender: Sender) -> None:
    from onceq.spark.operators import number

    frame = spark.createDataFrame(table_of(sender.rows))
    rate = spark.readStream.format("rate").load()
    faults: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: number(frame.drop("sendOrder")), "needs the column sendOrder"),
        (lambda: number(frame.selectExpr("*", "1 SEQNUMBER")), "adds the column seqNumber"),
        (lambda: number(frame, stamp=1 << 32), "stamp, a time in seconds"),
        (lambda: number(frame, buckets=40_000), "buckets is a whole number"),
        (lambda: number(frame, after=frame), "after needs the columns streamId"),
        (
            lambda: number(frame, after=frame.selectExpr("*", "'x' streamId", "1 seqNumber")),
            "after has a row whose streamId",
        ),
        (lambda: number(frame, acknowledgments=frame), "acknowledgments needs the columns"),
        (
            lambda: number(
                frame,
                acknowledgments=rate.selectExpr(
                    "'A' sourceMachine", "'q' queue", "value streamId", "value seqNumber"
                ),
            ),
            "are both streams, or neither",
        ),
    )
    for bad, text in faults:
        with pytest.raises(Exception, match=rf"^\[configuration\].*{text}"):
            bad()


def test_a_table_goes_on_whatever_else_is_in_the_bucket(spark: Any) -> None:
    """Frames are divided by Spark, tables by us: a bucket has keys of all of the table's."""
    from pyspark.sql import functions as sql

    from onceq.spark.operators import number

    one = spark.range(60).selectExpr(
        "concat('sender ', id) sourceMachine", "'DIRECT=OS:B\\\\q' queue", "id",
        "1L commitOrder", "0 sendOrder",
    )  # fmt: skip
    before = number(one, stamp=7, buckets=4)
    two = one.withColumn("commitOrder", sql.lit(2))
    rows = number(two, after=before, stamp=8, buckets=4).select("streamId", "seqNumber")
    assert {tuple(row) for row in rows.collect()} == {(str(7 << 32 | 1), 2)}
