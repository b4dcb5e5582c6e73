"""Runs of bodies: their parts, and sums over their lengths."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.model.run import Run, alike, largest_of, starts_of, total_of


@given(st.lists(st.binary(max_size=20), max_size=20), st.data())
def test_a_part_of_a_run_is_its_messages(items: list[bytes], data: st.DataObject) -> None:
    run = Run.of(items)
    assert len(run) == len(items)
    assert list(map(bytes, run)) == items
    assert run.lengths == array("I", map(len, items))
    first = data.draw(st.integers(0, len(items)))
    count = data.draw(st.integers(0, len(items) - first))
    assert list(map(bytes, run.part(first, count))) == items[first : first + count]


@pytest.mark.parametrize("count", [1, 2, 32, 33, 500])
@given(st.integers(0, 9), st.integers(0, 499), st.integers(0, 9), st.integers(0, 1 << 40))
def test_sums_over_tables_of_lengths(
    count: int, size: int, odd_at: int, odd: int, first: int
) -> None:
    """All alike, or one of them another: the same as looking at each."""
    lengths = array("I", [size]) * count
    lengths[odd_at % count] = odd
    assert alike(lengths) == (len(set(lengths)) == 1)
    assert total_of(lengths) == sum(lengths)
    assert largest_of(lengths) == max(lengths)
    assert list(starts_of(lengths, first)) == list(accumulate(lengths, initial=first))


def test_sums_over_an_empty_table() -> None:
    none = array("I")
    assert (total_of(none), largest_of(none), list(starts_of(none, 5))) == (0, 0, [5])
