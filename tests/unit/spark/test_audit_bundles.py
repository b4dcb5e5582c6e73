"""Bundles: every row arrives once, beside those that it belongs to, and none is too large."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.audit.arrays import Ints
from onceq.audit.tables import schema
from onceq.spark.audit import bundles
from onceq.spark.audit.bundles import BUNDLE, joined, numbers, opened, spread

ROWS = schema({"a": "int", "b": "bigint", "at": "bigint"})
FEW = st.one_of(st.none(), st.integers(-3, 3))


def table(pairs: list[tuple[int | None, int | None]], first: int = 0) -> pa.Table:
    rows = [{"a": a, "b": b, "at": at} for at, (a, b) in enumerate(pairs, start=first)]
    return pa.Table.from_pylist(rows, ROWS)


def key(some: pa.Table) -> tuple[Ints, ...]:
    return numbers(some, "a"), numbers(some, "b")


@settings(deadline=None)
@given(
    pairs=st.lists(st.lists(st.tuples(FEW, FEW), max_size=40), max_size=5),
    parts=st.integers(1, 7),
    spread_bytes=st.sampled_from([1, 500, 1 << 20]),
)
def test_rows_that_are_equal_are_in_one_part_and_each_is_there_once(
    pairs: list[list[tuple[int | None, int | None]]], parts: int, spread_bytes: int
) -> None:
    tables, count = list[pa.Table](), 0
    for some in pairs:
        tables.append(table(some, count))
        count += len(some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "SPREAD_BYTES", spread_bytes)
        frame = pa.Table.from_batches(spread(tables, parts, key), schema(BUNDLE))
    where: dict[tuple[int | None, int | None], int] = {}
    seen = []
    for part, rows, one in zip(
        frame["part"].to_pylist(), frame["rows"].to_pylist(), opened([frame]), strict=True
    ):
        assert 0 <= part < parts
        assert len(one) == rows > 0
        for row in one.to_pylist():
            assert where.setdefault((row["a"], row["b"]), part) == part
            seen.append(row)
    assert sorted(seen, key=lambda row: row["at"]) == [
        row for one in tables for row in one.to_pylist()
    ]


def test_parts_are_about_as_large_as_each_other() -> None:
    draw = random.Random(1)
    rows = table([(draw.randrange(1_000), draw.randrange(1 << 40)) for _ in range(10_000)])
    frame = pa.Table.from_batches(spread([rows], 16, key))
    counts = frame["rows"].to_pylist()
    assert len(counts) == 16
    assert max(counts) < 1.3 * 10_000 / 16


def test_a_bundle_is_no_larger_than_spark_copies_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "BUNDLE_BYTES", 1_000)
    rows = table([(1, 1)] * 500)
    batch = bundles.bundles(rows, part=3)
    assert set(batch["part"].to_pylist()) == {3}
    assert joined(pa.Table.from_batches([batch]), ROWS).equals(rows)
    assert all(one.nbytes <= 1_000 for one in opened([batch]))
    assert len(batch) > 5


def test_nothing_has_its_columns_too() -> None:
    batch = bundles.bundles(table([]))
    assert len(batch) == 0
    assert joined(pa.Table.from_batches([batch]), ROWS).equals(table([]))
