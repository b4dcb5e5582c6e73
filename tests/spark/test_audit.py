"""``onceq spark audit`` finds what ``onceq audit`` finds: the rules are the same functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from onceq.audit import command as local
from onceq.audit.command import Wish
from onceq.spark.audit import command
from tests.audit.corruptions import corrupt
from tests.audit.histories import peopled
from tests.audit.planting import Row
from tests.scratch import scratch

pytestmark = pytest.mark.spark
SAME = ("managers", "messages", "events", "streams", "transactions", "states", "violations",
        "messages_violated", "checked", "latencies", "resends", "stuck", "notes",
        "verdict")  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "audit") as path:
        peopled(path / "true")
        corrupt(peopled(path / "wrong"))
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
