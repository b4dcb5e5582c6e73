"""For whom a program says that it works, beside where it is."""

from __future__ import annotations

import pytest

from onceq.model.rights import PERSON_CHARS_MAX, place_for


@pytest.mark.parametrize(
    ("place", "person", "found"),
    [
        ("local", "", "local"),
        ("local", "  ", "local"),
        ("local", "anna (4711)", "local for anna (4711)"),
        ("local, process 12", "anna", "local for anna, process 12"),
        ("10.0.0.7:1802", "anna", "10.0.0.7:1802 for anna"),
        ("local, process 12", "a, process 13\n\x1b[2J", "local for a_ process 13__[2J, process 12"),
    ],
)
def test_it_stands_behind_the_place_and_before_the_process(
    place: str, person: str, found: str
) -> None:
    assert place_for(place, person) == found


def test_it_is_short() -> None:
    assert place_for("local", "x" * 9999) == "local for " + "x" * PERSON_CHARS_MAX
