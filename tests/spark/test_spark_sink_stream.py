"""``writeStream.format("onceq")``: each message once in the queue, wherever the driver dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.spark.data_source import OnceqDataSource
from onceq.spark.sink.writer import query_of

pytestmark = pytest.mark.spark
NOW = {"availableNow": True}


class Feed:
    """Files of rows, one for each batch, and the queue that they are to be in."""

    def __init__(self, spark: Any, daemon: Any, queue: str, folder: Path) -> None:
        self.spark, self.daemon, self.queue, self.folder = spark, daemon, queue, folder
        self.checkpoint = folder / "checkpoint"
        self.rows: list[str] = []
        self.files = 0
        (folder / "rows").mkdir()

    def add(self, count: int, **more: str) -> None:
        """Another batch, later than all others."""
        rows = [str(len(self.rows) + n) for n in range(count)]
        self.rows += rows
        path = self.folder / "rows" / f"{self.files}.json"
        path.write_text("".join(json.dumps({"body": row, **more}) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def read(self, schema: str = "body string") -> Any:
        return (
            self.spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "rows"))
        )

    def start(self, frame: Any = None, *, format: str = "onceq", **options: object) -> Any:
        frame = self.read() if frame is None else frame
        writer = (
            frame.writeStream.format(format)
            .option("queueManager", str(self.daemon.path))
            .option("checkpointLocation", str(self.checkpoint))
        )
        for name, value in {"queue": self.queue, **options}.items():
            writer = writer.option(name, value)
        return writer.trigger(**NOW).start()

    def run(self, frame: Any = None, **options: Any) -> str:
        """Everything that is there now; the id of the query."""
        query = self.start(frame, **options)
        query.awaitTermination()
        return str(query.id)

    def fails(self, words: str, frame: Any = None, **options: object) -> str:
        with pytest.raises(Exception, match=words) as failed:
            self.run(frame, **options)
        return str(failed.value)

    def forget_commit(self) -> None:
        """Spark does not know that the last batch is committed: it writes it again."""
        last = max(int(p.name) for p in (self.checkpoint / "commits").iterdir() if p.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def bodies(self) -> list[str]:
        try:
            return [b.decode() for b in self.daemon.manager.peek_many(self.queue, 10_000).bodies()]
        except ReceiveTimeout:
            return []

    def left(self) -> list[Any]:
        branches = self.daemon.manager.admin.branches()
        return [branch for branch in branches if self.queue in branch["destinations"]]

    def check(self) -> None:
        """All rows so far, once and in order, and nothing is left over."""
        assert self.bodies() == self.rows
        assert self.left() == []

    def version(self, app: str) -> int:
        (group,) = [g for g in self.daemon.manager.groups.list() if g["app"] == app]
        return int(group["version"])


@pytest.fixture
def feed(spark: Any, daemon: Any, tmp_path: Path, request: Any) -> Iterator[Feed]:
    queue = "private$\\" + re.sub(r"\W+", "-", request.node.name)[:100]
    daemon.manager.create_queue(queue, transactional=True)
    yield Feed(spark, daemon, queue, tmp_path)
    for query in spark.streams.active:
        query.stop()


def crashing(where: str, flag: Path) -> type:
    """The sink, whose driver fails once around a commit; taken along by value, not by name."""

    def broken(writer: Any) -> Any:
        commit = writer.commit

        def crash(*arguments: Any) -> None:
            if where == "after":
                commit(*arguments)
            if flag.exists():
                flag.unlink()
                raise RuntimeError("the driver dies here")
            if where == "before":
                commit(*arguments)

        writer.commit = crash
        return writer

    class Crashing(OnceqDataSource):
        @classmethod
        def name(cls) -> str:
            return f"crashing-{where}"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return broken(super().streamWriter(schema, overwrite))

    return Crashing


def test_every_batch_once_and_the_name_is_the_query(feed: Feed) -> None:
    for _ in range(3):
        feed.add(10)
    query = feed.run()
    feed.check()
    assert feed.version(f"query:{query}") == 2
    feed.add(5)
    assert feed.run() == query
    feed.check()
    feed.run()
    feed.check()


@pytest.mark.parametrize("app", ["", "pipeline"])
def test_a_batch_that_is_written_twice(feed: Feed, app: str) -> None:
    more = {"txnAppId": f"{app}-{feed.queue}"} if app else {}
    feed.add(10)
    feed.run(**more)
    for _ in range(2):
        feed.forget_commit()
        feed.run(**more)
        feed.check()
    feed.add(7)
    feed.forget_commit()
    feed.run(**more)
    feed.check()


@pytest.mark.parametrize("where", ["before", "after"])
def test_the_driver_dies_around_a_commit(feed: Feed, where: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    feed.spark.dataSource.register(crashing(where, flag))
    for _ in range(2):
        feed.add(10)
        flag.touch()
        feed.fails("the driver dies here", format=f"crashing-{where}")
        assert len(feed.bodies()) == len(feed.rows) - (10 if where == "before" else 0)
        feed.run()
        feed.check()


def test_a_row_that_fails_undoes_its_batch(feed: Feed) -> None:
    feed.add(6)
    bad = "if(body = '5', raise_error('in a row'), body) as body"
    feed.fails("in a row", feed.read().repartition(3).selectExpr(bad))
    assert feed.bodies() == []
    feed.run()
    feed.add(1)
    feed.run()
    feed.check()


def test_a_refused_row_fails_the_batch_or_goes_to_the_error_queue(feed: Feed) -> None:
    feed.add(3)
    feed.add(2, queue=r"private$\no-such-queue")
    feed.add(3)
    rows = feed.read("body string, queue string").fillna({"queue": feed.queue})
    said = feed.fails(r"\[queue-not-found\] HUB: rows 0 to 1 of partition 0", rows, queue="")
    assert "no-such-queue" in said
    assert feed.bodies() == ["0", "1", "2"]
    errors = feed.queue + "-errors"
    feed.daemon.manager.create_queue(errors, transactional=True)
    for _ in range(2):
        feed.run(rows, queue="", errorQueue=errors)
        assert feed.bodies() == ["0", "1", "2", "5", "6", "7"]
        assert list(feed.daemon.manager.peek_many(errors).bodies()) == [b"3", b"4"]
        feed.forget_commit()


def test_a_name_with_a_new_checkpoint_is_refused(feed: Feed) -> None:
    """Otherwise everything up to the old number would be skipped without a word."""
    app = f"constant-{feed.queue}"
    feed.add(4)
    feed.run(txnAppId=app)
    feed.checkpoint = feed.folder / "another"
    said = feed.fails(r"\[group-of-another-query\]", txnAppId=app)
    assert "versions begin again" in said
    assert feed.bodies() == feed.rows
    feed.daemon.manager.groups.forget(app)
    feed.run(txnAppId=app)
    assert feed.bodies() == feed.rows * 2


def test_for_each_batch_with_files_beside(feed: Feed, tmp_path: Path) -> None:
    """The queue and the files have each batch once, though the batch is written twice."""
    out, app = tmp_path / "out", f"each-{feed.queue}"

    def write(frame: Any, batch: int) -> None:
        frame.persist()
        frame.write.mode("overwrite").parquet(f"{out}/batch={batch}")
        writer = frame.write.format("onceq").mode("append").option("queue", feed.queue)
        writer = writer.option("queueManager", str(feed.daemon.path))
        writer.option("txnAppId", app).option("txnVersion", batch).save()
        frame.unpersist()

    def run() -> None:
        writer = feed.read().writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(feed.checkpoint))
        writer.trigger(**NOW).start().awaitTermination()

    for _ in range(2):
        feed.add(5)
        run()
        feed.forget_commit()
        run()
        feed.check()
        rows = feed.spark.read.parquet(str(out)).orderBy("batch").collect()
        assert sorted(int(row.body) for row in rows) == list(range(len(feed.rows)))
    assert feed.version(app) == 1
    feed.checkpoint = feed.folder / "another"
    with pytest.raises(Exception, match=r"\[group-of-another-query\]"):
        run()
    feed.check()


def test_an_aborted_query_finds_its_name_in_the_checkpoint(feed: Feed, tmp_path: Path) -> None:
    feed.add(2)
    query = feed.run()
    assert query_of(str(feed.checkpoint)) == query
    assert query_of(f"file://{feed.checkpoint}") == query
    for other in ("", "hdfs://host/x", str(tmp_path / "nowhere")):
        assert query_of(other) == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"txnVersion": "3"}, "have numbers of their own"),
        ({"queue": ""}, "say where the rows go"),
        ({"queueManager": " "}, "say where the queue manager is"),
        ({"txnAppIdd": "x"}, "did you mean txnAppId"),
    ],
)
def test_options_are_checked_at_the_start(
    feed: Feed, options: dict[str, object], words: str
) -> None:
    feed.add(1)
    feed.fails(words, **options)
    assert feed.bodies() == []


@pytest.mark.slow
def test_the_queue_manager_is_killed_between_batches(feed: Feed) -> None:
    feed.add(5)
    feed.run()
    feed.daemon.kill()
    feed.daemon.start()
    feed.forget_commit()
    feed.add(5)
    feed.run()
    feed.check()


def killing(pid: int, flag: Path, row: str) -> Any:
    """A function of rows; at one of them it kills a process, once."""
    from pyspark.sql.functions import udf

    @udf("string")  # type: ignore[untyped-decorator]
    def kill(body: str) -> str:
        if body == row and flag.exists():
            flag.unlink()
            os.kill(pid, signal.SIGKILL)
        return body

    return kill("body").alias("body")


@pytest.mark.slow
def test_the_queue_manager_is_killed_and_back_while_tasks_stage(feed: Feed, tmp_path: Path) -> None:
    """The query lives: ``local[2]`` tries no task again."""
    feed.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    feed.add(200)
    flag = tmp_path / "flag"
    flag.touch()
    process = feed.daemon.process

    def back() -> None:
        process.wait()
        feed.daemon.start()

    again = threading.Thread(target=back)
    again.start()
    try:
        feed.run(feed.read().select(killing(process.pid, flag, "150")))
    finally:
        feed.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        if flag.exists():
            feed.daemon.kill()
        again.join()
    assert not flag.exists()
    feed.check()


DRIVER = """
import os, sys
from onceq.spark.runtime import QUICK, prepare
prepare()
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
where, queue, rows, checkpoint, flags = sys.argv[1:]
builder = SparkSession.builder.master("local[2,4]")  # not a quiet one: workers shall be heard
for name, value in {**QUICK, "spark.ui.enabled": "false", "spark.log.level": "OFF",
                    "spark.driver.host": "127.0.0.1",
                    "spark.sql.warehouse.dir": checkpoint + "-warehouse"}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
@udf("string")
def once(body):
    # The last row of each file fails in its first attempt; the others were sent by then.
    flag = os.path.join(flags, body)
    if int(body) % 50 == 49 and not os.path.exists(flag):
        open(flag, "w").close()
        raise RuntimeError("this attempt fails")
    if body == "149":
        print("stuck", flush=True)
        import time
        time.sleep(600)
    return body
frame = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).json(rows)
(frame.select(once("body").alias("body")).writeStream.format("onceq")
 .option("queueManager", where).option("queue", queue).option("checkpointLocation", checkpoint)
 .trigger(availableNow=True).start().awaitTermination())
"""


@pytest.mark.slow
def test_tasks_are_tried_again_and_the_driver_is_killed(feed: Feed, tmp_path: Path) -> None:
    """Each batch has a task that fails once; in the third one the driver dies at work."""
    for _ in range(3):
        feed.add(50)
    flags = tmp_path / "flags"
    flags.mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(feed.daemon.path), feed.queue,
         str(feed.folder / "rows"), str(feed.checkpoint), str(flags)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert driver.stdout is not None
    for line in driver.stdout:
        if "stuck" in line:
            break
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert sorted(path.name for path in flags.iterdir()) == ["149", "49", "99"]
    assert feed.bodies() == feed.rows[:100]
    feed.add(10)
    feed.run()
    feed.check()
