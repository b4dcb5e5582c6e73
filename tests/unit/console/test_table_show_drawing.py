"""Pictures of numbers: inside their box, on one scale, with a text for who cannot see them."""

from __future__ import annotations

import re

from onceq.console.table import HEIGHT, WIDTH, sparkline


def points(values: list[float], top: float) -> list[tuple[float, float]]:
    found = re.search(r'points="([^"]*)"', sparkline(values, top=top, label="x"))
    assert found
    return [tuple(map(float, pair.split(","))) for pair in found[1].split()]  # type: ignore[misc]


def test_a_line_stays_in_its_box() -> None:
    drawn = points([0, 5, 10, 99, -3], 10)
    assert [x for x, _ in drawn] == [0, WIDTH / 4, WIDTH / 2, WIDTH * 3 / 4, WIDTH]
    assert all(0 < y < HEIGHT for _, y in drawn)
    assert drawn[0][1] == drawn[4][1] > drawn[1][1] > drawn[2][1] == drawn[3][1]


def test_what_is_larger_is_higher_in_every_picture() -> None:
    assert points([5, 5], 10)[0][1] > points([9, 9], 10)[0][1]


def test_nothing_is_a_picture_too() -> None:
    assert "polyline" not in sparkline([], top=0, label="x")
    assert "polyline" not in sparkline([1], top=0, label="x")
    assert points([0, 0], 0)


def test_its_text_is_escaped() -> None:
    assert '"&lt;b&gt;&#34;"' in sparkline([], top=1, label='<b>"')
