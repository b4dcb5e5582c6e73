"""``settle`` in Spark: what became of messages, their acknowledgments, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.files import write_files

pytestmark = pytest.mark.spark

QUEUES = (("DIRECT=OS:B\\t", True, True), ("DIRECT=OS:B\\n", False, False))
SCHEMA = (
    "id int, queue string, transactional boolean, sentTime timestamp, arrivedTime timestamp, "
    "receivedTime timestamp, timeToBeReceived int, acknowledge int, adminQueue string, "
    "journal int, messageId binary, label string, body binary"
)


def at(second: int | None) -> Any:
    from datetime import UTC, datetime

    return None if second is None else datetime.fromtimestamp(1_700_000_000 + second, UTC)


def row(
    number: int, queue: str, transactional: bool, *, received: int | None = None,
    lifetime: int | None = None, journal: int = 3, admin: str | None = "DIRECT=OS:A\\adm",
) -> tuple[Any, ...]:  # fmt: skip
    return (number, queue, transactional, at(0), at(3), at(received), lifetime, 15, admin, journal,
            b"%d" % number, f"label {number}", b"body")  # fmt: skip


ROWS = (
    row(1, "DIRECT=OS:B\\t", True),
    row(2, "direct=os:b/T", True, received=5),
    row(3, "DIRECT=OS:B\\t", True, received=9, lifetime=9),
    row(4, "DIRECT=OS:B\\t", True, lifetime=2),
    row(5, "DIRECT=OS:B\\t", False),
    row(6, "DIRECT=OS:B\\n", True, journal=0),
    row(7, "DIRECT=OS:B\\other", True, admin=None),
    row(8, "DIRECT=OS:B\\n", False, received=4),
)
FOUND = {
    1: ("waiting", 0x0002, [0x0002], None, None, False, False, False),
    2: ("received", 0x4000, [0x0002, 0x4000], 0x4000, None, False, True, True),
    3: ("expired", 0xC002, [0x0002, 0xC002], 0xC002, None, True, False, False),
    4: ("refused", 0x8002, [0x8002], 0x8002, None, True, False, False),
    5: ("refused", 0x800A, [0x800A], None, "DEADLETTER", False, False, False),
    6: ("refused", 0x8009, [0x8009], 0x8009, "DEADXACT", False, False, False),
    7: ("refused", 0x8000, [], 0x8000, None, True, False, False),
    8: ("received", 0x4000, [0x0002, 0x4000], None, None, False, False, False),
}


def table(spark: Any) -> Any:
    return spark.createDataFrame(QUEUES, "queue string, transactional boolean, journal boolean")


def told(frame: Any) -> dict[int, tuple[Any, ...]]:
    from onceq.spark.operators.arrivals import ADDED

    return {row.id: tuple(row[name] for name in ADDED) for row in frame.collect()}


def test_a_frame(spark: Any) -> None:
    from onceq.spark.operators import settle
    from onceq.spark.operators.arrivals import ADDED

    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(2)
    done = settle(frame, table(spark))
    assert done.columns == [*frame.columns, *ADDED]
    assert told(done) == FOUND
    quiet = settle(frame.where("id = 7").drop("adminQueue"), table(spark))
    assert told(quiet)[7][2] == []
    strangers = settle(
        frame.selectExpr("* except (queue)", "'nowhere' queue"), table(spark),
        permit_insecure_nacks=False,
    )  # fmt: skip
    assert {found[1:3] for found in ((f[0], f[1], tuple(f[2])) for f in told(strangers).values())
            } == {(0x8000, ())}  # fmt: skip


def test_only_what_is_needed(spark: Any) -> None:
    """Without the other columns there are no limits and no wishes, and arrival is now."""
    from onceq.spark.operators import settle

    frame = spark.createDataFrame(ROWS, SCHEMA).select("id", "queue", "transactional", "sentTime")
    found = told(settle(frame, table(spark).drop("journal")))
    assert {number: f[0] for number, f in found.items()} == {
        1: "waiting", 2: "waiting", 3: "waiting", 4: "waiting", 5: "refused", 6: "refused",
        7: "refused", 8: "waiting",
    }  # fmt: skip
    assert {tuple(f[2]) for f in found.values()} == {()}


def test_acknowledgment_messages(spark: Any) -> None:
    from onceq.spark.operators import acknowledgment_messages, settle

    frame = spark.createDataFrame(
        [row(2, "DIRECT=OS:B\\t", True, received=5, admin="DIRECT=OS:A\\adm, DIRECT=OS:C\\adm"),
         row(4, "DIRECT=OS:B\\t", True, lifetime=2)], SCHEMA
    )  # fmt: skip
    messages = acknowledgment_messages(settle(frame, table(spark)))
    assert messages.columns == [
        "queue", "messageClass", "responseQueue", "correlationId", "label", "body",
    ]  # fmt: skip
    found = sorted(
        (r.queue, r.messageClass, r.responseQueue, bytes(r.correlationId), r.label,
         r.body and bytes(r.body)) for r in messages.collect()
    )  # fmt: skip
    assert found == [
        ("DIRECT=OS:A\\adm", 0x0002, "DIRECT=OS:B\\t", b"2", "label 2", None),
        ("DIRECT=OS:A\\adm", 0x4000, "DIRECT=OS:B\\t", b"2", "label 2", None),
        ("DIRECT=OS:A\\adm", 0x8002, "DIRECT=OS:B\\t", b"4", "label 4", b"body"),
        ("DIRECT=OS:C\\adm", 0x0002, "DIRECT=OS:B\\t", b"2", "label 2", None),
        ("DIRECT=OS:C\\adm", 0x4000, "DIRECT=OS:B\\t", b"2", "label 2", None),
    ]
    hidden = acknowledgment_messages(
        settle(frame.selectExpr("*", "id = 4 encrypted"), table(spark))
    )
    assert {r.body for r in hidden.where("messageClass >= 32768").collect()} == {None}


def test_a_stream(spark: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import settle

    spark.createDataFrame(ROWS, SCHEMA).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    settle(stream, table(spark)).writeStream.option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).trigger(availableNow=True).format("parquet").start(str(tmp_path / "out")).awaitTermination()
    assert told(spark.read.parquet(str(tmp_path / "out"))) == FOUND


def test_mistakes_are_told_before_anything_runs(spark: Any) -> None:
    from onceq.spark.operators import settle

    frame, queues = spark.createDataFrame(ROWS, SCHEMA), table(spark)
    twice = queues.union(queues.selectExpr("upper(queue)", "transactional", "journal"))
    faults: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: settle(frame.drop("sentTime"), queues), "needs the column sentTime"),
        (lambda: settle(frame.withColumn("journal", frame.label), queues), "journal is string"),
        (lambda: settle(frame.selectExpr("*", "1 result"), queues), "adds the column result"),
        (lambda: settle(frame, queues.drop("transactional")), "table of queues needs the column"),
        (lambda: settle(frame, twice), "table of queues has .* twice"),
        (lambda: settle(frame, queues.selectExpr("queue", "cast(null as boolean) transactional")),
         "does not say transactional"),
        (lambda: settle(frame, limited(spark)), "have no column packetBytes"),
        (lambda: settle(frame, queues.selectExpr("*", "-1L quotaKb")), "quotaKb -1 and"),
        (lambda: settle(frame, queues.selectExpr("*", "'x' usedBytes")), "usedBytes is string"),
        (lambda: settle(frame, queues, order_by="place"), "needs the column place"),
        (lambda: settle(frame, queues, buckets=0), "buckets is a whole number"),
    )  # fmt: skip
    for bad, text in faults:
        with pytest.raises(Exception, match=rf"^\[configuration\].*{text}"):
            bad()


FULL_QUEUE = "DIRECT=OS:B\\full"


def limited(spark: Any) -> Any:
    """The table with a queue of 1 KiB, in which 24 bytes lie already."""
    return spark.createDataFrame(
        [*((*row, None, None) for row in QUEUES), (FULL_QUEUE, True, False, 1, 24)],
        "queue string, transactional boolean, journal boolean, quotaKb bigint, usedBytes bigint",
    )


def to_full(number: int, arrives: int, size: int, received: int | None = None) -> tuple[Any, ...]:
    made = list(row(number, FULL_QUEUE.replace("full", "FULL"), True, received=received, journal=0))
    made[4] = at(arrives)
    return (*made, size)


# 1 and 2 fill the queue, 3 finds no room, and 4 that of 1, which was received at that moment.
SIZED = (
    to_full(1, 3, 600, received=7), to_full(2, 4, 400), to_full(3, 5, 1), to_full(4, 7, 600),
    to_full(5, 8, 1),
)  # fmt: skip
ENDS = {1: 0x4000, 2: 0x0002, 3: 0x8003, 4: 0x0002, 5: 0x8003}
OTHERS = {number + 10: found for number, found in FOUND.items()}


def sized(spark: Any) -> Any:
    others = [(first + 10, *rest, 1 << 40) for first, *rest in ROWS]
    return spark.createDataFrame([*SIZED, *others], f"{SCHEMA}, packetBytes bigint")


def test_quotas(spark: Any) -> None:
    from onceq.spark.operators import settle
    from onceq.spark.operators.arrivals import ADDED

    frame = sized(spark).repartition(3)
    done = settle(frame, limited(spark), buckets=2)
    assert done.columns == [*frame.columns, *ADDED]
    found = told(done)
    assert {number: found.pop(number)[1] for number in ENDS} == ENDS
    assert found == OTHERS, "queues without a quota are as ever"
    backwards = told(settle(frame.selectExpr("*", "-id place"), limited(spark), order_by="place"))
    assert {number: backwards[number][1] for number in ENDS} == {
        5: 0x0002, 4: 0x0002, 3: 0x0002, 2: 0x8003, 1: 0x8003,
    }  # fmt: skip


def test_quotas_know_what_time_it_is(spark: Any) -> None:
    """Also a frame that is no stream: what waits too long expires, what says no time came now."""
    from onceq.spark.operators import settle

    seconds = "cast({} as timestamp)"
    frame = spark.range(4).selectExpr(
        "id", "'DIRECT=OS:B/full' queue", "true transactional", "300L packetBytes",
        f"{seconds.format('unix_seconds(current_timestamp()) - 1000')} sentTime",
        "if(id = 3, null, " + seconds.format("unix_seconds(current_timestamp()) - 999 + id")
        + ") arrivedTime",
        "if(id < 3, 500, 2000) timeToBeReceived",
    )  # fmt: skip
    done = settle(frame, limited(spark), buckets=2).select("id", "result").collect()
    assert dict(done) == {0: "expired", 1: "expired", 2: "expired", 3: "waiting"}


def test_quotas_of_a_stream(rocks: Any, tmp_path: Path) -> None:
    """What one micro-batch stores the next one finds there."""
    from onceq.spark.operators import settle

    frame = sized(rocks)
    write_files(tmp_path / "in", frame.where("id <= 2").toArrow(), frame.where("id > 2").toArrow())
    stream = rocks.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    query = settle(
        stream.parquet(str(tmp_path / "in")), limited(rocks), buckets=2
    ).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(tmp_path / "out"), "parquet").awaitTermination()
    found = told(rocks.read.parquet(str(tmp_path / "out")))
    assert {number: found.pop(number)[1] for number in ENDS} == ENDS
    assert found == OTHERS
