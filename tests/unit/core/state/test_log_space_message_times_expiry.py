"""Keys in the order of their times: against a table that is walked, and what it keeps."""

from __future__ import annotations

import random

import pytest

from onceq.core.state.log_space import STALE_MAX, ExpiryTimes
from onceq.model.marks import NEVER_S


@pytest.mark.parametrize("seed", range(20))
def test_against_a_table_that_is_walked(seed: int) -> None:
    draw = random.Random(seed)
    made: ExpiryTimes[int] = ExpiryTimes()
    known: dict[int, int] = {}
    now_s = 0
    for _ in range(500):
        key, at_s = draw.randrange(20), draw.choice((now_s + draw.randrange(100), NEVER_S))
        made.note(key, at_s)
        known[key] = min(known.get(key, NEVER_S), at_s)
        assert made.next == min(known.values(), default=NEVER_S)
        if draw.random() < 0.2:
            now_s += draw.randrange(20)
            due = []
            while (one := made.due(now_s)) is not None:
                due.append((known.pop(one), one))
            assert due == sorted(due)
            assert all(at_s > now_s for at_s in known.values())


def test_times_that_do_not_count_any_more_are_not_kept() -> None:
    """Something lies there for a year; beside it, every second, something else for a second."""
    made: ExpiryTimes[int] = ExpiryTimes()
    for now_s in range(10_000):
        made.note(7, 1 << 30)
        made.note(7, now_s + 1)
        assert made.due(now_s + 1) == 7
    assert len(made._heap) <= STALE_MAX + 2
