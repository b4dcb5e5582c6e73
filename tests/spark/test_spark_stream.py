"""``spark.readStream.format("onceq")``: each message in one batch, also through crashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ReceiveTimeout, SharingViolation
from tests.spark.stream_driver import DRIVER, Crash, kill_group
from tests.spark.waiting import until

pytestmark = pytest.mark.spark

SCHEMA = "lookupId bigint, body binary"


class Flow:
    """One queue, one checkpoint, and what every batch has had, by batch number."""

    def __init__(self, spark: Any, daemon: Any, queue: str, checkpoint: Path) -> None:
        self.spark = spark
        self.daemon = daemon
        self.queue = queue
        self.checkpoint = checkpoint
        self.batches: dict[int, list[str]] = {}
        self.hook: Callable[[int], None] = lambda batch: None
        self._sent = 0

    def send(self, count: int) -> None:
        """One transaction of so many messages, numbered on."""
        with self.daemon.manager.transaction() as tx:
            tx.send_many(self.queue, [f"{self._sent + i}".encode() for i in range(count)])
        self._sent += count

    def take(self, count: int) -> list[str]:
        """What somebody else receives: as soon as the process of a query that has ended is gone,
        which keeps the queue until then."""
        taken: list[Any] = []

        def free() -> bool:
            try:
                taken.extend(self.daemon.manager.receive_many(self.queue, count, timeout=0))
            except SharingViolation:
                return False
            return True

        until(free)
        return [message.text for message in taken]

    @property
    def left(self) -> int:
        """Messages in the queue."""
        count: int = self.daemon.manager.queue(self.queue)["messages"]
        return count

    def start(self, trigger: dict[str, object], **options: object) -> Any:
        """Begin a query, or go on with it."""
        source = (
            self.spark.readStream.format("onceq")
            .schema(SCHEMA)
            .option("queueManager", str(self.daemon.path))
            .option("queue", self.queue)
        )
        for name, value in options.items():
            source = source.option(name, value)
        return (
            source.load()
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def run(self, **options: object) -> None:
        """Everything that is there now."""
        query = self.start({"availableNow": True}, **options)
        query.awaitTermination()

    def _write(self, frame: Any, batch: int) -> None:
        rows = [bytes(row.body).decode() for row in frame.orderBy("lookupId").collect()]
        if batch in self.batches:
            assert rows == self.batches[batch], "a batch must have the same rows each time"
        self.batches[batch] = rows
        self.hook(batch)

    @property
    def rows(self) -> list[str]:
        """What all batches together have had."""
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def check(self, count: int) -> None:
        """All batches together are the first so many messages, once and in order."""
        assert self.rows == [f"{i}" for i in range(count)]


@pytest.fixture
def flow(spark: Any, daemon: Any, tmp_path: Path, request: Any) -> Iterator[Flow]:
    queue = "private$\\" + request.node.name.replace("[", "-").replace("]", "")
    daemon.manager.create_queue(queue, transactional=True)
    yield Flow(spark, daemon, queue, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


def crash_in(batch: int) -> Callable[[int], None]:
    def hook(number: int) -> None:
        if number == batch:
            raise Crash(f"in batch {number}")

    return hook


def test_everything_once_and_then_removed(flow: Flow) -> None:
    flow.send(100)
    flow.run(maxMessagesPerTrigger=30)
    assert [len(rows) for rows in flow.batches.values()] == [30, 30, 30, 10]
    flow.check(100)
    assert flow.left == 0


def test_a_restart_goes_on_where_it_was(flow: Flow) -> None:
    flow.send(10)
    flow.run()
    flow.send(15)
    flow.run()
    flow.run()
    flow.check(25)
    assert len(flow.batches) == 2


@pytest.mark.parametrize("batch", [0, 2])
def test_a_batch_that_must_be_repeated_has_the_same_rows(flow: Flow, batch: int) -> None:
    flow.send(40)
    flow.hook = crash_in(batch)
    with pytest.raises(Exception, match="in batch"):
        flow.run(maxMessagesPerTrigger=10)
    assert flow.left == 40 - 10 * batch
    flow.send(20)
    flow.hook = lambda batch: None
    flow.run(maxMessagesPerTrigger=25)
    flow.check(60)
    assert flow.left == 0


def test_only_what_is_new(flow: Flow) -> None:
    """With startingOffsets latest a crash must not move the beginning."""
    flow.send(5)
    flow.run(startingOffsets="latest")
    assert flow.rows == []
    flow.send(7)
    flow.hook = crash_in(1)
    with pytest.raises(Exception, match="in batch"):
        flow.run(startingOffsets="latest")
    flow.send(3)
    flow.hook = lambda batch: None
    flow.run(startingOffsets="latest")
    assert flow.rows == [f"{i}" for i in range(5, 15)]


def test_what_comes_later_is_not_of_this_run(flow: Flow) -> None:
    flow.send(20)
    flow.hook = lambda batch: flow.send(5)
    flow.run(maxMessagesPerTrigger=10)
    flow.check(20)
    assert flow.left == 10


def test_bytes_limit_a_batch(flow: Flow) -> None:
    size = 4_000
    with flow.daemon.manager.transaction() as tx:
        tx.send_many(flow.queue, [b"x" * size] * 10)
    flow.run(maxBytesPerTrigger=3 * (size + 400))
    assert [len(rows) for rows in flow.batches.values()] == [3, 3, 3, 1]
    with flow.daemon.manager.transaction() as tx:
        tx.send(flow.queue, b"x" * size)
    flow.run(maxBytesPerTrigger=10)
    assert len(flow.batches[4]) == 1


def test_peek_leaves_everything(flow: Flow) -> None:
    flow.send(30)
    flow.run(readMode="peek", maxMessagesPerTrigger=20)
    flow.send(5)
    flow.run(readMode="peek")
    flow.check(35)
    assert flow.left == 35


def test_an_empty_queue_and_a_running_query(flow: Flow) -> None:
    flow.run()
    assert flow.rows == []
    query = flow.start({"processingTime": "0 seconds"})
    query.processAllAvailable()
    flow.send(8)
    query.processAllAvailable()
    flow.send(4)
    query.processAllAvailable()
    flow.check(12)
    with pytest.raises(SharingViolation):
        flow.daemon.manager.receive(flow.queue, timeout=0)
    query.stop()
    # What the last batch had goes when the next one is asked for, at the latest at a restart.
    flow.run()
    with pytest.raises(ReceiveTimeout):
        flow.daemon.manager.receive(flow.queue, timeout=0)


@pytest.mark.parametrize("fail", [True, False])
def test_messages_that_somebody_else_took(flow: Flow, fail: bool) -> None:
    flow.send(20)
    flow.hook = crash_in(1)
    with pytest.raises(Exception, match="in batch"):
        flow.run(maxMessagesPerTrigger=10)
    flow.hook = lambda batch: None
    assert flow.take(3) == ["10", "11", "12"]
    if fail:
        with pytest.raises(Exception, match=r"\[messages-missing\].*failOnDataLoss"):
            flow.run()
        return
    del flow.batches[1]
    flow.run(failOnDataLoss="false")
    assert flow.batches[1] == [f"{i}" for i in range(13, 20)]
    assert flow.left == 0


def test_a_locked_message_is_waited_for(flow: Flow) -> None:
    flow.send(6)
    tx = flow.daemon.manager.transaction()
    assert tx.receive(flow.queue, timeout=0).body == b"0"
    flow.run(readMode="peek")
    assert flow.rows == []
    tx.abort()
    flow.run(readMode="peek")
    flow.check(6)


def test_a_queue_made_again_is_another_one(flow: Flow) -> None:
    flow.send(5)
    flow.run()
    flow.daemon.manager.delete_queue(flow.queue)
    flow.daemon.manager.create_queue(flow.queue, transactional=True)
    flow.send(5)
    with pytest.raises(Exception, match="deleted and made again"):
        flow.run()
    assert flow.left == 5


def test_a_checkpoint_serves_one_subscription(flow: Flow) -> None:
    flow.send(5)
    flow.run(subscription="one")
    with pytest.raises(Exception, match="belongs to subscription 'one'"):
        flow.run(subscription="two")
    flow.run(subscription="one")
    flow.check(5)


def test_a_stream_needs_a_transactional_queue(spark: Any, daemon: Any, tmp_path: Path) -> None:
    queue = r"private$\not-for-streams"
    daemon.manager.create_queue(queue)
    with pytest.raises(Exception, match="needs a transactional queue"):
        Flow(spark, daemon, queue, tmp_path / "checkpoint").run()


def test_two_queues_in_one_stream(spark: Any, daemon: Any, tmp_path: Path) -> None:
    names = [r"private$\two-a", r"private$\two-b"]
    for name in names:
        daemon.manager.create_queue(name, transactional=True)
        with daemon.manager.transaction() as tx:
            tx.send_many(name, [f"{i}".encode() for i in range(10)])
    flow = Flow(spark, daemon, ",".join(names), tmp_path / "checkpoint")
    flow.run(maxMessagesPerTrigger=8)
    assert sorted(flow.rows) == sorted(f"{i}" for i in range(10) for _ in names)
    assert all(daemon.manager.queue(name)["messages"] == 0 for name in names)


@pytest.mark.slow
def test_the_queue_manager_is_killed_on_the_way(flow: Flow) -> None:
    flow.send(40)

    def hook(batch: int) -> None:
        if batch == 1:
            flow.daemon.kill()
            flow.daemon.start()

    flow.hook = hook
    flow.run(maxMessagesPerTrigger=10)
    flow.check(40)
    assert flow.left == 0


@pytest.mark.slow
def test_a_driver_is_killed_between_writing_and_committing(flow: Flow, tmp_path: Path) -> None:
    """SIGKILL after batch 1 was written and before Spark knew: it must come again, the same."""
    flow.send(35)
    out = tmp_path / "out"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(flow.daemon.path), flow.queue, str(flow.checkpoint),
         str(out)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert driver.stdout is not None
    assert [driver.stdout.readline() for _ in range(2)] == ["batch 0\n", "batch 1\n"]
    kill_group(driver)
    assert flow.left == 25
    for batch in (0, 1):
        frame = flow.spark.read.parquet(str(out / f"batch={batch}"))
        rows = frame.orderBy("lookupId").collect()
        flow.batches[batch] = [bytes(row.body).decode() for row in rows]
    flow.send(5)
    flow.run(maxMessagesPerTrigger=10)
    flow.check(40)
    assert flow.left == 0
