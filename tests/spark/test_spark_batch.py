"""``spark.read.format("onceq")``, as a user sees it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def reader(spark: Any, daemon: Any, **options: object) -> Any:
    made = spark.read.format("onceq").option("queueManager", str(daemon.path))
    for name, value in options.items():
        made = made.option(name, value)
    return made


def test_all_columns_and_nothing_removed(spark: Any, daemon: Any) -> None:
    queue = r"private$\batch"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [b"one", b"two"], label="numbers", app_specific=5)
    rows = reader(spark, daemon).load(queue).orderBy("lookupId").collect()
    message = daemon.manager.peek(queue)
    assert [bytes(row.body) for row in rows] == [b"one", b"two"]
    assert rows[0].label == "numbers"
    assert rows[0].queue == queue
    assert rows[0].lookupId == message.lookup_id
    assert bytes(rows[0].messageId) == message.id.pack()
    assert rows[0].appSpecific == 5
    assert rows[0].arrivedTime is not None
    assert (rows[0].firstInXact, rows[0].lastInXact) == (True, False)
    assert (rows[1].firstInXact, rows[1].lastInXact) == (False, True)
    assert daemon.manager.queue(queue)["messages"] == 2


def test_over_tcp_and_a_system_queue(spark: Any, daemon: Any) -> None:
    frame = spark.read.format("onceq").option("queueManager", daemon.address)
    assert frame.load("SYSTEM$;DEADXACT").count() == 0
    queue = r"private$\tcp"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [b"x"] * 7)
    assert frame.option("queueManager", f"onceq://{daemon.address}").load(queue).count() == 7


def test_columns_partitions_and_offsets(spark: Any, daemon: Any) -> None:
    first, second = r"private$\batch-a", r"private$\batch-b"
    for queue in (first, second):
        daemon.manager.create_queue(queue, transactional=True)
        with daemon.manager.transaction() as tx:
            tx.send_many(queue, [f"{queue} {i}".encode() for i in range(100)])
    frame = (
        reader(spark, daemon, queue=f"{first}, {second}", minPartitions=3)
        .schema("queue string, body binary")
        .load()
    )
    assert frame.columns == ["queue", "body"]
    assert frame.rdd.getNumPartitions() == 3
    bodies = {bytes(row.body).decode() for row in frame.collect()}
    assert bodies == {f"{queue} {i}" for queue in (first, second) for i in range(100)}
    ids = [m.lookup_id for m in daemon.manager.peek_many(first, 100)]
    name = first.replace("\\", "\\\\")
    some = (
        reader(
            spark, daemon, queue=first,
            startingOffsets=f'{{"{name}": {ids[10]}}}', endingOffsets=f'{{"{name}": {ids[12]}}}',
        )
        .schema("lookupId bigint")
        .load()
    )  # fmt: skip
    assert sorted(row.lookupId for row in some.collect()) == ids[10:13]


def test_a_queue_that_is_not_transactional(spark: Any, daemon: Any) -> None:
    queue = r"private$\plain"
    daemon.manager.create_queue(queue)
    for priority in (0, 7, 3):
        daemon.manager.send_many(queue, [f"{priority}".encode()] * 20, priority=priority)
    frame = reader(spark, daemon).schema("priority int, body binary").load(queue)
    assert [row.priority for row in frame.collect()] == [7] * 20 + [3] * 20 + [0] * 20


def test_an_empty_queue_and_a_missing_one(spark: Any, daemon: Any) -> None:
    queue = r"private$\empty"
    daemon.manager.create_queue(queue, transactional=True)
    assert reader(spark, daemon).load(queue).count() == 0
    with pytest.raises(Exception, match=r"\[queue-not-found\]"):
        reader(spark, daemon).load(r"private$\nowhere").count()


@pytest.mark.parametrize(
    ("schema", "words"),
    [("body string", "column body is binary"), ("colour int", "no column 'colour'")],
)
def test_columns_that_cannot_be(spark: Any, daemon: Any, schema: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        reader(spark, daemon).schema(schema).load(r"private$\x").count()


def test_a_wrong_option_is_told_at_once(spark: Any, daemon: Any) -> None:
    with pytest.raises(Exception, match=r"\[configuration\].*did you mean minPartitions"):
        reader(spark, daemon, minPartition=3).load(r"private$\x").count()


def test_nobody_there(spark: Any) -> None:
    with pytest.raises(Exception, match=r"\[service-not-available\].*queue x, .* at 127.0.0.1:9"):
        frame = spark.read.format("onceq").option("queueManager", "127.0.0.1:9")
        frame.option("retryTimeout", "0s").load("x").count()
