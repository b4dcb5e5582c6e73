"""The mark of a delayed message, behind the extension and the mark of a returned one."""

from __future__ import annotations

import pytest

from onceq.model.marks import (
    DELAYED_MARK,
    NEVER_S,
    delay_trailer,
    delayed,
    due_of,
    marked,
    undelayed,
    unmarked,
)


@pytest.mark.parametrize("extension", [b"", b"x", b"0123456789ab", bytes(1000)])
def test_a_mark_goes_and_comes_off(extension: bytes) -> None:
    assert undelayed(delayed(extension, 1_700_000_000)) == (extension, 1_700_000_000)
    assert undelayed(extension) == (extension, 0)


def test_it_takes_the_place_of_an_earlier_one() -> None:
    assert delayed(delayed(b"x", 1), 2) == b"x" + delay_trailer(2)


def test_it_stands_behind_the_mark_of_a_returned_message() -> None:
    both = delayed(marked(b"x", 3), 7)
    plain, due_s = undelayed(both)
    assert (unmarked(plain), due_s) == ((b"x", 3), 7)


@pytest.mark.parametrize("due_s", [0, NEVER_S])
def test_a_time_that_never_comes_is_no_mark(due_s: int) -> None:
    assert undelayed(b"x" + delay_trailer(due_s)) == (b"x" + delay_trailer(due_s), 0)


@pytest.mark.parametrize("end", [b"", DELAYED_MARK, b"1" + DELAYED_MARK, delay_trailer(1) + b"1"])
def test_other_bytes_are_no_mark(end: bytes) -> None:
    assert due_of(end) == 0
