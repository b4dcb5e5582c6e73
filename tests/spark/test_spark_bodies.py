"""Behind the source: bodies as columns, progress, plans, and connections that do not stay."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from tests.spark.waiting import until

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, price double"


def frame_of(spark: Any, *rows: tuple[bytes, int]) -> Any:
    return spark.createDataFrame(
        [(bytearray(body), kind) for body, kind in rows], "body binary, bodyType int"
    )


def test_json_bodies(spark: Any) -> None:
    from onceq.spark import decoded

    good = {"id": 1, "price": 2.5}
    frame = frame_of(
        spark, (json.dumps(good).encode(), 0), (json.dumps(good).encode("utf-16-le"), 8),
        (b"not json", 0), (b'{"id": 7}', 0),
    )  # fmt: skip
    found = [row.value.asDict() for row in decoded(frame, SCHEMA).collect()]
    assert found == [good, good, {"id": None, "price": None}, {"id": 7, "price": None}]
    named = decoded(frame.drop("bodyType").limit(1), SCHEMA, into="order").select("order.id")
    assert [row.id for row in named.collect()] == [1]
    strict = decoded(frame, SCHEMA, options={"mode": "FAILFAST"})
    with pytest.raises(Exception, match=r"MALFORMED_RECORD|FAILFAST"):
        strict.collect()


def test_bodies_that_cannot_be_decoded(spark: Any) -> None:
    from onceq.spark import decoded

    frame = frame_of(spark, (b"{}", 0))
    with pytest.raises(ConfigurationError, match="json or avro, not 'xml'"):
        decoded(frame, SCHEMA, format="xml")
    with pytest.raises(ConfigurationError, match="no column 'payload'"):
        decoded(frame, SCHEMA, column="payload")
    with pytest.raises(Exception, match=r"AVRO_NOT_LOADED.*[\s\S]*'spark-avro' package"):
        decoded(frame, '{"type": "long"}', format="avro")


def test_a_running_stream_says_how_far_behind_it_is(
    spark: Any, daemon: Any, tmp_path: Path
) -> None:
    from onceq.spark import lag

    queue = r"private$\lag"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [b"x"] * 10)
    behind: list[dict[str, int]] = []
    query = (
        spark.readStream.format("onceq").schema("lookupId bigint").option(
            "queueManager", daemon.address).option("maxMessagesPerTrigger", 4).load(queue)
        .writeStream.foreachBatch(lambda frame, batch: frame.count())
        .option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    behind = [lag(progress) for progress in query.recentProgress if progress.numInputRows]
    assert behind == [{queue: 6}, {queue: 2}, {queue: 0}]


def test_addresses_are_not_in_plans(spark: Any, daemon: Any, capsys: Any) -> None:
    """Nor would anything be that an address may come to hold."""
    queue = r"private$\plan"
    daemon.manager.create_queue(queue, transactional=True)
    frame = spark.read.format("onceq").option("queueManager", daemon.address).load(queue)
    frame.explain(mode="extended")
    shown = capsys.readouterr().out
    assert "lookupId" in shown
    assert daemon.address not in shown


def established(port: int) -> int:
    """Connections that somebody has with a port of this computer."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    pairs = (line.split()[1:4] for line in lines)
    wanted = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    return sum(local == wanted and state == "01" for local, _, state in pairs)


@pytest.mark.slow
def test_no_connection_is_left_when_a_query_has_ended(
    spark: Any, daemon: Any, tmp_path: Path
) -> None:
    queue = r"private$\connections"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [b"x"] * 40)
    port = int(daemon.address.rpartition(":")[2])
    until(lambda: established(port) == 0)
    seen: list[int] = []

    def write(frame: Any, batch: int) -> None:
        assert frame.count() == 10
        seen.append(established(port))

    query = (
        spark.readStream.format("onceq").schema("lookupId bigint, body binary")
        .option("queueManager", daemon.address).option("queue", queue)
        .option("maxMessagesPerTrigger", 10).option("minPartitions", 2).load()
        .writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    # One of the driver, and of each of two worker processes one, however many batches there were.
    assert len(seen) == 4
    assert max(seen) <= 3
    until(lambda: established(port) == 0)
