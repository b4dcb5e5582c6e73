"""``expand_destinations`` in Spark: batch, stream, and mistakes that are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceq.directory.file import dump
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot

pytestmark = pytest.mark.spark

LIST = "00000000-0000-0000-0000-00000000006c"
PUBLIC = "00000000-0000-0000-0000-000000000070"
DIRECTORY = Snapshot(
    [Computer("B"), Computer("C")],
    [PublicQueue(bytes(15) + b"\x70", "C", "prices")],
    [DistributionList(bytes(15) + b"\x6c", "shops", (r"DIRECT=OS:B\q", f"PUBLIC={PUBLIC}"))],
)
SENDS = ((1, rf"DIRECT=OS:D\q,DL={LIST}"), (2, r"DIRECT=OS:B\q;JOURNAL"), (3, r"DIRECT=OS:B\q"))
EXPECTED = [
    (1, r"DIRECT=OS:B\q", 0, 3, None),
    (1, r"DIRECT=OS:D\q", 1, 3, None),
    (1, f"PUBLIC={PUBLIC}", 2, 3, None),
    (2, r"DIRECT=OS:B\q;JOURNAL", None, None, "unsupported-format-name"),
    (3, r"DIRECT=OS:B\q", 0, 1, None),
]


def told(frame: Any) -> list[tuple[Any, ...]]:
    rows = frame.orderBy("id", "copy").collect()
    return [(row.id, row.queue, row.copy, row.copies, row.refusal) for row in rows]


def test_a_frame(spark: Any) -> None:
    from onceq.spark.operators import expand_destinations, refused, sent

    frame = spark.createDataFrame(SENDS, "id int, queue string").repartition(2)
    done = expand_destinations(frame, directory=DIRECTORY)
    assert told(done) == EXPECTED
    assert sent(done).columns == ["id", "queue", "copy", "copies", "place"]
    assert [row.place for row in sent(done).where("id = 1").orderBy("copy").collect()] == [
        r"b\q", r"direct=os:d\q", r"c\prices",
    ]  # fmt: skip
    (row,) = refused(done).collect()
    assert (row.id, row.queue) == (2, r"DIRECT=OS:B\q;JOURNAL")
    assert "read-only" in row.refusalText


def test_a_stream_and_a_directory_in_a_file(spark: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import expand_destinations

    (tmp_path / "directory.json").write_bytes(dump(DIRECTORY))
    spark.createDataFrame(SENDS, "id int, queue string").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id int, queue string").parquet(str(tmp_path / "in"))
    expand_destinations(stream, directory=str(tmp_path / "directory.json")).writeStream.option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).trigger(availableNow=True).format("parquet").start(str(tmp_path / "out")).awaitTermination()
    assert told(spark.read.parquet(str(tmp_path / "out"))) == EXPECTED


def test_mistakes_are_told_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    from onceq.spark.operators import expand_destinations

    frame = spark.createDataFrame(SENDS, "id int, queue string")
    missing = str(tmp_path / "nothing.json")
    faults: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: expand_destinations(frame.drop("queue")), r"\[configuration\].*column queue"),
        (lambda: expand_destinations(frame.selectExpr("*", "1 copy")), r"adds the column copy"),
        (lambda: expand_destinations(frame, computer="a b"), r"\[configuration\] computer 'a b'"),
        (lambda: expand_destinations(frame, computer="."), r"\[configuration\] computer"),
        (lambda: expand_destinations(frame, directory=missing), r"\[no-directory\].*nothing"),
    )
    for bad, text in faults:
        with pytest.raises(Exception, match=text):
            bad()
