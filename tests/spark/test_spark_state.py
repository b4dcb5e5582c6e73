"""``state``: what operators remember, asked of the checkpoint of a query that rests, or runs."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from tests.spark.files import write_files

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-pipeline.md"
QUEUE = r"direct=os:b\q"
MESSAGES = (
    "sourceMachine string, queue string, commitOrder bigint, sendOrder int, transactional boolean, "
    "sentTime timestamp, packetBytes bigint"
)


def messages(spark: Any, first: int, last: int) -> Any:
    return spark.sql(
        "select concat('Sender ', n % 3) sourceMachine, 'DIRECT=OS:B/q' queue, "
        "cast(n as bigint) commitOrder, 0 sendOrder, true transactional, "
        "timestamp_seconds(1700000000 + n) sentTime, 100L packetBytes "
        f"from (select explode(sequence({first}, {last})) n)"
    )


def run(frame: Any, place: Path, *, more: Any = None) -> Any:
    query = frame.writeStream.option("checkpointLocation", str(place))
    query = query.foreachBatch(more) if more else query.format("noop")
    query.trigger(availableNow=True).start().awaitTermination()


def feed(spark: Any, place: Path) -> Any:
    return (
        spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", 1).parquet(str(place))
    )  # fmt: skip


def files_of(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*"))


def test_two_operators_of_one_query(rocks: Any, tmp_path: Path) -> None:
    """Each is found by what it remembers; nothing is written, whoever asks."""
    from onceq.spark.operators import eod_filter, number, state
    from onceq.spark.operators.columns import PROVIDER, ROCKSDB

    write_files(
        tmp_path / "in", messages(rocks, 1, 10).toArrow(), messages(rocks, 11, 20).toArrow()
    )
    run(eod_filter(number(feed(rocks, tmp_path / "in"), stamp=7), buckets=3), tmp_path / "cp")
    before = files_of(tmp_path)
    rocks.conf.unset(PROVIDER)
    try:
        given = state(rocks, str(tmp_path / "cp"), operator="number")
        told = state(rocks, tmp_path / "cp").orderBy("sourceMachine")
        assert given.columns == ["sourceMachine", "queue", "streamId", "lastNumber",
                                 "acknowledged", "commitOrder", "sendOrder"]  # fmt: skip
        stream = str(7 << 32 | 1)
        assert [tuple(row) for row in given.orderBy("sourceMachine").collect()] == [
            (f"sender {n}", QUEUE, stream, 6 if n == 0 else 7, 0, 18 if n == 0 else 18 + n, 0)
            for n in range(3)
        ]
        assert [tuple(row)[:4] for row in told.collect()] == [
            (f"sender {n}", QUEUE, stream, 6 if n == 0 else 7) for n in range(3)
        ]
        assert {row.lastSeen is None for row in told.collect()} == {False}
        with pytest.raises(Exception, match=r"has no memory of settle, but of eod_filter, number"):
            state(rocks, tmp_path / "cp", operator="settle")
    finally:
        rocks.conf.set(PROVIDER, ROCKSDB)
    assert files_of(tmp_path) == before, "nothing is written"


def test_two_operators_of_one_kind(rocks: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import number, state

    write_files(tmp_path / "in", messages(rocks, 1, 10).toArrow())
    once = number(feed(rocks, tmp_path / "in"), stamp=7)
    bare = once.where("seqNumber > 1").drop("streamId", "seqNumber", "prevNumber")
    run(number(bare, stamp=8), tmp_path / "cp")
    with pytest.raises(Exception, match=r"has 2 operators number; say which one.* 0 or 1"):
        state(rocks, tmp_path / "cp", "number")
    counts = {
        at: sorted(
            (row.streamId, row.lastNumber)
            for row in state(rocks, tmp_path / "cp", "number", operator_id=at).collect()
        )
        for at in (0, 1)
    }
    first = [(str(7 << 32 | 1), 3), (str(7 << 32 | 1), 3), (str(7 << 32 | 1), 4)]
    second = [(str(8 << 32 | 1), 2), (str(8 << 32 | 1), 2), (str(8 << 32 | 1), 3)]
    assert sorted(counts.values()) == [first, second]
    with pytest.raises(Exception, match=r"with operator_id=5; the operators .* are 0 .*, 1 "):
        state(rocks, tmp_path / "cp", "number", operator_id=5)


def test_while_the_query_runs(rocks: Any, tmp_path: Path) -> None:
    """Inside a micro-batch it is what the one before has left: the last that is committed."""
    from onceq.spark.operators import number, settle, state

    write_files(tmp_path / "in", messages(rocks, 1, 9).toArrow(), messages(rocks, 10, 20).toArrow())
    seen: dict[int, list[int]] = {}

    def ask(frame: Any, batch: int) -> None:
        frame.count()
        if batch:
            rows = state(rocks, tmp_path / "cp", "number").collect()
            seen[batch] = sorted(row.lastNumber for row in rows)

    run(number(feed(rocks, tmp_path / "in"), stamp=7), tmp_path / "cp", more=ask)
    assert seen == {1: [3, 3, 3]}
    assert sorted(r.lastNumber for r in state(rocks, tmp_path / "cp", "number").collect()) == [
        6, 7, 7,
    ]  # fmt: skip
    table = rocks.createDataFrame(
        [("DIRECT=OS:B\\q", True, 1, 24)],
        "queue string, transactional boolean, quotaKb int, usedBytes int",
    )
    run(settle(feed(rocks, tmp_path / "in"), table), tmp_path / "settled")
    (row,) = state(rocks, tmp_path / "settled", operator="settle").collect()
    assert (row.queue, row.usedBytes, row.staysBytes, row.nextLeaves) == (QUEUE, 1024, 1024, None)


def test_checkpoints_that_are_none(rocks: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import state

    write_files(tmp_path / "in", messages(rocks, 1, 3).toArrow())
    run(feed(rocks, tmp_path / "in").dropDuplicates(["queue"]), tmp_path / "spark's own")
    run(feed(rocks, tmp_path / "in"), tmp_path / "stateless")
    (tmp_path / "empty").mkdir()
    faults = (
        (tmp_path / "none", "number", "is no checkpoint of a query"),
        (tmp_path / "empty", "number", "is no checkpoint of a query"),
        (tmp_path / "stateless", "number", "is no checkpoint of a query"),
        (tmp_path / "in", "number", "is no checkpoint of a query"),
        (tmp_path / "spark's own", "number", r"of an operator of onceq; .* are 0 \(dedupe\)"),
        (tmp_path / "none", "dropDuplicates", "operator is one of eod_filter, number, settle, not"),
        ("", "number", "checkpoint is the path of one, not str"),
    )
    before = files_of(tmp_path)
    for place, operator, text in faults:
        with pytest.raises(Exception, match=rf"^\[configuration\].*{text}"):
            state(rocks, place, operator)
    assert files_of(tmp_path) == before, "nothing is made by looking"


def test_the_example_of_the_page(
    rocks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python no-run\n(# needs Spark; a test[^`]*)```", PAGE.read_text())
    monkeypatch.chdir(tmp_path)
    warehouse = tmp_path.as_uri()
    for name in ("arriving", "cp", "filtered"):
        # Spark's own working directory is another.
        example = example.replace(f'"{name}"', f'"{warehouse}/{name}"')
    (tmp_path / "example.py").write_text(example)
    run_path(str(tmp_path / "example.py"), {"spark": rocks})
    assert capsys.readouterr().out == "7 4\n"
