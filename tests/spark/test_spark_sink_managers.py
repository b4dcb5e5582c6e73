"""Writes to two queue managers that run as daemons: one decision, through kills."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.spark.data_source import OnceqDataSource
from tests.spark.conftest import queue_of, token_file

pytestmark = pytest.mark.spark


@pytest.fixture
def queue(daemon: Any, other: Any, request: pytest.FixtureRequest) -> str:
    name = queue_of(request)
    for one in (daemon, other):
        one.manager.create_queue(name, transactional=True)
    return name


def bodies(one: Any, queue: str) -> list[int]:
    try:
        return [int(body) for body in one.manager.peek_many(queue, 10_000).bodies()]
    except ReceiveTimeout:
        return []


def left(one: Any, queue: str) -> list[Any]:
    return [branch for branch in one.manager.admin.branches() if queue in branch["destinations"]]


def check(daemon: Any, other: Any, queue: str, count: int) -> None:
    """Every row once, in order at each, and nothing is left."""
    here, there = bodies(daemon, queue), bodies(other, queue)
    assert sorted(here + there) == list(range(count))
    assert here
    assert there
    assert left(daemon, queue) == left(other, queue) == []


def dying(where: str, flag: Path, pid: int) -> type[OnceqDataSource]:
    """The sink; once, while it commits, the driver fails or the second queue manager is killed."""

    def broken(writer: Any) -> Any:
        commit = writer.commit

        def crash(*arguments: Any) -> None:
            from onceq.spark.sink import writer as module

            sink_many: Any = module
            if flag.exists() and where == "the other is killed":
                flag.unlink()
                told = sink_many.tell

                def tell(*managers: Any) -> None:
                    os.kill(pid, signal.SIGKILL)
                    sink_many.tell = told
                    told(*managers)

                sink_many.tell = tell
            elif flag.exists():
                flag.unlink()

                def dead(*managers: Any) -> None:
                    raise RuntimeError("the driver dies between the decision and the telling")

                told, sink_many.tell = sink_many.tell, dead
                try:
                    commit(*arguments)
                finally:
                    sink_many.tell = told
            commit(*arguments)

        writer.commit = crash
        writer.abort = lambda *arguments: None  # a dead driver calls nothing
        return writer

    class Dying(OnceqDataSource):
        @classmethod
        def name(cls) -> str:
            return f"dying-{len(where)}"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return broken(super().streamWriter(schema, overwrite))

    return Dying


def test_a_batch_write_to_two_queue_managers(
    spark: Any, daemon: Any, other: Any, queue: str, tmp_path: Path
) -> None:
    both = f"{daemon.path},{other.address}"
    shown = token_file(tmp_path, daemon, other)

    def write(rows: Any, **options: object) -> None:
        writer = rows.write.format("onceq").mode("append").option("queueManager", both)
        writer = writer.option("tokenFile", shown)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.save()

    rows = spark.range(0, 1_000, 1, 4).selectExpr("cast(id as string) body")
    for _ in range(2):
        write(rows, queue=queue, txnAppId=queue, txnVersion=0)
    check(daemon, other, queue, 1_000)
    assert bodies(daemon, queue) == [*range(250), *range(500, 750)], "partitions take turns"
    one = spark.createDataFrame(
        [("1000", f"{daemon.path}/{queue}"), ("1001", f"{other.address}/{queue}")],
        "body string, queue string",
    )
    write(one)
    check(daemon, other, queue, 1_002)
    assert (bodies(daemon, queue)[-1], bodies(other, queue)[-1]) == (1_000, 1_001)
    failing = spark.range(2_000, 3_000, 1, 4).selectExpr(
        "if(id = 2999, raise_error('in a row'), cast(id as string)) as body"
    )
    with pytest.raises(Exception, match="in a row"):
        write(failing, queue=queue, txnAppId=queue, txnVersion=1)
    more = spark.range(1_002, 1_102, 1, 4).selectExpr("cast(id as string) body")
    write(more, queue=queue, txnAppId=queue, txnVersion=1)
    check(daemon, other, queue, 1_102)
    assert daemon.manager.admin.decisions() == []


@pytest.mark.parametrize("where", ["the driver dies", "the other is killed"])
def test_a_stream_to_two_queue_managers_through_a_kill(
    spark: Any, daemon: Any, other: Any, queue: str, tmp_path: Path, where: str
) -> None:
    """Between the decision and the telling, where one has its part and one has not."""
    flag = tmp_path / "flag"
    sink = dying(where, flag, other.process.pid)
    spark.dataSource.register(sink)
    (tmp_path / "rows").mkdir()
    count = [0]

    def run() -> None:
        (tmp_path / "rows" / f"{count[0]}.json").write_text(
            "".join(json.dumps({"body": f"{count[0] + n}"}) + "\n" for n in range(100))
        )
        count[0] += 100
        again()

    def again() -> None:
        rows = spark.readStream.schema("body string").json(str(tmp_path / "rows"))
        query = (
            rows.repartition(4).writeStream.format(sink.name())
            .option("queueManager", f"{daemon.path},{other.path}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(queue)
        )  # fmt: skip
        query.awaitTermination()

    def everything() -> list[int]:
        return sorted(bodies(daemon, queue) + bodies(other, queue))

    run()
    assert everything() == list(range(100))
    flag.touch()
    with pytest.raises(Exception, match=r"dies between|service-not-available"):
        run()
    if where == "the other is killed":
        other.process.wait()
        other.start()
    assert set(range(100)) < set(everything()) < set(range(200)), "one has it, one waits"
    again()
    assert everything() == list(range(200))
    run()
    assert everything() == list(range(300))
    assert left(daemon, queue) == left(other, queue) == []
    assert daemon.manager.admin.decisions() == []
