"""``eod_filter`` in Spark: batch, streams, batches that run again, and mistakes that are told."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.property.receiving import Receiver, Row, feed, table_of

pytestmark = pytest.mark.spark


def words(rows: list[Any]) -> list[tuple[Any, ...]]:
    """What was said of each row; pairs of sender and queue have no order between them."""
    found = [
        (r["sourceMachine"], r["queue"], int(r["streamId"]), r["seqNumber"], r["prevNumber"],
         r["verdict"])
        for r in rows
    ]  # fmt: skip
    return sorted(found, key=lambda row: row[:2])


def by_core(receiver: Receiver, rows: list[Row]) -> list[tuple[Any, ...]]:
    """What a queue manager says of them, and the acknowledgments that it sends then."""
    told: list[tuple[Any, ...]] = [
        (row.source.decode(), "DIRECT=" + row.direct, row.stream, row.number, row.previous,
         receiver.arrive(row))
        for row in rows
    ]  # fmt: skip
    return sorted(told, key=lambda row: row[:2])


def acks(rows: list[Any]) -> set[tuple[bytes, int, int]]:
    return {(r["sourceMachine"].encode(), int(r["streamId"]), r["seqNumber"]) for r in rows}


def big_feed() -> list[Row]:
    rng = random.Random(3)
    return [
        Row(row.sender + 3 * world, row.queue, row.stream, row.number, row.previous)
        for world in range(15)
        for batch in feed(rng)
        for row in batch
    ]


def test_a_frame_as_the_core_would_judge_it(spark: Any) -> None:
    from onceq.spark.operators import accepted, eod_filter, order_acknowledgments, rejected

    rows = big_feed()
    frame = spark.createDataFrame(table_of(rows, ordered=True)).repartition(3)
    done = eod_filter(frame, buckets=5)
    assert done.columns == [*frame.columns, "verdict"]
    collected = [row.asDict() for row in done.collect()]
    receiver = Receiver()
    expected = by_core(receiver, rows)
    assert words([r for r in collected if r["verdict"] != "order-ack"]) == expected
    assert order_acknowledgments(done).count() == len(receiver.state())
    assert acks([r.asDict() for r in order_acknowledgments(done).collect()]) == (
        receiver.acknowledged()
    )
    good = [row for row in expected if row[-1] == "accept"]
    assert accepted(done).columns == frame.columns
    assert sorted(r["lookupId"] for r in accepted(done).collect()) == sorted(
        r["lookupId"] for r in collected if r["verdict"] == "accept"
    )
    assert accepted(done).count() == len(good)
    assert rejected(done).count() == len(expected) - len(good)


def test_other_types_and_columns_come_through(spark: Any) -> None:
    from onceq.spark.operators import eod_filter

    frame = spark.sql(
        "select 'A' sourceMachine, 'q' queue, 7L streamId, cast(n as int) seqNumber, "
        "cast(n - 1 as smallint) prevNumber, array(n) many, named_struct('x', n) inside, "
        "timestamp'2026-01-01' at, cast(n as decimal(20,2)) amount from (select explode("
        "sequence(1, 3)) n)"
    )
    done = eod_filter(frame, order_by=["seqNumber"])
    assert done.dtypes == [*frame.dtypes, ("verdict", "string")]
    rows = done.orderBy("verdict", "seqNumber").collect()
    assert [row.verdict for row in rows] == ["accept"] * 3 + ["order-ack"]
    plain = frame.orderBy("seqNumber").collect()
    assert [tuple(row)[:-1] for row in rows[:3]] == [tuple(row) for row in plain]
    assert (rows[3].streamId, rows[3].seqNumber, rows[3].many) == (7, 3, None)


KINDS = (
    "'A' sourceMachine, 'q' queue, 7L streamId, cast(n as int) seqNumber, "
    "cast(n - 1 as smallint) prevNumber, if(n = 2, null, cast(n as string)) text, "
    "if(n = 2, null, cast(cast(n as string) as binary)) bytes, if(n = 2, null, n > 2) yes, "
    "if(n = 2, null, cast(n as tinyint)) small, if(n = 2, double('NaN'), n / 3) part, "
    "cast(if(n = 3, null, n) as float) single, if(n = 2, null, date'1582-01-01') day, "
    "if(n = 2, null, timestamp'2026-10-25 02:30:00.000001') at, "
    "if(n = 2, null, timestamp_ntz'2026-03-29 02:30:00') local, "
    "if(n = 2, null, cast(n as decimal(38,18))) amount, cast(null as string) nothing"
)
NESTED = (
    "if(n = 2, null, array(timestamp'2026-10-25 02:30:00', null)) many, map('k', n) named, "
    "if(n = 2, null, named_struct('x', n, 'y', array(map(n, null)))) inside, interval 3 days span"
)


@pytest.mark.parametrize("more", [(), (NESTED,)], ids=["plain", "nested"])
def test_columns_of_all_kinds_through_a_stream(rocks: Any, tmp_path: Path, more: Any) -> None:
    """Plain ones leave the operator as rows, others in parcels; nothing is changed."""
    from onceq.spark.operators import eod_filter

    rocks.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        columns = ", ".join([KINDS, *more])
        rows = rocks.sql(f"select {columns} from (select explode(sequence(1, 3)) n)")
        rows.write.parquet(str(tmp_path / "in"))
        stored = rocks.read.parquet(str(tmp_path / "in"))
        done = eod_filter(rocks.readStream.schema(stored.schema).parquet(str(tmp_path / "in")))
        assert done.dtypes == [*rows.dtypes, ("verdict", "string")]
        found: list[Any] = []
        query = (
            done.writeStream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert [row.verdict for row in found] == ["accept"] * 3 + ["order-ack"]
        told = [repr(tuple(row)[:-1]) for row in found[:3]]
        assert told == [repr(tuple(row)) for row in rows.orderBy("seqNumber").collect()]
        assert (found[3].streamId, found[3].seqNumber) == (7, 3)
        assert {found[3][name] for name in rows.columns[4:]} == {None}
    finally:
        rocks.conf.unset("spark.sql.session.timeZone")


def test_what_is_done_with_a_frame_later_changes_no_verdict(spark: Any) -> None:
    """Spark would bring filters before the rows are judged, and leave out what orders them."""
    from onceq.spark.operators import accepted, eod_filter

    rows = big_feed()
    frame = spark.createDataFrame(table_of(rows, ordered=True)).repartition(3)
    done = eod_filter(frame)
    expected = [row for row in by_core(Receiver(), rows) if row[3] > 1]
    later = done.where("verdict <> 'order-ack' and seqNumber > 1")
    assert words([r.asDict() for r in later.collect()]) == expected
    assert sorted(words([r.asDict() for r in later.orderBy("seqNumber").collect()])) == (
        sorted(expected)
    )
    counts = {r["verdict"]: r["count"] for r in done.groupBy("verdict").count().collect()}
    for word in {row[-1] for row in expected}:
        assert done.where(done["verdict"] == word).count() == counts[word]
    narrow = accepted(done).select("seqNumber").where("seqNumber > 1").collect()
    assert len(narrow) == sum(row[-1] == "accept" for row in expected)
    twice = accepted(eod_filter(accepted(done)))
    assert twice.count() == counts["accept"], "what was accepted is in order"


@pytest.mark.parametrize(
    "order", [None, ["at"], ["at", "more"]], ids=["no order", "places claimed twice", "two columns"]
)
@pytest.mark.parametrize("whole", [True, False], ids=["numbers", "texts"])
def test_spark_puts_rows_in_the_order_of_the_operator(spark: Any, order: Any, whole: bool) -> None:
    """Nulls last, and rows that claim one place by stream and numbers; bad rows are malformed."""
    from onceq.spark.operators import eod_filter
    from onceq.spark.operators.eod import EodFilter
    from onceq.spark.operators.key_buckets import BucketRecords

    rng = random.Random(6)
    texts = ["9", "09", "10", "0", "x", None, "-1", str((1 << 64) - 1), str(1 << 64), "000100"]
    count = 400
    table = pa.table(
        {
            "sourceMachine": [rng.choice("abcdefgh") for _ in range(count)],
            "queue": ["q"] * count,
            "streamId": [
                rng.choice((9, 10, 0, -1, None)) if whole else rng.choice(texts)
                for _ in range(count)
            ],
            "seqNumber": [rng.choice((1, 2, 3, 0, None)) for _ in range(count)],
            "prevNumber": pa.array([rng.choice((0, 1, 2, None)) for _ in range(count)], pa.int32()),
            "at": [rng.choice((None, 1.0, 2.0, float("nan"), -0.0, 0.0)) for _ in range(count)],
            "more": [rng.choice(("a", "B", None, "é")) for _ in range(count)],
        }
    )
    done = eod_filter(spark.createDataFrame(table).repartition(3), order_by=order)
    expected, _ = EodFilter(tuple(order or ()), 1, 0).done(
        table, BucketRecords.empty(EodFilter.fields), 0
    )

    def told(rows: list[dict[str, Any]]) -> list[str]:
        # Rows that are alike in what orders them may change places.
        said = ["sourceMachine", "verdict", "seqNumber", "prevNumber", *(order or ())]
        kept = [
            repr([r[name] or 0 for name in said])
            for r in rows
            if r["verdict"] not in ("malformed", "order-ack")
        ]
        return sorted(kept, key=lambda text: text[:4])

    found = [row.asDict() for row in done.collect()]
    assert told(found) == told(expected.to_pylist())
    assert len(found) == expected.num_rows


def test_columns_of_any_names_come_through(spark: Any) -> None:
    from onceq.spark.operators import eod_filter

    frame = spark.sql(
        "select 'A' sourceMachine, 'q' queue, '7' streamId, 1 seqNumber, 0 prevNumber, 5 `a.b`, "
        "6 `A.B`, 7 acks, 8 Queue, 9 `tick``ed`, 10 c1"
    )
    done = eod_filter(frame)
    assert done.columns == [*frame.columns, "verdict"]
    message, ack = (tuple(row) for row in done.collect())
    assert message == ("A", "q", "7", 1, 0, 5, 6, 7, 8, 9, 10, "accept")
    assert ack == ("A", "q", "7", 1, *[None] * 7, "order-ack")


def test_nothing_in_a_frame(spark: Any) -> None:
    from onceq.spark.operators import eod_filter

    frame = spark.createDataFrame(table_of([Row(1, "q", 1, 1, 0)], ordered=False)).where("false")
    assert eod_filter(frame).collect() == []


class Filtered:
    """A stream of files through the filter, and what each of its batches has had."""

    def __init__(self, spark: Any, place: Path, **options: Any) -> None:
        self.spark, self.place, self.options = spark, place, options
        self.batches: dict[int, list[dict[str, Any]]] = {}
        (place / "in").mkdir()
        self.files = 0
        self.hook: Callable[[int], None] = lambda batch: None

    def add(self, rows: list[Row]) -> None:
        """One micro-batch of rows, in two files that are read side by side."""
        table = table_of(rows, ordered=True)
        half = (len(rows) + 1) // 2
        for part in (table.slice(half), table.slice(0, half)):
            self.files += 1
            file = self.place / "in" / f"{self.files:04}.parquet"
            pq.write_table(part, file)
            # Spark takes files by the time of their last change, in no order where that is equal.
            os.utime(file, (self.files, self.files))

    def run(self) -> None:
        from onceq.spark.operators import eod_filter

        schema = self.spark.createDataFrame(table_of([Row(1, "q", 1, 1, 0)], ordered=True)).schema
        frame = (
            self.spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 2)
            .parquet(str(self.place / "in"))
        )
        query = (
            eod_filter(frame, **self.options)
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _write(self, frame: Any, batch: int) -> None:
        rows = [row.asDict() for row in frame.collect()]
        if batch in self.batches:
            key = repr
            assert sorted(rows, key=key) == sorted(self.batches[batch], key=key), "not the same"
        self.batches[batch] = rows
        self.hook(batch)


def test_a_stream_as_the_core_would_judge_it(rocks: Any, tmp_path: Path) -> None:
    """Micro-batch by micro-batch, over a restart, and with a batch that runs a second time."""
    rows = big_feed()
    flow, receiver = Filtered(rocks, tmp_path, buckets=4), Receiver()
    size = len(rows) // 4 + 1
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    for part in parts[:2]:
        flow.add(part)
    flow.run()
    flow.add(parts[2])

    def crash(batch: int) -> None:
        raise RuntimeError(f"in batch {batch}")

    flow.hook = crash
    with pytest.raises(Exception, match="in batch 2"):
        flow.run()
    flow.hook = lambda batch: None
    flow.add(parts[3])
    flow.run()
    assert sorted(flow.batches) == [0, 1, 2, 3]
    for batch, part in enumerate(parts):
        found = flow.batches[batch]
        expected = by_core(receiver, part)
        assert words([r for r in found if r["verdict"] != "order-ack"]) == expected, batch
        assert acks([r for r in found if r["verdict"] == "order-ack"]) == receiver.acknowledged()
        receiver.crash()


def test_other_buckets_for_a_checkpoint_are_refused(rocks: Any, tmp_path: Path) -> None:
    flow = Filtered(rocks, tmp_path, buckets=2)
    flow.add([Row(n, "q", 1, 1, 0) for n in range(8)])
    flow.run()
    flow.options["buckets"] = 3
    flow.add([Row(n, "q", 1, 1, 0) for n in range(8)])
    with pytest.raises(Exception, match=r"\[configuration\] this checkpoint.*buckets=2"):
        flow.run()


@pytest.mark.parametrize("straight", [True, False], ids=["rows", "parcels"])
def test_the_processor_alone(straight: bool) -> None:
    """Without Spark: its memory is one record, read and written with every call."""
    import pandas as pd
    from pyspark.sql.streaming.tws_tester import TwsTester

    from onceq.spark.operators.eod import EodFilter
    from onceq.spark.operators.key_buckets import BucketProcessor, BucketRecords, pack, unpack

    tester = TwsTester(BucketProcessor(EodFilter(("lookupId",), 4, 100), straight=straight))

    def call(rows: list[Row], at: int) -> list[str]:
        table = table_of(rows, ordered=True)
        parcels = [pack(table.slice(k, 1)) for k in reversed(range(len(rows)))]
        found = tester.testInPandas(3, pd.DataFrame({"bucket": 3, "at": at, "parcel": parcels}))
        if straight:
            return [str(word) for word in found["verdict"]]
        table = pa.concat_tables([unpack(parcel) for parcel in found["parcel"]])
        return [str(word) for word in table["verdict"].to_pylist()]

    one, two, three = (Row(1, "q", 5, n, n - 1) for n in (1, 2, 3))
    assert call([one], 1_000) == ["accept", "order-ack"]
    assert call([three], 1_010) == ["gap", "order-ack"]
    assert call([two, one], 1_020) == ["accept", "duplicate", "order-ack"]
    memory = BucketRecords.read(bytes(tester.peekValueState("memory", 3)[0]), 4)
    assert memory.fields["last"].tolist() == [2]
    assert memory.fields["seen"].tolist() == [1_020]
    assert call([one], 1_120) == ["accept", "order-ack"]
    with pytest.raises(Exception, match="buckets=4"):
        BucketRecords.read(memory.write(4), 5)


def test_mistakes_are_told_before_anything_runs(spark: Any) -> None:
    from onceq.spark.operators import eod_filter

    frame = spark.createDataFrame(table_of([Row(1, "q", 1, 1, 0)], ordered=True))
    faults: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: eod_filter(frame.drop("queue", "seqNumber")), "needs the columns queue .*seqN"),
        (lambda: eod_filter(frame.selectExpr("*", "1 verdict")), "adds the column verdict"),
        (lambda: eod_filter(frame.selectExpr("* except (streamId)", "true streamId")), "cast it"),
        (lambda: eod_filter(frame, order_by="when"), r"order_by needs the column when"),
        (lambda: eod_filter(frame, retire_after_s=60), "345600 or more"),
        (lambda: eod_filter(frame, buckets=0), "buckets is a whole number"),
    )
    for bad, text in faults:
        with pytest.raises(Exception, match=rf"^\[configuration\].*{text}"):
            bad()


def test_a_stream_needs_the_state_store_that_can(spark: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import eod_filter

    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr(
            "'A' sourceMachine", "'q' queue", "1L streamId", "value seqNumber", "value prevNumber"
        )
    )
    with pytest.raises(Exception, match=r"^\[configuration\].*spark\.conf\.set"):
        eod_filter(stream)
