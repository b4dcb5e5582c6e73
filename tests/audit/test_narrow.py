"""Columns in few bytes, and what is worked out of them, are those of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.audit import arrays, files
from onceq.audit.arrays import NONE, Ints, alike, grouped, ordered
from onceq.audit.copies import ledger
from onceq.audit.events import READ, of_table, read_file
from onceq.audit.judge import Verdicts, judge
from onceq.audit.narrow import Narrow, Narrowing
from tests.audit.corruptions import corrupt
from tests.audit.histories import peopled

LEAST, MOST = NONE + 1, (1 << 63) - 1
EXTREMES: Final = st.sampled_from(
    (NONE, LEAST, -(1 << 32), -1, 0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32,
     (1 << 56) - 1, MOST)
)  # fmt: skip
NUMBERS: Final = EXTREMES | st.integers(NONE, MOST) | st.integers(0, 3)


def column(parts: Sequence[Ints]) -> Narrow:
    growing = Narrowing()
    for part in parts:
        growing.add(part)
    return growing.made()


def array(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def same(made: Narrow, values: Ints) -> None:
    assert len(made) == len(values)
    assert made.wide().tolist() == values.tolist()
    some = np.arange(len(values))[::-2]
    assert made[some].tolist() == made.take(some).wide().tolist() == values[some].tolist()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are several."""
    monkeypatch.setattr(arrays, "BLOCK", 7)


@given(st.lists(st.lists(NUMBERS, max_size=20), max_size=6))
def test_any_numbers_in_parts(parts: list[list[int]]) -> None:
    same(column([array(part) for part in parts]), array([one for part in parts for one in part]))


def spread(count: int, step: int, first: int = 0) -> Ints:
    return first + step * np.arange(count, dtype=np.int64)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (np.uint8, [spread(255, 1 << 40), array([NONE])]),
        (np.uint16, [spread(255, 1 << 40), array([NONE, -5])]),
        (np.uint16, [spread(40_000, 3, LEAST), spread(25_536, 3, 1 << 62)]),
        (np.uint32, [spread(40_000, 3), spread(40_000, 3, 1 << 62)]),
        (np.uint32, [spread(70_000, 1, LEAST), array([NONE, MOST])]),
        (np.uint32, [spread(1 << 17, 1 << 15)]),
        (np.int64, [spread(1 << 17, 1 << 15), array([NONE])]),
        (np.int64, [spread(300, 1 << 40), spread(70_000, 1 << 17, LEAST), array([7, NONE])]),
    ],
)  # fmt: skip
def test_as_few_bytes_as_they_need(
    kind: type, parts: list[Ints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number is there however often the column has to take more bytes."""
    monkeypatch.setattr(arrays, "BLOCK", 10_000)
    made = column(parts)
    assert made.codes.dtype == kind
    same(made, np.concatenate(parts))
    codes, wide = made.codes, made.wide()
    assert len(np.unique(codes)) == len(np.unique(wide)), "equal where the numbers are"


@given(st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[NUMBERS] * width), max_size=40)
))  # fmt: skip
def test_sorted_and_in_groups_whatever_their_size(rows: list[tuple[int, ...]]) -> None:
    columns = [array(one) for one in zip(*rows, strict=True)] or [array([])]
    wanted = sorted(range(len(rows)), key=lambda at: rows[at])
    assert ordered(*columns).tolist() == wanted
    order, groups = grouped(*columns)
    assert order.tolist() == wanted
    different = sorted(set(rows))
    assert [different[at] for at in groups.of.tolist()] == sorted(rows)
    assert [rows[order[at]] for at in groups.starts.tolist()] == different


@given(st.lists(st.tuples(NUMBERS, st.integers(-1, 1), st.booleans()), max_size=40))
def test_no_row_that_is_like_a_wanted_one_is_left_out(rows: list[tuple[int, int, bool]]) -> None:
    one, other, some = (np.array(each) for each in zip(*rows, strict=True)) if rows else [
        array([]), array([]), np.zeros(0, np.bool_)
    ]  # fmt: skip
    found = alike(lambda part: (one[part], other[part]), some.astype(np.bool_))
    keys = {(a, b) for a, b, wanted in rows if wanted}
    assert all(found[at] for at, (a, b, _) in enumerate(rows) if (a, b) in keys)
    assert keys or not found.any()


# ---- a whole audit -------------------------------------------------------------------------------


def ranked(values: Ints) -> Ints:
    """Numbers all over the range, in the same order."""
    return LEAST + (np.unique(values, return_inverse=True)[1].ravel().astype(np.int64) << 52)


def mixed_up(values: Ints) -> Ints:
    """Other numbers, all of 63 bits, that are equal where these are."""
    found = (values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(1)
    return found.astype(np.int64)


CHANGES: Final[dict[str, tuple[tuple[str, ...], Callable[[Ints], Ints]]]] = {
    "places in queues": (("lookupId", "fromLookupId"), ranked),
    "positions": (("position",), lambda v: v << 22),
    "streams": (("stream",), mixed_up),
    "messages": (("message",), mixed_up),
    "transactions": (("transaction",), mixed_up),
    "sizes": (("bytes",), lambda v: v + (1 << 61)),
}  # fmt: skip
"""Columns that are replaced by such with numbers of any size, which say the same."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[files.Coverage], pa.Table]:
    place = tmp_path_factory.mktemp("narrow") / "all"
    corrupt(peopled(place))
    found = files.find([str(place)])
    return found, pa.concat_tables(read_file(path) for one in found for path in one.files)


def judged(histories: list[files.Coverage], table: pa.Table) -> list[Verdicts]:
    events = of_table(table.select(list(READ)))
    return judge(events, ledger(events, histories), settled=True)


@pytest.mark.parametrize("what", [*CHANGES, "all of them"])
def test_an_audit_of_numbers_of_any_size(
    rows: tuple[list[files.Coverage], pa.Table], what: str
) -> None:
    histories, table = rows
    before = judged(histories, table)
    for names, change in CHANGES.values() if what not in CHANGES else [CHANGES[what]]:
        there = [np.array(table[name].cast(pa.int64()).fill_null(NONE)) for name in names]
        whole = np.concatenate(there)
        values = whole.copy()
        values[whole != NONE] = change(whole[whole != NONE])
        for name, part in zip(names, np.split(values, len(names)), strict=True):
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(part, mask=part == NONE))
    after = judged(histories, table)
    assert sum(len(one) for one in before) > 20
    assert [told(one) for one in after] == [told(one) for one in before]


def told(found: Verdicts) -> tuple[Any, ...]:
    numbers = sorted(found.number[found.stream != NONE].tolist())
    return found.invariant, found.fault, found.looks_at, found.looked_at, len(found), numbers
