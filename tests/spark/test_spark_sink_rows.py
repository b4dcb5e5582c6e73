"""Rows as pieces: every row once, in order, with its properties, however a batch is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")

from onceq.errors import BodyTooLarge, IllegalPropertyValue  # noqa: E402
from onceq.model.run import Run  # noqa: E402
from onceq.spark.sink_rows import BODY_BYTES_MAX, Piece, Pieces  # noqa: E402
from onceq.spark.sink_task import BRANCH_MESSAGES, _cut, _parts  # noqa: E402

TYPES = {
    "body": pa.binary(), "queue": pa.string(), "label": pa.string(), "appSpecific": pa.int64(),
    "correlationId": pa.binary(), "bodyType": pa.int32(),
}  # fmt: skip


def batch_of(rows: list[dict[str, Any]], names: list[str], **types: Any) -> Any:
    kinds = {**TYPES, **types}
    arrays = [pa.array([row.get(name) for row in rows], type=kinds[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def pieces(batch: Any, **common: Any) -> list[Piece]:
    return list(Pieces(batch.schema.names, common).of(batch))


ROWS = st.lists(
    st.fixed_dictionaries({
        "body": st.none() | st.binary(max_size=6),
        "queue": st.sampled_from([None, "a", "b"]),
        "label": st.sampled_from([None, "", "l"]),
        "appSpecific": st.sampled_from([None, 0, 7]),
        "bodyType": st.sampled_from([None, 8, -1]),
    }),
    max_size=30,
)  # fmt: skip


@given(ROWS, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_every_row_is_in_one_piece_with_its_own_properties(
    rows: list[dict[str, Any]], skip: int, drop: int, wide: bool
) -> None:
    names = ["label", "body", "queue", "appSpecific", "bodyType"]
    kinds = {"body": pa.large_binary()} if wide else {}
    batch = batch_of(rows, names, **kinds).slice(skip, max(len(rows) - skip - drop, 0))
    rows = rows[skip : skip + batch.num_rows]
    at = 0
    before: object = None
    for piece in pieces(batch, journal=1):
        assert piece.first == at
        for body in piece.bodies:
            row = rows[at]
            assert bytes(body) == (row["body"] or b"")
            assert isinstance(piece.trouble, IllegalPropertyValue) == (row["body"] is None)
            expected = {"journal": 1}
            for name, known in (("label", "label"), ("appSpecific", "app_specific")):
                if row[name] is not None:
                    expected[known] = row[name]
            if row["bodyType"] is not None:
                expected["body_type"] = row["bodyType"] & 0xFFFF_FFFF
            assert piece.values == expected
            assert piece.queue == row["queue"]
            at += 1
        now = (piece.values, piece.queue, piece.trouble is None)
        assert now != before, "two pieces that could be one"
        before = now
    assert at == len(rows)


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
    assert (large.first, last.first, last.trouble) == (1, 2, None)
    assert pieces(batch_of([], ["body"])) == []


def test_what_is_too_much_for_a_branch_is_cut_in_order() -> None:
    run = Run.of([b"x" * (n % 3) for n in range(2 * BRANCH_MESSAGES + 5)])
    parts = list(_parts(run))
    assert [len(part) for part in parts] == [BRANCH_MESSAGES, BRANCH_MESSAGES, 5]
    assert b"".join(bytes(part.data) for part in parts) == bytes(run.data)
    assert [n for part in parts for n in part.lengths] == list(run.lengths)
    big = Run.of([b"a" * (20 << 20), b"b" * (20 << 20), b"c"])
    assert [len(part) for part in _parts(big)] == [1, 2]


def test_what_does_not_fit_into_an_error_queue_loses_its_end() -> None:
    run = Run.of([b"x" * (BODY_BYTES_MAX + 1), b"x" * (BODY_BYTES_MAX + 9)])
    assert list(_cut(run).lengths) == [BODY_BYTES_MAX // 2] * 2
    fits = Run.of([b"x" * BODY_BYTES_MAX])
    assert _cut(fits) is fits
