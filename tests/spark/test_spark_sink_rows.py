"""Rows as pieces: every row once, in order, with its properties, however a batch is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")

from onceq.errors import BodyTooLarge, IllegalPropertyValue  # noqa: E402
from onceq.model.run import Run  # noqa: E402
from onceq.spark.sink.branches import BRANCH_BYTES, BRANCH_MESSAGES, parts  # noqa: E402
from onceq.spark.sink.rows import BODY_BYTES_MAX, Piece, Pieces  # noqa: E402
from onceq.spark.sink.task import _cut  # noqa: E402

TYPES = {
    "body": pa.binary(), "queue": pa.string(), "label": pa.string(), "appSpecific": pa.int64(),
    "correlationId": pa.binary(), "bodyType": pa.int32(),
}  # fmt: skip


def batch_of(rows: list[dict[str, Any]], names: list[str], **types: Any) -> Any:
    kinds = {**TYPES, **types}
    arrays = [pa.array([row.get(name) for row in rows], type=kinds[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def pieces(batch: Any, apart: Any = None, **common: Any) -> list[Piece]:
    return list(Pieces(batch.schema.names, common, apart).of(batch))


ROWS = st.lists(
    st.fixed_dictionaries({
        "body": st.none() | st.binary(max_size=6),
        "queue": st.sampled_from([None, "a", "b", "a,c", "c"]),
        "label": st.sampled_from([None, "", "l", "m", "bad\0", "x" * 250]),
        "appSpecific": st.sampled_from([None, 0, 7, -1]),
        "bodyType": st.sampled_from([None, 8, -1]),
    }),
    max_size=30,
)  # fmt: skip
KNOWN = (
    ("label", "label", ""), ("appSpecific", "app_specific", 0), ("bodyType", "body_type", 0)
)  # fmt: skip


def expected_of(row: dict[str, Any]) -> list[Any]:
    found: list[Any] = [default if row[name] is None else row[name] for name, _, default in KNOWN]
    found[2] &= 0xFFFF_FFFF
    return found


def shown(piece: Piece) -> list[list[Any]]:
    """The properties of each of its rows."""
    return [
        [piece.value(known, index, default) for _, known, default in KNOWN]
        for index in range(len(piece.bodies))
    ]


@given(ROWS, st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans())
def test_every_row_is_in_one_piece_with_its_own_properties(
    rows: list[dict[str, Any]], skip: int, drop: int, wide: bool, grouped: bool
) -> None:
    """And rows that have a queue in common stay in order, whichever go first."""
    names = ["label", "body", "queue", "appSpecific", "bodyType"]
    kinds = {"body": pa.large_binary(), "queue": pa.large_string()} if wide else {}
    batch = batch_of(rows, names, **kinds).slice(skip, max(len(rows) - skip - drop, 0))
    rows = rows[skip : skip + batch.num_rows]
    groups = {None: 9, "a": 0, "a,c": 0, "c": 0, "b": 1}
    apart = (lambda names: [groups[name] for name in names]) if grouped else None
    order: list[int] = []
    for piece in pieces(batch, apart, journal=1):
        assert piece.values["journal"] == 1
        assert piece.shared == {name: v for name, v in piece.values.items() if type(v) is not list}
        assert list(piece.rows) == sorted(piece.rows)
        assert len(piece.rows) == len(piece.bodies)
        for body, at, values in zip(piece.bodies, piece.rows, shown(piece), strict=True):
            row = rows[at]
            assert bytes(body) == (row["body"] or b"")
            assert isinstance(piece.trouble, IllegalPropertyValue) == (row["body"] is None)
            assert values == expected_of(row)
            assert piece.queue == row["queue"]
            if row["appSpecific"] == -1 or row["label"] in ("bad\0", "x" * 250):
                assert len(piece.rows) == 1, "what is refused is one row's matter"
        order += piece.rows
    assert sorted(order) == list(range(len(rows)))
    if not grouped:
        assert order == sorted(order)
    for group in set(groups.values()):
        those = [at for at in order if groups[rows[at]["queue"]] == group]
        assert those == sorted(those)


def test_what_differs_only_in_labels_is_one_piece() -> None:
    rows = [
        {"body": b"%d" % n, "label": f"row {n}" if n % 3 else None, "appSpecific": 7,
         "correlationId": b"%020d" % n, "bodyType": -n}
        for n in range(1, 1_000)
    ]  # fmt: skip
    names = ["body", "label", "appSpecific", "correlationId", "bodyType"]
    (piece,) = pieces(batch_of(rows, names))
    assert piece.values["app_specific"] == 7
    assert piece.values["label"] == [row["label"] for row in rows]
    assert piece.values["correlation_id"] == [row["correlationId"] for row in rows]
    assert piece.values["body_type"] == [(1 << 32) - n for n in range(1, 1_000)]


def test_labels_that_seldom_change_end_a_piece() -> None:
    """What is alike then needs no header for each row."""
    rows = [{"body": b"x", "label": f"row {n // 100}", "bodyType": 8} for n in range(1_000)]
    found = pieces(batch_of(rows, ["body", "label", "bodyType"]))
    assert [piece.values for piece in found] == [
        {"label": f"row {n}", "body_type": 8} for n in range(10)
    ]
    assert [len(piece.rows) for piece in found] == [100] * 10


def test_destinations_in_turns_are_a_piece_each() -> None:
    names = [f"q{n}" for n in range(8)]
    rows = [{"body": b"%d" % n, "queue": names[n * 3 % 8]} for n in range(800)]
    found = pieces(batch_of(rows, ["body", "queue"]), lambda given: range(len(given)))
    assert sorted(piece.queue or "" for piece in found) == names
    for piece in found:
        assert [int(body) for body in piece.bodies] == list(piece.rows)
        assert len(piece.rows) == 100
    already = sorted(rows, key=lambda row: str(row["queue"]))
    assert all(
        isinstance(piece.rows, range)
        for piece in pieces(batch_of(already, ["body", "queue"]), lambda given: range(len(given)))
    )


@pytest.mark.parametrize("value", [1 << 32, -(1 << 31) - 1, 1 << 40])
def test_a_type_that_has_no_32_bits_is_not_cut_to_size(value: int) -> None:
    rows = [{"body": b"a", "bodyType": 1}, {"body": b"b", "bodyType": value}]
    first, second = pieces(batch_of(rows, ["body", "bodyType"], bodyType=pa.int64()))
    assert (first.values, second.values) == ({"body_type": 1}, {"body_type": value})


def test_rows_that_are_alike_are_one_piece_without_a_copy() -> None:
    batch = batch_of(
        [{"body": b"%d" % n, "label": "same"} for n in range(1_000)], ["body", "label"]
    )
    (piece,) = pieces(batch)
    assert isinstance(piece.bodies.data, memoryview), "Arrow's own bytes"
    assert piece.bodies.data.obj is not None
    assert list(map(bytes, piece.bodies)) == [b"%d" % n for n in range(1_000)]


def test_text_is_utf_8_and_bodies_have_a_limit() -> None:
    batch = batch_of([{"body": "ä"}, {"body": "x" * (BODY_BYTES_MAX + 1)}, {"body": "y"}],
                     ["body"], body=pa.string())  # fmt: skip
    good, large, last = pieces(batch)
    assert list(map(bytes, good.bodies)) == ["ä".encode()]
    assert isinstance(large.trouble, BodyTooLarge)
    assert (list(large.rows), list(last.rows), last.trouble) == ([1], [2], None)
    assert pieces(batch_of([], ["body"])) == []


def test_what_is_too_much_for_a_branch_is_cut_in_order() -> None:
    run = Run.of([b"x" * (n % 3) for n in range(2 * BRANCH_MESSAGES + 5)])
    firsts, found = zip(*parts(run), strict=True)
    assert firsts == (0, BRANCH_MESSAGES, 2 * BRANCH_MESSAGES)
    assert [len(part) for part in found] == [BRANCH_MESSAGES, BRANCH_MESSAGES, 5]
    assert b"".join(bytes(part.data) for part in found) == bytes(run.data)
    assert [n for part in found for n in part.lengths] == list(run.lengths)
    size = BRANCH_BYTES * 5 // 8
    big = Run.of([b"a" * size, b"b" * size, b"c"])
    assert [(first, len(part)) for first, part in parts(big)] == [(0, 1), (1, 2)]


def test_what_does_not_fit_into_an_error_queue_loses_its_end() -> None:
    run = Run.of([b"x" * (BODY_BYTES_MAX + 1), b"x" * (BODY_BYTES_MAX + 9)])
    assert list(_cut(run).lengths) == [BODY_BYTES_MAX // 2] * 2
    fits = Run.of([b"x" * BODY_BYTES_MAX])
    assert _cut(fits) is fits
