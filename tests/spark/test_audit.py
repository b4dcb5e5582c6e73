"""Both engines run the same rules: DuckDB and Spark name each corruption, and tell the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.errors import ConfigurationError
from onceq.spark import audit as by_spark
from onceq.spark.argument_checks import original
from onceq.spark.land.reading import opened
from tests.audit.corruptions import PLANTED, corrupt
from tests.audit.histories import peopled
from tests.audit.landings import LANDED, accepted, landed, lived
from tests.audit.planting import Plants, Row
from tests.scratch import scratch

pytestmark = pytest.mark.spark
ENGINES = ("duckdb", "spark")
SAME = ("managers", "messages", "events", "streams", "transactions", "states", "violations",
        "messages_violated", "checked", "latencies", "resends", "stuck", "notes", "stories",
        "verdict", "acts", "landed")  # fmt: skip


class Place:
    """Histories with all corruptions, and others of a queue that is landed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.planted: Plants = corrupt(peopled(path / "histories" / "wrong"))
        lived(path / "histories" / "landed")
        self.rows = accepted(path / "histories" / "landed")[:LANDED]

    def audited(self, engine: str, folder: str, **more: Any) -> Row:
        run = command.run if engine == "duckdb" else _by_spark
        return run(
            [str(self.path / "histories" / folder)], Wish(stuck_s=100, **more), lambda _: None
        )


def _by_spark(folders: list[str], wish: Wish, say: Any) -> Row:
    return by_spark.run(folders, wish, say, master="")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with scratch(tmp_path_factory, "audit") as path:
        yield Place(path)


@pytest.fixture(scope="module")
def wrong(spark: Any, place: Place) -> dict[str, Row]:
    """What both say of the histories with all corruptions."""
    return {
        engine: place.audited(
            engine, "wrong", to=str(place.path / engine), html=str(place.path / f"{engine}.html")
        )
        for engine in ENGINES
    }


@pytest.fixture(scope="module")
def tables(spark: Any, place: Place) -> dict[str, Row]:
    """What both say of a landed table that has each mistake."""
    rows = place.rows
    foreign = bytes(16) + b"\x07\0\0\0"
    bad = [
        *rows[:6], *rows[7:], rows[8], {**rows[9], "queue": r"private$\r"},
        {**rows[3], "messageId": foreign},
    ]  # fmt: skip
    table = landed(place.path / "table", bad, total=LANDED)
    return {
        engine: place.audited(engine, "landed", landed=[opened(str(table))]) for engine in ENGINES
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", PLANTED)
def test_each_corruption_is_named(
    wrong: dict[str, Row], place: Place, number: int, engine: str
) -> None:
    _, invariant, fault = PLANTED[number]
    key = {"stream": place.planted.stream, "number": number}
    (story,) = (
        one for one in wrong[engine]["stories"] if key.items() <= one["key"].items()
    )  # fmt: skip
    assert (invariant, fault) in {(one["invariant"], one["fault"]) for one in story["faults"]}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "fault", ["landed-lost", "landed-twice", "landed-from-nowhere", "landed-elsewhere"]
)
def test_each_mistake_of_a_table_is_named(tables: dict[str, Row], engine: str, fault: str) -> None:
    named = {one["fault"] for one in tables[engine]["checked"] if one["violations"]}
    assert fault in named


def test_both_say_the_same(wrong: dict[str, Row], tables: dict[str, Row]) -> None:
    for found in (wrong, tables):
        one, other = ({name: found[engine].get(name) for name in SAME} for engine in ENGINES)
        assert one == other


def test_the_tables_are_the_same(wrong: dict[str, Row], place: Place) -> None:
    for name in ("messages", "violations", "traffic"):
        one, other = (pq.read_table(place.path / engine / name) for engine in ENGINES)
        assert one.schema.names == other.schema.names, name
        assert sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist())), name
        assert one.num_rows
    assert (place.path / "spark.html").stat().st_size > 10_000


def test_damage_is_told_in_our_words(spark: Any, place: Place, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(place.path / "histories" / "landed", copied)
    path = max(copied.glob("*/*"), key=lambda one: one.stat().st_size)
    pq.write_table(pq.read_table(path), path, write_page_checksum=True)  # as managers write them
    group = pq.read_metadata(path).row_group(0)
    read = next(
        column
        for at in range(group.num_columns)
        if (column := group.column(at)).path_in_schema == "position"
    )
    data = bytearray(path.read_bytes())
    first = read.dictionary_page_offset or read.data_page_offset
    data[first + read.total_compressed_size - 1] ^= 0x55  # of a column that the audit reads
    path.write_bytes(data)
    views = {one.name for one in spark.catalog.listTables()}
    with pytest.raises(Exception, match="damaged") as told:
        by_spark.run([str(copied)], Wish(), lambda _: None, master="")
    error = original(told.value)
    assert isinstance(error, ConfigurationError)
    assert error.text.startswith(f"{path} is damaged inside")
    assert {one.name for one in spark.catalog.listTables()} == views, "its tables are its own"
