"""A checkpoint that has lost a file: no row is lost or there twice, under each documented sink.

The functions for ``foreachBatch`` are those of the pages, word for word.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from onceq.errors import FinishedBefore, MessagesMissing
from onceq.model.views.queues import RangeView
from tests.spark.driver import send

pytestmark = pytest.mark.spark

HOW_TO: Final = Path(__file__).parents[2] / "docs" / "how-to"
FILTERED: Final = ("'accept' AS verdict", "sourceMachine", "queue", "streamId", "seqNumber",
                   "prevNumber")  # fmt: skip
Counted = Callable[[], Counter[int]]
Begin = Callable[[], Any]


def function(page: str, name: str, names: Mapping[str, str], file: Path) -> Any:
    """The first function of that name on a page, with the imports of its example.

    Args:
        names: What its words in quotation marks are replaced by: places and names of this test.
        file: Where it is written, to be run.
    """
    for block in re.findall(
        r"^```python[^\n]*\n(.*?)^```", (HOW_TO / page).read_text(), re.M | re.S
    ):
        parts = ast.parse(block).body
        wanted = [p for p in parts if isinstance(p, ast.FunctionDef) and p.name == name]
        if wanted:
            imports = [p for p in parts if isinstance(p, ast.Import | ast.ImportFrom)]
            text = ast.unparse(ast.Module([*imports, *wanted], []))
            for word, place in names.items():
                text = re.sub(
                    rf"(?<=['\"]){re.escape(repr(word)[1:-1])}(?=['\"/])",
                    repr(place)[1:-1].replace("\\", r"\\"), text,
                )  # fmt: skip
            file.write_text(text)
            return runpy.run_path(str(file))[name]
    raise AssertionError(f"{page} has no function {name}")


class Case:
    """One queue, its checkpoint, and a sink."""

    def __init__(self, spark: Any, daemon: Any, queue: str, folder: Path) -> None:
        self.spark, self.daemon, self.queue, self.folder = spark, daemon, queue, folder
        self.checkpoint = folder / "cp"
        self.out = queue + "-out"
        daemon.manager.create_queue(self.out, transactional=True)

    def rows(self) -> Any:
        """Three messages a batch, as if a filter had accepted them."""
        return (
            self.spark.readStream.format("onceq").option("queueManager", str(self.daemon.path))
            .option("maxMessagesPerTrigger", 3).load(self.queue)
            .selectExpr("string(body) AS body", *FILTERED)
        )  # fmt: skip

    def run(self, writer: Any) -> Any:
        """Start a query that ends when the queue is empty."""
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

    def each(self, page: str, name: str, names: Mapping[str, str]) -> Begin:
        """A query with a function of a page."""
        given = {"./hub": str(self.daemon.path), r"private$\orders": self.out, **names}
        land = function(page, name, given, self.folder / f"{name}.py")
        rows = self.rows() if page != "spark.md" else self.rows().select("body")
        begin: Begin = self.run(rows.writeStream.foreachBatch(land)).start
        return begin

    def in_files(self, folder: str) -> Counter[int]:
        """The bodies of all files, whoever looks at them: not by Spark's list alone."""
        files = [file for file in (self.folder / folder).rglob("*.parquet") if file.stat().st_size]
        return Counter(
            int(body) for file in files for body in pq.read_table(file)["body"].to_pylist()
        )

    def in_queue(self) -> Counter[int]:
        """What was sent: bodies, or JSON that has them."""
        if not self.daemon.manager.queue(self.out)["messages"]:
            return Counter()
        found = map(json.loads, self.daemon.manager.peek_many(self.out, 999).bodies())
        return Counter(int(one["body"] if isinstance(one, dict) else one) for one in found)


def file_sink(case: Case) -> tuple[Begin, list[Counted]]:
    writer = case.run(case.rows().writeStream.format("parquet"))
    return lambda: writer.start(str(case.folder / "rows")), [lambda: case.in_files("rows")]


def queue_sink(case: Case) -> tuple[Begin, list[Counted]]:
    writer = case.run(case.rows().select("body").writeStream.format("onceq"))
    writer = writer.option("queueManager", str(case.daemon.path)).option("queue", case.out)
    return writer.start, [case.in_queue]


def landed_and_sent(case: Case) -> tuple[Begin, list[Counted]]:
    places = {"./landing": str(case.checkpoint), "./landed": str(case.folder / "landed")}
    begin = case.each("spark.md", "land", {**places, "landing": case.queue})
    return begin, [lambda: case.in_files("landed"), case.in_queue]


def booked_and_sent(case: Case) -> tuple[Begin, list[Counted]]:
    pytest.importorskip("deltalake", reason="deltalake is not installed: pip install onceq[tables]")
    places = {"./booked": str(case.folder / "booked"), "booking": case.queue}
    return case.each("spark.md", "book", places), [lambda: case.in_files("booked"), case.in_queue]


def filtered(case: Case) -> tuple[Begin, list[Counted]]:
    """What the filter says of each row is not what is looked at here."""
    places = {word: str(case.folder / word) for word in ("orders", "acks")}
    begin = case.each("spark-pipeline.md", "land", {"cp": str(case.checkpoint), **places})
    return begin, [lambda: case.in_files("orders")]


SINKS: Final = {
    sink.__name__: sink
    for sink in (file_sink, queue_sink, landed_and_sent, booked_and_sent, filtered)
}


def newest(folder: Path, back: int = 0) -> Path:
    """A file of a log of Spark's: the last, or one before it."""
    return folder / str(max(int(file.name) for file in folder.glob("[0-9]*")) - back)


NEWEST: Final = ("offsets", "commits")
ALL: Final = ("metadata", *NEWEST, "offsets before", "commits before")


def lost(checkpoint: Path, name: str) -> Path:
    """A file of a checkpoint, by a word for it."""
    folder, _, before = name.partition(" ")
    return checkpoint / name if folder not in NEWEST else newest(checkpoint / folder, bool(before))


def refused(begin: Begin) -> str:
    """Run a query; "" if it ends well, else what says why it did not."""
    try:
        begin().awaitTermination()
    except Exception as error:  # noqa: BLE001 (whatever Spark raises)
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "names", "empty"),
    [
        *((sink, NEWEST, False) for sink in SINKS if sink != "landed_and_sent"),
        ("landed_and_sent", ALL, False), ("landed_and_sent", ALL, True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_file_of_a_checkpoint_is_lost(
    spark: Any, daemon: Any, queue: str, tmp_path: Path, sink: str,
    names: Sequence[str], empty: bool,
) -> None:  # fmt: skip
    """A query is refused, or it ends well; and one that is refused is cured as the page says.

    What Spark refuses by itself, whatever the sink, is looked at with one sink.
    """
    case = Case(spark, daemon, queue, tmp_path)
    begin, counted = SINKS[sink](case)
    send(daemon, queue, *range(6))
    assert refused(begin) == ""
    sent, said = 6, {}
    for name in names:
        file = lost(case.checkpoint, name)
        kept = file.read_bytes()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.write_bytes(b"") if empty else file.unlink()
        send(daemon, queue, *range(sent, sent + 3))
        said[name] = refused(begin)
        if said[name]:
            there = [Counter(range(sent))] * len(counted)
            assert [count() for count in counted] == there, f"{name}: {said[name]}"
            assert daemon.manager.queue(queue)["messages"] == 3
            # A commit is written again, all else is put back.
            file.write_bytes(newest(file.parent, 1).read_bytes() if name == "commits" else kept)
            assert refused(begin) == "", name
        sent += 3
        assert [count() for count in counted] == [Counter(range(sent))] * len(counted), name
        assert daemon.manager.queue(queue)["messages"] == 0
    of_source = {name for name, text in said.items() if f"[{FinishedBefore.code}]" in text}
    # An empty file is refused by Spark. Its own file sink knows which batches it has.
    asks = not empty and sink != "file_sink"
    assert of_source == (set(NEWEST) if asks else set()), said
    assert not said.get("commits before"), "nobody needs it"


# ---- as Spark calls it --------------------------------------------------------------------------


def test_a_batch_that_was_removed_is_refused_before_it_is_read(
    daemon: Any, queue: str, readers: Any
) -> None:
    """Whatever ``failOnDataLoss`` says: with it a sink would have been given nothing."""
    send(daemon, queue, "a", "b")
    first = readers(queue)
    start = first.first()
    end = first.after(start)
    assert first.bodies(start, end) == ["a", "b"]
    assert first.after(end) == end
    first.reader.stop()
    for options in ({}, {"failOnDataLoss": "false"}):
        again = readers(queue, **options)
        with pytest.raises(FinishedBefore, match=rf"was written .* by query {end['query']}"):
            again.reader.partitions(start, end)
        again.reader.stop()


def test_the_batch_before_one_that_was_removed_is_refused_too(
    daemon: Any, queue: str, readers: Any
) -> None:
    driver = readers(queue)
    start = driver.first()
    ends: list[Any] = []
    for body in "ab":
        send(daemon, queue, body)
        ends.append(driver.after(ends[-1] if ends else start))
    driver.after(ends[-1])
    driver.reader.stop()
    with pytest.raises(FinishedBefore, match=rf"and of later ones up to {max_place(ends[1])}"):
        readers(queue).reader.partitions(start, ends[0])


def max_place(end: Any) -> int:
    return int(max(end["to"].values()))


def test_one_of_several_queues_is_enough(daemon: Any, queue: str, readers: Any) -> None:
    """What removes from the next queue manager may not have come to it."""
    more = queue + "-b"
    daemon.manager.create_queue(more, transactional=True)
    for name in (queue, more):
        send(daemon, name, "a")
    driver = readers(f"{queue},{more}")
    start = driver.first()
    end = driver.after(start)
    driver.after(end)
    driver.reader.stop()
    with pytest.raises(FinishedBefore):
        readers(f"{queue},{more}").reader.partitions(start, end)


def test_what_is_missing_from_a_batch_that_comes_again_is_told_before_a_sink_is_opened(
    daemon: Any, queue: str, readers: Any
) -> None:
    send(daemon, queue, "a", "b")
    first = readers(queue, readMode="peek")
    start = first.first()
    end = first.after(start)
    first.reader.stop()
    daemon.manager.purge(queue)
    again = readers(queue, readMode="peek")
    with pytest.raises(MessagesMissing, match="2 purged by an operator"):
        again.reader.partitions(start, end)
    again.reader.stop()
    anyhow = readers(queue, readMode="peek", failOnDataLoss="false")
    assert anyhow.bodies(start, end) == []


def test_only_a_batch_that_comes_again_is_asked_about(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceq.spark.source.access import LazyConnection

    asked: list[str] = []
    real = LazyConnection.count

    def count(self: LazyConnection, queue: str, part: Any, **limits: int) -> RangeView:
        asked.append(queue)
        return real(self, queue, part, **limits)

    monkeypatch.setattr(LazyConnection, "count", count)
    send(daemon, queue, "a")
    driver = readers(queue)
    start = driver.first()
    end = driver.after(start)
    before = len(asked)
    assert driver.bodies(start, end) == ["a"]
    assert len(asked) == before
    driver.reader.stop()
    assert readers(queue).bodies(start, end) == ["a"]
    assert len(asked) == before + 1
