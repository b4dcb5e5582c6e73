"""``onceq spark audit`` finds what ``onceq audit`` finds: the rules are the same functions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from onceq.audit import command as local
from onceq.audit.command import Wish
from onceq.errors import ConfigurationError
from onceq.spark.audit import command
from onceq.spark.audit.job import CONFIG
from onceq.spark.error_codes import original
from tests.audit.administered import administered
from tests.audit.corruptions import corrupt
from tests.audit.histories import peopled
from tests.audit.planting import Planter, Row
from tests.scratch import scratch

pytestmark = pytest.mark.spark
SAME = ("managers", "messages", "events", "streams", "transactions", "states", "violations",
        "messages_violated", "checked", "latencies", "resends", "stuck", "notes",
        "verdict", "acts")  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "audit") as path:
        peopled(path / "true")
        corrupt(peopled(path / "wrong"))
        acted = administered(path / "acted")
        b = Planter(acted / "B")
        b.rows.remove(b.find("act", act=3))
        for row in b.rows:
            if row["event"] == "accepted":
                row["bytes"] -= 40
        b.save()
        yield path


def both(place: Path, name: str, wish: Wish) -> tuple[Row, Row]:
    """What Spark says and what one process says."""
    paths = [str(place / name)]
    more = Wish(wish.settled, "", "", wish.stuck_s)
    return (
        command.run(paths, wish, lambda _: None, master=""),
        local.run(paths, more, lambda _: None),
    )


def stories(found: Row) -> set[tuple[Any, ...]]:
    return {
        (story["title"], frozenset(fault["fault"] for fault in story["faults"]),
         tuple(story["rows"]))
        for story in found["stories"]
    }  # fmt: skip


@pytest.mark.parametrize("name", ["true", "wrong"])
def test_it_finds_the_same(spark: Any, place: Path, name: str, tmp_path: Path) -> None:
    wish = Wish(html=str(tmp_path / "x.html"), to=str(tmp_path / "tables"), stuck_s=100)
    by_spark, here = both(place, name, wish)
    assert {key: by_spark[key] for key in SAME} == {key: here[key] for key in SAME}
    assert stories(by_spark) == stories(here)
    assert (here["violations"] > 0) == (name == "wrong")
    messages = pq.read_table(tmp_path / "tables" / "messages")
    assert messages.num_rows == here["messages"]
    assert pq.read_table(tmp_path / "tables" / "violations").num_rows == here["violations"]
    assert (tmp_path / "x.html").stat().st_size > 10_000


def test_it_finds_the_same_of_who_did_what(spark: Any, place: Path, tmp_path: Path) -> None:
    """An act that was removed, and those that explain what messages met."""
    by_spark, here = both(place, "acted", Wish(html=str(tmp_path / "x.html"), stuck_s=100))
    assert {key: by_spark[key] for key in SAME} == {key: here[key] for key in SAME}
    assert here["acts"]["missing"] == [{"manager": "B", "first": 3, "last": 3}]
    assert stories(by_spark) == stories(here)
    told = [line for *_, lines in stories(by_spark) for line in lines if "(act 4 of " in line]
    assert len(told) == 2
    assert "Who did what" in (tmp_path / "x.html").read_text()


def test_the_tables_are_those_of_one_process(spark: Any, place: Path, tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("spark", "here")}
    paths = [str(place / "wrong")]
    command.run(paths, Wish(to=str(places["spark"])), lambda _: None, master="")
    local.run(paths, Wish(to=str(places["here"])), lambda _: None)
    for name in ("messages", "violations", "traffic"):
        one, other = (pq.read_table(folder / name) for folder in places.values())
        assert one.column_names == other.column_names, name
        found, whole = (
            # Which of its copies such a message accuses depends on the order of their lanes.
            sorted(repr(row) for row in table.to_pylist() if row.get("fault") != "torn-send")
            for table in (one, other)
        )
        assert found == whole, name


def test_damage_is_told_in_our_words_and_nothing_stays_set(
    spark: Any, place: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(place / "true", copied)
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
    before = [spark.conf.get(name) for name in CONFIG]
    with pytest.raises(Exception, match="damaged") as told:
        command.run([str(copied)], Wish(), lambda _: None, master="")
    error = original(told.value)
    assert isinstance(error, ConfigurationError)
    assert error.text.startswith(f"{path} is damaged inside")
    assert [spark.conf.get(name) for name in CONFIG] == before
