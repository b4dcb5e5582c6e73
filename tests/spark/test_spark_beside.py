"""``number`` and ``settle`` on frames whose rows stay in Spark: as decided row by row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.property import plain_operators as plain
from tests.property.plain_operators import outcome, table_of, told

pytestmark = pytest.mark.spark

SEEDS = range(24)
BODY = b"a body that has no say in anything"


def with_bodies(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    table = table_of(rows, [name for name in rows[0] if name != "streamId"])
    if "streamId" in rows[0]:
        table = table.append_column("streamId", pa.array([r["streamId"] for r in rows]))
    return table.append_column("body", pa.array([BODY] * len(rows), pa.binary()))


def worlds(make: Any) -> Iterator[tuple[random.Random, list[dict[str, Any]]]]:
    for seed in SEEDS:
        rng = random.Random(seed)
        yield rng, make(rng, seed)


def test_numbers(spark: Any) -> None:
    """After a table, with acknowledgments; every key in a world of its own."""
    from onceq.spark.operators import number

    rows: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    acks: list[dict[str, Any]] = []
    for rng, made in worlds(lambda rng, seed: plain.commits(rng, str(seed))):
        half = [row for row in made if (row["commitOrder"] or 0) < 5]
        known = [r for r in plain.numbered(half, [], [], 76) if r["seqNumber"] is not None]
        known = known if rng.random() < 0.6 else []
        rows, before, acks = rows + made, before + known, acks + plain.heard(rng, known)
    frame = spark.createDataFrame(with_bodies(rows)).repartition(3)
    table = spark.createDataFrame(
        table_of(before, [name for name in before[0] if name != "prevNumber"])
    )
    heard = spark.createDataFrame(table_of(acks, list(acks[0])))
    for after, acknowledgments in ((None, None), (table, None), (table, heard)):
        done = number(frame, after=after, acknowledgments=acknowledgments, stamp=77, buckets=5)
        assert done.columns == [*frame.columns, "streamId", "seqNumber", "prevNumber"]
        found = [row.asDict() for row in done.collect()]
        assert {bytes(row["body"]) for row in found} == {BODY}
        heard_of = acks if acknowledgments is not None else []
        theirs = plain.numbered(rows, heard_of, before if after is not None else [], 77)
        assert told(found) == told(theirs)


@pytest.mark.parametrize("lookups", [True, False], ids=["lookups", "streams"])
def test_quotas(spark: Any, lookups: bool) -> None:
    from onceq.spark.operators import settle

    rows: list[dict[str, Any]] = []
    queues: list[plain.Queue] = []
    for rng, made in worlds(lambda rng, seed: plain.arrivals(rng, seed, lookups=lookups)):
        seed = len(queues) // 5
        rows, queues = rows + made, queues + plain.queues(rng, str(seed))
    table = spark.createDataFrame(
        [(q.name, q.transactional, None if q.quota is None else q.quota >> 10, q.used)
         for q in queues],
        "queue string, transactional boolean, quotaKb bigint, usedBytes bigint",
    )  # fmt: skip
    frame = spark.createDataFrame(with_bodies(rows)).repartition(3)
    done = settle(frame, table)
    found = [row.asDict() for row in done.collect()]
    assert {bytes(row["body"]) for row in found} == {BODY}
    theirs = plain.settled(rows, queues, int(time.time()))
    assert outcome(found) == theirs
    # Spark would bring filters before the rows are decided, and leave out what orders them.
    refused = {row["id"] for row in found if row["messageClass"] == 0x8003}
    later = done.where("messageClass = 32771 and packetBytes > 0").orderBy("id").select("id")
    sizes = {row["id"]: row["packetBytes"] or 0 for row in rows}
    assert [r.id for r in later.collect()] == sorted(one for one in refused if sizes[one] > 0)
    assert done.where("result = 'refused'").count() == sum(
        end == "refused" for end, _ in theirs.values()
    )


def test_many_rows_of_one_stream(spark: Any) -> None:
    """More than are decided at one time; nine in ten of one stream, mixed, and some twice."""
    from pyspark.sql import functions as sql

    from onceq.spark.operators import number

    count = 300_000
    mixed = spark.range(count).withColumn("n", sql.expr(f"pmod(id * 7919, {count})"))
    rows = mixed.selectExpr(
        "if(n % 10 = 0, concat('Sender ', n % 70), if(n % 3 = 0, 'ONE', 'one')) sourceMachine",
        "'DIRECT=OS:B\\\\q' queue", "n commitOrder", "0 sendOrder", "n",
    )  # fmt: skip
    done = number(rows.union(rows.where("n % 100 = 7")), stamp=7)
    numbered = done.where("seqNumber is not null").orderBy("n")
    lone = numbered.where("lower(sourceMachine) = 'one'").select("n", "seqNumber").toArrow()
    assert lone["seqNumber"].to_pylist() == list(range(1, count * 9 // 10 + 1))
    assert lone["n"].to_pylist() == [n for n in range(count) if n % 10]
    assert numbered.where("lower(sourceMachine) <> 'one'").count() == count // 10
    assert done.where("seqNumber is null").count() == count // 100


def test_many_rows_of_one_queue(spark: Any) -> None:
    """A queue with room for ten messages, each of which stays for twenty arrivals: ten enter, ten
    do not, and so on, over all pages."""
    from onceq.spark.operators import settle

    count = 200_000
    second = "timestamp_millis(1700000000000 + {} * 10)"
    rows = spark.range(count).selectExpr(
        f"pmod(id * 7919, {count}) n"
    ).selectExpr(
        "n", "'DIRECT=OS:B/Q' queue", "true transactional", "1024 packetBytes",
        f"{second.format('n')} sentTime", f"{second.format('n')} arrivedTime",
        f"{second.format('(n + 20)')} receivedTime",
    )  # fmt: skip
    table = spark.createDataFrame(
        [("direct=os:b\\q", True, 10)], "queue string, transactional boolean, quotaKb bigint"
    )
    done = settle(rows, table).where("result = 'received'").select("n").orderBy("n").toArrow()
    assert done["n"].to_pylist() == [n for n in range(count) if n % 20 < 10]


def test_a_frame_that_is_never_twice_the_same(spark: Any) -> None:
    """Rows and what is decided of them are of one reading: they stand side by side in it."""
    from onceq.spark.operators import number, settle

    drawn = spark.range(2_000).selectExpr(
        "concat('sender ', cast(rand() * 20 as int)) sourceMachine", "'q' queue",
        "cast(rand() * 1000 as bigint) commitOrder", "cast(rand() * 1000 as int) sendOrder",
    )  # fmt: skip
    rows = [row.asDict() for row in number(drawn, stamp=7).collect()]
    assert told(rows) == told(plain.numbered(rows, [], [], 7))
    sized = spark.range(2_000).selectExpr(
        "id", "'q' queue", "rand() < 0.9 transactional", "cast(rand() * 3000 as int) packetBytes",
        "timestamp_seconds(1700000000) sentTime",
        "timestamp_micros(1700000000000000 + cast(rand() * 1e15 as bigint)) arrivedTime",
        "cast(null as timestamp) receivedTime",
    )  # fmt: skip
    table = spark.createDataFrame(
        [("q", True, 100)], "queue string, transactional boolean, quotaKb bigint"
    )
    found = [row.asDict() for row in settle(sized, table).collect()]
    for row in found:
        row |= dict.fromkeys(("timeToReachQueue", "timeToBeReceived", "encrypted"))
        row |= {"lookupId": 0, "sentTime": int(row["sentTime"].timestamp()) * 1_000_000}
        row["arrivedTime"] = round(row["arrivedTime"].timestamp() * 1_000_000)
    queues = [plain.Queue("q", True, 100 << 10, 0)]
    assert outcome(found) == plain.settled(found, queues, int(time.time()))


def test_columns_of_any_names_come_through(spark: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import number, settle

    frame = spark.sql(
        "select 'A' sourceMachine, 'q' queue, 1 commitOrder, 0 sendOrder, true transactional, "
        "timestamp_seconds(1) sentTime, 9 packetBytes, 5 `a.b`, 6 `A.B`, 8 Queue, 9 `tick``ed`, "
        "10 c1, array(named_struct('x', 1)) many"
    )
    table = spark.createDataFrame([("q", True, 1)], "queue string, transactional boolean, "
                                  "quotaKb int")  # fmt: skip
    (row,) = number(frame, stamp=7).collect()
    assert tuple(row) == (*frame.collect()[0], str(7 << 32 | 1), 1, 0)
    (row,) = settle(frame, table).collect()
    assert tuple(row)[: len(frame.columns)] == tuple(frame.collect()[0])
    assert tuple(row)[len(frame.columns) :] == (
        "waiting", 2, [], None, None, False, False, False,
    )  # fmt: skip
