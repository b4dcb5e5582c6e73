"""A landing's files without Spark: every place where a run may die, and what is not mixed."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from onceq.errors import ConfigurationError
from onceq.spark.land import decoding, memory
from onceq.spark.land.plan import LIBRARIES, TABLES, LandPlan
from onceq.spark.land.run import LandedBatch, Landing
from onceq.spark.land.tables import open_table


class Crash(Exception):
    """What a test raises where a run might die."""


class Frame:
    """What a batch gives to ``foreachBatch``, as far as it is used: two files of some rows."""

    def __init__(self, *rows: str) -> None:
        self._rows = rows

    @property
    def write(self) -> Frame:
        return self

    @property
    def schema(self) -> Any:
        return StructType([StructField("body", StringType(), nullable=False)])

    def parquet(self, path: str) -> None:
        os.makedirs(path)
        half = len(self._rows) // 2
        for number, rows in enumerate((self._rows[:half], self._rows[half:])):
            table = pa.table({"body": list(rows)})
            parquet.write_table(table, f"{path}/part-{number}.parquet")


@pytest.fixture(autouse=True)
def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of columns needs Spark."""
    monkeypatch.setattr(decoding, "rows", lambda frame, plan, fields: frame)


def target(to: Path, steps: list[LandedBatch] | None = None, **more: Any) -> Landing:
    """One run with this folder."""
    plan = LandPlan("hub", "q", to, **{"columns": ("body",), **more})
    plan.check()
    made = Landing(plan, None, steps.append if steps is not None else lambda step: None)
    made.prepare()
    offsets = made.memory.checkpoint / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    for batch in range(4):
        (offsets / str(batch)).touch()
    return made


def rows(to: Path, kind: str = "parquet") -> list[str]:
    """What any reader of such a table finds."""
    table = open_table(LandPlan("hub", "q", to, table=kind), "nobody")
    found = [row for batch in table.read(["body"]) for row in batch.column("body").to_pylist()]
    return sorted(found)


CALLS = ("stage", "unlink", "replace", "sync", "write")


def crash_at(patch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Let the run die before the so-many-th thing that it does to files; returns what it did."""
    did: list[str] = []

    def dying(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(did) == number:
                raise Crash(name)
            did.append(name)
            return real(*args, **kwargs)

        return call

    patch.setattr(Frame, "parquet", dying("stage", Frame.parquet))
    patch.setattr(Path, "unlink", dying("unlink", Path.unlink))
    patch.setattr(Path, "replace", dying("replace", Path.replace))
    patch.setattr(memory, "sync_path", dying("sync", memory.sync_path))
    patch.setattr(Path, "write_text", dying("write", Path.write_text))
    return did


@pytest.mark.tier("rest")
@pytest.mark.parametrize("kind", TABLES)
def test_wherever_a_run_dies_the_next_one_makes_it_right(tmp_path: Path, kind: str) -> None:
    """Every step of a batch is a place to die, twice in a row; batch 0 before it stays as it is."""
    library = LIBRARIES.get(kind)
    if library and find_spec(library) is None:
        pytest.skip(f"not run: {library} is not installed, so no {kind} table was landed")
    number, died = 0, True
    seen: set[str] = set()
    while died:
        to = tmp_path / str(number)
        target(to, table=kind).write(Frame("a", "b"), 0)
        again = target(to, table=kind)
        died = False
        for _ in range(2):
            with pytest.MonkeyPatch.context() as patch:
                did = crash_at(patch, number)
                try:
                    again.write(Frame("c", "d", "e"), 1)
                except Crash:
                    died = True
            seen.update(did)
            assert rows(to, kind)[:2] == ["a", "b"]
            again = target(to, table=kind)
        steps: list[LandedBatch] = []
        last = target(to, steps, table=kind)
        last.write(Frame("c", "d", "e"), 1)
        last.write(Frame("f"), 2)
        assert rows(to, kind) == ["a", "b", "c", "d", "e", "f"]
        assert last.done.total == 6
        assert not (to / "_onceq" / "staging").exists()
        number += 1
    assert number > 8
    assert seen >= {"stage", "replace", "sync", "write", "unlink"}


def test_an_iceberg_table_is_found_without_its_hint(tmp_path: Path) -> None:
    """A hint that is lost or behind must not begin a table anew, above all that it has."""
    if find_spec("pyiceberg") is None:
        pytest.skip("not run: pyiceberg is not installed, so no iceberg table was landed")
    to = tmp_path / "to"
    target(to, table="iceberg").write(Frame("a", "b"), 0)
    hint = to / "metadata" / "version-hint.text"
    assert (to / "metadata" / f"v{hint.read_text()}.metadata.json").exists()
    for text in ("", "1", None):
        hint.unlink() if text is None else hint.write_text(text)
        (to / "metadata" / "v1.metadata.json").unlink(missing_ok=True)
        assert rows(to, "iceberg") == ["a", "b"]
    target(to, table="iceberg").write(Frame("c"), 1)
    assert rows(to, "iceberg") == ["a", "b", "c"]


def test_a_batch_that_is_done_is_not_even_looked_at(tmp_path: Path) -> None:
    target(tmp_path / "to").write(Frame("a", "b"), 0)
    nothing: Any = None
    steps: list[LandedBatch] = []
    again = target(tmp_path / "to", steps)
    again.write(nothing, 0)
    assert steps == []
    assert (again.done.batches, again.done.total) == (0, 2)


def test_what_spark_has_planned_is_durable_before_files_are(tmp_path: Path) -> None:
    made = target(tmp_path / "to")
    order: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "sync_path", lambda path: order.append(path.name))
        patch.setattr(Path, "replace", lambda self, to: order.append(f"to {to.name}"))
        made.write(Frame("a", "b"), 3)
    assert order == [
        "3", "offsets", "checkpoint", "part-0.parquet", "to batch-000000003-00000.parquet",
        "part-1.parquet", "to batch-000000003-00001.parquet", "to", "done.new", "to done.json",
        "_onceq",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"columns": ("label",)}, "was landed in with --columns"),
        ({"by_date": True}, "was landed in with --by-date False, not True"),
        ({"keep": True}, "was landed in with --keep"),
    ],
)
def test_another_plan_needs_another_folder(tmp_path: Path, changed: Any, words: str) -> None:
    target(tmp_path / "to").write(Frame("a"), 0)
    with pytest.raises(ConfigurationError, match=words):
        target(tmp_path / "to", **changed)


def test_a_plan_of_which_nothing_was_landed_is_replaced(tmp_path: Path) -> None:
    """Else a mistyped queue would keep the folder from the one that was meant."""

    def prepare(**more: Any) -> None:
        Landing(LandPlan("hub", "q", tmp_path / "to", **more), None, lambda step: None).prepare()

    prepare(by_date=True)
    prepare(keep=True)
    made = target(tmp_path / "to")
    with pytest.raises(ConfigurationError, match="was landed in with --keep"):
        prepare(columns=("body",), keep=True)
    made.write(Frame("a"), 0)
    assert rows(tmp_path / "to") == ["a"]


def test_a_folder_that_was_filled_meanwhile_is_refused(tmp_path: Path) -> None:
    Landing(LandPlan("hub", "q", tmp_path / "to"), None, lambda step: None).prepare()
    (tmp_path / "to" / "mine.txt").touch()
    with pytest.raises(ConfigurationError, match="has files already"):
        target(tmp_path / "to")


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    def fails(to: Path, words: str, **more: Any) -> None:
        with pytest.raises(ConfigurationError, match=words):
            target(to, **more)

    (tmp_path / "file").write_text("x")
    fails(tmp_path / "file", "is a file")
    fails(tmp_path, "has files already, and not from a landing")
    fails(Path("s3a://lake/orders"), "is not a folder of this computer")
    fails(tmp_path / "new", "no column 'colour'", columns=("colour",))
    assert not (tmp_path / "new").exists()


def test_a_folder_whose_checkpoint_is_gone_is_refused(tmp_path: Path) -> None:
    """A new query begins with batch 0 again, which would be passed over as done, and removed."""
    made = target(tmp_path / "to")
    made.write(Frame("a"), 0)
    shutil.rmtree(made.memory.checkpoint)
    with pytest.raises(ConfigurationError, match="checkpoint"):
        target(tmp_path / "to")


def test_new_folders_survive_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone from a queue must be found, and so must the folders above it."""
    synced: list[Path] = []
    monkeypatch.setattr(memory, "sync_path", synced.append)
    to = tmp_path / "some" / "where"
    made = target(to)
    assert {tmp_path, to.parent, to, made.memory.checkpoint.parent} <= set(synced)
    made.write(Frame("a"), 0)
    assert made.memory.checkpoint in synced
