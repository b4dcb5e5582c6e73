"""``write.format("onceq")`` with real queue managers: all rows or none, once, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.errors import ReceiveTimeout
from onceq.spark.sink.rows import BODY_BYTES_MAX
from tests.spark.conftest import token_file

pytestmark = pytest.mark.spark


def frame(spark: Any, rows: list[tuple[Any, ...]], schema: str, *, partitions: int = 1) -> Any:
    return spark.createDataFrame(rows, schema).coalesce(partitions)


def numbered(spark: Any, count: int, partitions: int) -> Any:
    """Bodies 0, 1, ... in order over the partitions."""
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as body")


def write(made: Any, daemon: Any, **options: object) -> None:
    writer = made.write.format("onceq").mode("append").option("queueManager", str(daemon.path))
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def bodies(daemon: Any, queue: str) -> list[str]:
    try:
        return [body.decode() for body in daemon.manager.peek_many(queue, 10_000).bodies()]
    except ReceiveTimeout:
        return []


def left(daemon: Any, queue: str) -> list[Any]:
    """Branches that would send there; those of tests that failed on purpose do not count."""
    return [branch for branch in daemon.manager.admin.branches() if queue in branch["destinations"]]


def test_all_rows_in_the_order_of_the_partitions(spark: Any, daemon: Any, queue: str) -> None:
    write(numbered(spark, 5_000, 4), daemon, queue=queue)
    assert bodies(daemon, queue) == [str(n) for n in range(5_000)]
    assert left(daemon, queue) == []
    names = [group["app"] for group in daemon.manager.groups.list()]
    assert not [name for name in names if name.startswith("write:")], "kept without a name"


def test_every_column_is_a_property(spark: Any, daemon: Any, queue: str) -> None:
    schema = (
        "BODY binary, label string, correlationId binary, responseQueue string, "
        "adminQueue string, acknowledge int, appSpecific bigint, bodyType int, extension binary"
    )
    rows = [
        (b"one", "first", b"c" * 20, queue, queue, 0, 4_294_967_295, -2, b"\0ext"),
        (b"two", None, None, None, None, None, None, None, None),
        (b"", "", None, None, None, None, 7, 8, None),
    ]
    write(
        frame(spark, rows, schema), daemon, queue=queue, deadLetter="true", timeToBeReceived=86_400
    )
    one, two, three = daemon.manager.peek_many(queue)
    assert (one.body, one.label, one.correlation_id) == (b"one", "first", b"c" * 20)
    assert one.response_queue.casefold().endswith(queue.casefold())
    assert one.admin_queue.casefold().endswith(queue.casefold())
    assert (one.app_specific, one.body_type) == (4_294_967_295, 0xFFFF_FFFE)
    assert one.extension == b"\0ext"
    assert (two.body, two.label, two.app_specific, two.response_queue) == (b"two", "", 0, "")
    assert (three.body, three.app_specific, three.body_type) == (b"", 7, 8)
    assert all(m.journal == onceq.Journal.DEADLETTER for m in (one, two, three))
    assert all(m.time_to_be_received == 86_400 for m in (one, two, three))


def test_a_destination_for_each_row_also_several(spark: Any, daemon: Any, queue: str) -> None:
    other, far = queue + "-b", rf"DIRECT=OS:NOBODY\{queue}"
    daemon.manager.create_queue(other, transactional=True)
    here = [rf"DIRECT=OS:.\{name}" for name in (queue, other)]
    rows = [("0", queue), ("1", other), ("2", ",".join(here)), ("3", f"{here[0]},{far}"),
            ("4", queue)]  # fmt: skip
    write(frame(spark, rows, "body string, queue string"), daemon)
    assert bodies(daemon, queue) == ["0", "2", "3", "4"]
    assert bodies(daemon, other) == ["1", "2"]
    assert daemon.manager.admin.outgoing_queue(far)["messages"] == 1
    write(frame(spark, rows, "body string, queue string"), daemon, queue=other)
    assert bodies(daemon, other) == ["1", "2", "0", "1", "2", "3", "4"], "the option goes before"
    daemon.manager.purge(far)


def test_large_rows_and_many_use_several_branches(spark: Any, daemon: Any, queue: str) -> None:
    made = spark.range(0, 25, 1, 1).selectExpr("repeat(cast(id % 10 as string), 3000000) as body")
    write(made, daemon, queue=queue)
    found = []
    while True:
        try:
            batch = daemon.manager.receive_many(queue, timeout=0)
        except ReceiveTimeout:
            break
        found += [(body[:1], len(body)) for body in batch.bodies()]
    assert found == [(b"%d" % (n % 10), 3_000_000) for n in range(25)]
    write(spark.range(0, 250_000, 1, 1).selectExpr("'x' as body"), daemon, queue=queue)
    assert daemon.manager.purge(queue) == 250_000
    assert left(daemon, queue) == []


def test_no_rows_and_no_partitions(spark: Any, daemon: Any, queue: str) -> None:
    write(numbered(spark, 0, 3), daemon, queue=queue, txnAppId=queue, txnVersion=0)
    write(spark.createDataFrame([], "body string"), daemon, queue=queue)
    assert bodies(daemon, queue) == []
    write(numbered(spark, 5, 8), daemon, queue=queue)
    assert bodies(daemon, queue) == ["0", "1", "2", "3", "4"]


# ---- once ----------------------------------------------------------------------------------


def test_a_version_is_written_once(spark: Any, daemon: Any, queue: str) -> None:
    for version in (3, 3, 2, 4, 4):
        write(numbered(spark, 10, 2), daemon, queue=queue, txnAppId=queue, txnVersion=version)
    assert bodies(daemon, queue) == [str(n) for n in range(10)] * 2
    (group,) = [g for g in daemon.manager.groups.list() if g["app"] == queue]
    assert group["version"] == 4
    assert left(daemon, queue) == []


def test_0_3_two_writes_under_one_version_are_told_apart(
    spark: Any, daemon: Any, queue: str
) -> None:
    """Delta's idiom: two writes of one batch with one pair. The second one was lost, unheard."""
    other = queue + "-b"
    daemon.manager.create_queue(other, transactional=True)
    escaped = queue.replace("\\", "\\\\")
    once: dict[str, Any] = {"txnAppId": queue, "txnVersion": 7}
    rows = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) body", "'a' label")
    write(rows, daemon, queue=queue, **once)
    for frame, where, words in (
        (rows, other, "to another destination"),
        (rows.limit(99), queue, "100 rows .*now 99 rows"),
        (rows.selectExpr("body", "'b' label"), queue, "with other content"),
        (rows.selectExpr("body", "label", f"'{escaped}' queue"), None, "to another destination"),
    ):
        with pytest.raises(Exception, match=rf"(?s)\[group-differs\].*{words}") as failed:
            write(frame, daemon, **({"queue": where} if where else {}), **once)
        assert "txnAppId" in str(failed.value), "the cure"
    assert (len(bodies(daemon, queue)), bodies(daemon, other)) == (100, [])
    assert left(daemon, other) == []
    # A repetition is one, whatever has become of order and tasks.
    write(rows.orderBy("body", ascending=False), daemon, queue=queue.upper(), **once)
    write(rows.repartition(3), daemon, queue=f"{daemon.path}/{queue}", **once)
    made_anew = rows.selectExpr("cast(rand() as string) body")
    write(made_anew, daemon, queue=queue, txnRows="any", **once)
    assert len(bodies(daemon, queue)) == 100
    write(rows, daemon, queue=other, txnAppId=queue + "-b", txnVersion=7)
    assert sorted(bodies(daemon, other)) == sorted(bodies(daemon, queue))


def test_0_8_what_can_go_nowhere_is_refused(spark: Any, daemon: Any, queue: str) -> None:
    far = rf"127.0.0.1:1/{queue}"
    with pytest.raises(Exception, match=r"\[configuration\] queue: .*wait until they expire"):
        write(numbered(spark, 3, 1), daemon, queue=far)
    rows = frame(spark, [("0", queue), ("1", f"{daemon.path}/{queue}"), ("2", far)],
                 "body string, queue string")  # fmt: skip
    with pytest.raises(Exception, match=r"\[illegal-format-name\] HUB: row 2 .*expire"):
        write(rows, daemon)
    write(rows, daemon, errorQueue=f"{daemon.path}/{queue}")
    assert bodies(daemon, queue) == ["0", "1", "2"]
    two = numbered(spark, 3, 1).write.format("onceq").mode("append")
    with pytest.raises(Exception, match=r"\[configuration\] .*two addresses of one"):
        two.option("queueManager", f"{daemon.path},{daemon.address}").save(queue)


def test_a_failing_task_leaves_nothing(spark: Any, daemon: Any, queue: str) -> None:
    made = spark.range(0, 1_000, 1, 4).selectExpr(
        "if(id = 999, raise_error('in a row'), cast(id as string)) as body"
    )
    with pytest.raises(Exception, match="in a row"):
        write(made, daemon, queue=queue, txnAppId=queue, txnVersion=0)
    assert bodies(daemon, queue) == []
    # Other tasks may have prepared after the abort: that goes with the next commits.
    for version in (0, 1):
        write(numbered(spark, 10, 2), daemon, queue=queue, txnAppId=queue, txnVersion=version)
    assert len(bodies(daemon, queue)) == 20
    assert left(daemon, queue) == []


# ---- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("b", r"private$\nowhere", "", 0), r"\[queue-not-found\] HUB: rows 2 to 3 of partition 0"),
        (("b", "DIRECT=NONSENSE:x", "l" * 60, 0), r"\[illegal-format-name\].*label 'l{40}',"),
        (("b", None, "", 0), r"\[illegal-format-name\].*to nowhere"),
        (("b", r"private$\not-transactional", "", 0), r"\[transaction-usage\].*body of 1 bytes"),
        (("b", "QUEUE", "l" * 250, 0), r"\[label-too-long\].*250 characters"),
        (("b", "QUEUE", "", -1), r"\[illegal-property-value\].*app_specific"),
        ((None, "QUEUE", "", 0), r"\[illegal-property-value\].*body is null"),
        (("x" * (4 << 20), "QUEUE", "", 0), r"\[body-too-large\].*body of 4194304 bytes"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_sent(
    spark: Any, daemon: Any, queue: str, row: tuple[Any, ...], words: str
) -> None:
    """Without an error queue it fails the write, and is named; with one it goes there."""
    if "not-transactional" in (row[1] or "") and not any(
        q["path"] == row[1] for q in daemon.manager.queues()
    ):
        daemon.manager.create_queue(row[1])
    bad = (row[0], queue if row[1] == "QUEUE" else row[1], *row[2:])
    rows = [("0", queue, "", 0), ("1", queue, "", 0), bad, bad, ("2", queue, "", 0)]
    schema = "body string, queue string, label string, appSpecific bigint"
    with pytest.raises(Exception, match=words) as failed:
        write(frame(spark, rows, schema), daemon)
    assert "errorQueue" in str(failed.value)
    assert "xxxx" not in str(failed.value), "of the body nothing but its size is told"
    assert bodies(daemon, queue) == []
    assert left(daemon, queue) == []
    errors = queue + "-e"
    daemon.manager.create_queue(errors, transactional=True)
    write(frame(spark, rows, schema), daemon, errorQueue=errors)
    assert bodies(daemon, queue) == ["0", "1", "2"]
    first, second = daemon.manager.peek_many(errors)
    assert first.body == second.body
    assert first.body == (row[0] or "").encode()[: BODY_BYTES_MAX // 2]
    about, more = json.loads(first.extension), json.loads(second.extension)
    assert first.label == second.label
    assert first.label.startswith(f"[{about['code']}]")
    # What is wrong with a property that each row has for itself is told of each row.
    alone = row[1] == "QUEUE" and (len(row[2]) > 249 or row[3] < 0)
    found = [(one["firstRow"], one["rows"], one["partition"]) for one in (about, more)]
    assert found == ([(2, 1, 0), (3, 1, 0)] if alone else [(2, 2, 0)] * 2)
    assert about["label"] == more["label"] == row[2]
    assert left(daemon, queue) == []


def test_the_error_queue_must_be_one(spark: Any, daemon: Any, queue: str) -> None:
    for name, words in (
        (r"private$\nowhere", "queue-not-found"),
        (r"DIRECT=OS:NOBODY\private$\x", "not a transactional queue"),
        (r"SYSTEM$;DEADLETTER", "."),
    ):
        with pytest.raises(Exception, match=words):
            write(numbered(spark, 3, 1), daemon, queue=queue, errorQueue=name)
    assert bodies(daemon, queue) == []


def test_what_is_wrong_is_told_before_anything_runs(spark: Any, daemon: Any, queue: str) -> None:
    made = numbered(spark, 3, 1)
    for more, words in (
        ({}, "say where the rows go"),
        ({"queue": queue, "txnAppId": "a"}, "both or neither"),
        ({"queue": queue, "erorQueue": "x"}, "did you mean errorQueue"),
    ):
        with pytest.raises(Exception, match=words):
            write(made, daemon, **more)
    with pytest.raises(Exception, match="cannot be written over"):
        made.write.format("onceq").mode("overwrite").option("queueManager", str(daemon.path)).save(
            queue
        )
    with pytest.raises(Exception, match=r"\[service-not-available\]"):
        away = made.write.format("onceq").mode("append").option("queueManager", "127.0.0.1:1")
        away.option("retryTimeout", "0s").save(queue)
    read = spark.read.format("onceq").option("queueManager", str(daemon.path)).load(queue)
    with pytest.raises(Exception, match="set by queue managers"):
        write(read, daemon, queue=queue)
    write(read.select("body", "label"), daemon, queue=queue)
    assert bodies(daemon, queue) == []


def test_a_write_through_tcp(spark: Any, daemon: Any, queue: str, tmp_path: Path) -> None:
    made = numbered(spark, 30, 3).write.format("onceq").mode("append")
    made = made.option("tokenFile", token_file(tmp_path, daemon))
    made.option("queueManager", f"onceq://{daemon.address}").save(queue)
    assert bodies(daemon, queue) == [str(n) for n in range(30)]
