"""A benchmark that loses messages fails: its check must be able to notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceq.cli.bench import Bodies, WrongMessages, percentile, sync_rate


def test_what_was_made_passes() -> None:
    bodies = Bodies(64)
    made = bodies.make(100) + bodies.make(1) + bodies.make(5)
    assert {len(body) for body in made} == {64}
    bodies.check(made[:50])
    bodies.check(made[50:])
    assert bodies.seen == bodies.made == 106


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (lambda b: b[:3] + b[4:], "message 4 came where 3 was due"),
        (lambda b: [*b[:3], b[2], *b[3:]], "message 2 came where 3 was due"),
        (lambda b: [*b[:3], b[4], b[3], *b[5:]], "message 4 came where 3 was due"),
        (lambda b: [*b[:3], b[3][:-1], *b[4:]], "lost its size"),
    ],
)
def test_lost_repeated_swapped_and_cut_are_noticed(fault: object, text: str) -> None:
    assert callable(fault)
    bodies = Bodies(32)
    with pytest.raises(WrongMessages, match=text):
        bodies.check(fault(bodies.make(10)))


def test_a_body_has_room_for_its_number() -> None:
    with pytest.raises(ValueError, match="8 bytes"):
        Bodies(7)


def test_percentiles() -> None:
    values = [float(n) for n in range(100)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile([3.0], 0.99) == 3.0


def test_the_yardstick_leaves_nothing_behind(tmp_path: Path) -> None:
    assert sync_rate(str(tmp_path), 0.0) > 0
    assert list(tmp_path.iterdir()) == []
