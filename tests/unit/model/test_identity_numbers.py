"""Numbers in texts from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.model.identity import NUMBER_MAX, read_number


@given(st.integers(0, NUMBER_MAX))
def test_a_number_is_read(number: int) -> None:
    assert read_number(str(number)) == number
    assert read_number(f"{number:020}") == number


@pytest.mark.parametrize(
    "text",
    ["", " 1", "+1", "-1", "1_0", "\u00b2", "\u0665", "1\n", "9" * 20, "0" * 21, "9" * 5_000],
)
def test_what_is_no_number(text: str) -> None:
    """Python takes some of these for digits, and fails on others."""
    assert read_number(text) is None


def test_bounds_belong_to_it() -> None:
    assert [read_number(text, 9, 2) for text in ("1", "2", "9", "10")] == [None, 2, 9, None]
