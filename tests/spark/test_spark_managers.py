"""One reader of queues on many queue managers: the same names, and often the same places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ConfigurationError, MessagesMissing, ServiceNotAvailable
from onceq.spark.source.options import parse

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.streaming.datasource import ReadMaxRows

from onceq.spark.source.offsets import lag
from onceq.spark.source.reader import OnceqReader
from tests.spark.conftest import queue_of
from tests.spark.driver import NAMES, send


@pytest.fixture
def queue(daemon: Any, other: Any, request: pytest.FixtureRequest) -> str:
    """A queue of the same name on both, with four messages each at the same places."""
    name = queue_of(request)
    for hub in (daemon, other):
        hub.manager.create_queue(name, transactional=True)
        send(hub, name, *[f"{hub.name} {i}" for i in range(4)])
    return name


def left(queue: str, *hubs: Any) -> list[int]:
    """Messages that the queue has on each."""
    return [hub.manager.queue(queue)["messages"] for hub in hubs]


def test_a_batch_of_both(daemon: Any, other: Any, queue: str, drivers: Any) -> None:
    driver = drivers(f"{daemon.address}, {other.address}", queue=queue)
    keys = [f"{hub.address}/{queue}" for hub in (daemon, other)]
    start = driver.first()
    end = driver.after(start, ReadMaxRows(6))
    assert list(end["messages"].values()) == [3, 3]
    assert set(end["names"].values()) == set(keys)
    rows = driver.rows(start, end)
    assert {(row["queueManager"], row["queue"], row["body"].decode()) for row in rows} == {
        (hub.name, queue, f"{hub.name} {i}") for hub in (daemon, other) for i in range(3)
    }
    assert len(rows) == 6
    latest = driver.reader.reportLatestOffset()
    progress = {"sources": [{"endOffset": end, "latestOffset": latest}]}
    assert lag(progress) == dict.fromkeys(keys, 1)
    assert left(queue, daemon, other) == [4, 4]
    later = driver.after(end)
    assert left(queue, daemon, other) == [1, 1]
    assert sorted(driver.bodies(end, later)) == ["HUB 3", "SPOKE 3"]
    assert driver.after(later) == later
    assert left(queue, daemon, other) == [0, 0]


def test_a_crash_between_two_removals(
    daemon: Any, other: Any, queue: str, drivers: Any, monkeypatch: Any
) -> None:
    """There is no transaction over both: what was removed on one of them only is gone on with."""
    where = f"{daemon.address},{other.address}"
    driver = drivers(where, queue=queue)
    start = driver.first()
    end = driver.after(start)
    access = driver.reader._queues.accesses[other.address]

    def crash(*args: object) -> list[int]:
        raise MemoryError

    monkeypatch.setattr(access, "remove", crash)
    with pytest.raises(MemoryError):
        driver.after(end)
    assert left(queue, daemon, other) == [0, 4]
    driver.reader.stop()
    again = drivers(where, queue=queue)
    assert again.after(end) == end
    assert left(queue, daemon, other) == [0, 0]


def test_one_of_many_has_it_alone(daemon: Any, other: Any, queue: str, drivers: Any) -> None:
    """An entry may name its queue manager; few messages of many queues are one task."""
    more = queue + "-more"
    daemon.manager.create_queue(more, transactional=True)
    send(daemon, more, "more")
    where = f"{daemon.address},{other.address}"
    driver = drivers(where, queue=f"{queue}, {daemon.address}/{more}", readMode="peek")
    start = driver.first()
    end = driver.after(start)
    assert set(end["names"].values()) == {
        f"{daemon.address}/{queue}", f"{daemon.address}/{more}", f"{other.address}/{queue}"
    }  # fmt: skip
    assert len(driver.reader.partitions(start, end)) == 1
    assert len(driver.rows(start, end)) == 9


def test_more_queue_managers_than_tasks_in_a_batch_read(
    daemon: Any, other: Any, queue: str
) -> None:
    given = {"queueManager": f"{daemon.address},{other.path}", "queue": queue}
    reader = OnceqReader(parse(given, stream=False), NAMES)
    (task,) = reader.partitions()
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["body"].decode() for row in rows] == [
        f"{hub.name} {i}" for hub in (daemon, other) for i in range(4)
    ]
    url = {"queue": f"onceq://{other.address}/{queue}", "minPartitions": "2"}
    reader = OnceqReader(parse(url, stream=False), NAMES)
    tasks = reader.partitions()
    assert [len(batch) for task in tasks for batch in reader.read(task)] == [2, 2]


def test_one_that_is_away_is_named(daemon: Any, queue: str, drivers: Any) -> None:
    driver = drivers(f"{daemon.address},127.0.0.1:9", queue=queue, numRetries=1)
    with pytest.raises(ServiceNotAvailable) as failed:
        driver.first()
    assert (
        f"(queue {queue}, queue manager at 127.0.0.1:9, tried 2 times in 0 s)" in failed.value.text
    )


def test_one_that_comes_back_is_gone_on_with(
    daemon: Any, other: Any, queue: str, drivers: Any
) -> None:
    """Killed in the middle of a batch, and started again while the reader still tries."""
    where = f"{daemon.path},{other.path}"
    driver = drivers(where, queue=queue)
    start = driver.first()
    end = driver.after(start)
    other.kill()
    other.start()
    assert len(driver.bodies(start, end)) == 8
    assert driver.after(end) == end
    assert left(queue, daemon, other) == [0, 0]


def test_a_connection_that_broke_while_nobody_looked_costs_no_attempt(
    daemon: Any, other: Any, queue: str, drivers: Any
) -> None:
    driver = drivers(other.path, queue=queue, numRetries=0)
    start = driver.first()
    end = driver.after(start)
    for _ in range(2):
        other.kill()
        other.start()
        assert len(driver.bodies(start, end)) == 4
    assert driver.after(end) == end
    assert left(queue, other) == [0]


def test_executors_may_have_other_addresses(
    daemon: Any, other: Any, queue: str, drivers: Any
) -> None:
    where = f"{daemon.address},{other.address}"
    driver = drivers(where, queue=queue, executorQueueManager=f"{daemon.path},{other.path}")
    start = driver.first()
    assert len(driver.rows(start, driver.after(start))) == 8
    driver.reader.stop()
    crossed = drivers(where, queue=queue, executorQueueManager=f"{other.path},{daemon.path}")
    end = crossed.after(start)
    with pytest.raises(ConfigurationError, match="is not the one at"):
        crossed.rows(start, end)


def test_an_address_that_leads_elsewhere(daemon: Any, other: Any, queue: str, drivers: Any) -> None:
    """The queue has the same name and the same places there, and is another one all the same."""
    driver = drivers(daemon.address, queue=queue)
    end = driver.after(driver.first())
    driver.reader.stop()
    moved = drivers(other.address, queue=queue)
    with pytest.raises(MessagesMissing, match="another queue manager answers"):
        moved.after(end)
    assert left(queue, daemon, other) == [4, 4]


@pytest.mark.spark
def test_through_spark_with_a_crash(
    spark: Any, daemon: Any, other: Any, queue: str, tmp_path: Path
) -> None:
    from tests.spark.stream_driver import Crash

    seen: dict[int, list[str]] = {}
    fail = True

    def write(frame: Any, batch: int) -> None:
        rows = sorted(f"{row.queueManager} {bytes(row.body).decode()}" for row in frame.collect())
        assert seen.setdefault(batch, rows) == rows
        if fail and batch == 1:
            raise Crash("in batch 1")

    def run() -> None:
        query = (
            spark.readStream.format("onceq").schema("queueManager string, body binary")
            .option("queueManager", f"{daemon.address},{other.address}").option("queue", queue)
            .option("maxMessagesPerTrigger", 4).load()
            .writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    with pytest.raises(Exception, match="in batch 1"):
        run()
    fail = False
    run()
    assert [len(rows) for rows in seen.values()] == [4, 4]
    assert sorted(row for rows in seen.values() for row in rows) == sorted(
        f"{hub.name} {hub.name} {i}" for hub in (daemon, other) for i in range(4)
    )
    assert left(queue, daemon, other) == [0, 0]
