"""One number for the rows of a write: the same for the same rows in any order, else another."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from onceq.spark.sink.rows import digest_of, rows_sum, target_of

NAMES = ("body", "label", "appSpecific")
ROWS: list[tuple[object, ...]] = [
    (b"%d" % n, None if n % 3 else f"l{n}", n % 5 or None) for n in range(100)
]
SCHEMA = pa.schema([("body", pa.binary()), ("label", pa.string()), ("appSpecific", pa.int32())])


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [pa.array(v, f.type) for v, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def total(rows: list[tuple[object, ...]], *cuts: int) -> int:
    whole = batch(rows)
    ends = (0, *cuts, len(rows))
    parts = [whole.slice(a, b - a) for a, b in pairwise(ends)]
    return sum(rows_sum(part, NAMES) for part in parts) % (1 << 64)


def test_order_and_cuts_mean_nothing() -> None:
    mixed = list(ROWS)
    random.Random(1).shuffle(mixed)
    assert total(ROWS) == total(mixed, 7, 7, 50) == total(ROWS, 99)
    assert total([]) == 0


def test_it_is_the_same_for_ever() -> None:
    """It stands in queue managers, beside versions."""
    assert total(ROWS) == 8_831_201_662_377_552_031
    assert digest_of(target_of(""), 100, total(ROWS)) == "100 rows 56b7818192bfef38"
    assert target_of(r"private$\Q") == target_of("PRIVATE$/q") == target_of(r"private$\q")
    assert target_of("q") == "8e35c2cd3bf6641bdb0e2050b76932cb"
    assert target_of("") == "column"


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:-1],
        [*ROWS, ROWS[0]],
        [*ROWS[:-1], (b"99x", *ROWS[-1][1:])],
        [*ROWS[:-1], (ROWS[-1][0], "other", ROWS[-1][2])],
        [*ROWS[:-1], (*ROWS[-1][:2], 77)],
        [(ROWS[0][0], ROWS[3][1], ROWS[0][2]), *ROWS[1:3],
         (ROWS[3][0], ROWS[0][1], ROWS[3][2]), *ROWS[4:]],
        [(b"", None, None), *ROWS],
    ],
    ids=["fewer", "twice", "body", "label", "number", "labels-changed-places", "empty"],
)  # fmt: skip
def test_other_rows_have_another(other: list[tuple[object, ...]]) -> None:
    assert total(other) != total(ROWS)


def test_columns_are_known_by_name() -> None:
    one = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "y"])
    turned = pa.RecordBatch.from_arrays([pa.array(["b"]), pa.array(["a"])], names=["x", "y"])
    assert rows_sum(one, ("body", "label")) == rows_sum(turned, ("label", "body"))
    assert rows_sum(one, ("body", "label")) != rows_sum(one, ("label", "body"))
    null, empty = (pa.RecordBatch.from_arrays([pa.array([v], pa.string())], names=["x"])
                   for v in (None, ""))  # fmt: skip
    assert rows_sum(null, ("label",)) != rows_sum(empty, ("label",))


def test_text_is_as_its_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        made = pa.RecordBatch.from_arrays([pa.array(["ä", "b"]).cast(kind)], names=["body"])
        assert rows_sum(made, ("body",)) == 10_232_567_603_448_556_867
