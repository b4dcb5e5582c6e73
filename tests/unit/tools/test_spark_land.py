"""The judge of ``make spark-land``: it is handed tables with losses, repetitions and phantoms."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import spark_land
from onceq.spark.land.plan import Plan

EVERY = spark_land.BAD_EVERY


def judged(
    to: Path, good: list[int], bad: list[int], committed: int, places: list[int] | None = None
) -> list[str]:
    """What is wrong with tables of these numbers, at places that rise with them."""
    plan = Plan("hub", "q", to / "t")
    at = dict(zip(good, places or [10 * n for n in good], strict=True))
    for folder, columns in (
        (plan.to, {"lookupId": [at[n] for n in good], "n": good}),
        (plan.errors, {"lookupId": [10 * n for n in bad], "body": [b"%d x" % n for n in bad]}),
    ):
        folder.mkdir()
        parquet.write_table(pa.table(columns), folder / "batch-000000000-00000.parquet")
    return spark_land.judged(plan, committed)[1]


GOOD = [n for n in range(200) if n % EVERY]
BAD = [n for n in range(200) if n % EVERY == 0]


def test_all_is_well(tmp_path: Path) -> None:
    assert judged(tmp_path, GOOD, BAD, 200) == []


@pytest.mark.parametrize(
    ("good", "bad", "committed", "words"),
    [
        (GOOD[:-1], BAD, 200, "lost: 199"),
        (GOOD, BAD[1:], 200, "lost: 0"),
        ([*GOOD, 5], BAD, 200, "repeated: 5 has 2 rows"),
        (GOOD, [*BAD, 97], 200, "repeated: 97 has 2 rows"),
        (GOOD, BAD, 199, "phantom: 199"),
        (GOOD[1:], [*BAD, 1], 200, "1 is no bad row"),
        ([*GOOD, 97], [0, 194], 200, "97 is a bad row"),
    ],
)
def test_what_is_wrong_is_found(
    tmp_path: Path, good: list[int], bad: list[int], committed: int, words: str
) -> None:
    assert judged(tmp_path, good, bad, committed) == [words]


def test_another_order_is_found(tmp_path: Path) -> None:
    places = [10 * n for n in GOOD]
    places[3], places[4] = places[4], places[3]
    assert judged(tmp_path, GOOD, BAD, 200, places) == [
        "rows by their place are not in the order of the commits"
    ]


def test_most_bodies_are_json_and_some_are_not() -> None:
    assert spark_land.body(96).startswith(b'{"n": 96, "padding": "')
    assert spark_land.body(97) == b"97 " + b"x" * 97
