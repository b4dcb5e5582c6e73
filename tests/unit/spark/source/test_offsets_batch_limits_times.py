"""Times of options, and the place in a queue that a time means."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import ConfigurationError
from onceq.spark.argument_checks import second_of, span_s
from onceq.spark.source.offsets import QueueSample, place_before


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("30 s", 30), ("500ms", 0.5), ("1500", 1.5), ("2H", 7_200), (" 0s ", 0)],
)
def test_spans(text: str, seconds: float) -> None:
    assert span_s(text, "maxTriggerDelay") == seconds


@pytest.mark.parametrize("text", ["", "-1s", "1.5s", "soon", "1d", "1" * 20])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ConfigurationError, match="maxTriggerDelay is a time such as"):
        span_s(text, "maxTriggerDelay")


@pytest.mark.parametrize(
    ("text", "second"),
    [("1700000000999", 1_700_000_000), ("1970-01-01T00:00:10Z", 10), (" 5000 ", 5),
     ("1970-01-01T01:00:10.9+01:00", 10)],
)  # fmt: skip
def test_times(text: str, second: int) -> None:
    assert second_of(text, "startingTimestamp") == second


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-11-24T05:00:00", "-5", "1969-12-31T00:00:00Z", "1" * 16]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigurationError, match="milliseconds since 1970, or a time with its"):
        second_of(text, "startingTimestamp")


@given(
    gaps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=40),
    second=st.integers(90, 220),
)
def test_a_place_is_found_around_holes(gaps: list[tuple[int, int]], second: int) -> None:
    """Places rise by 1 to 5, times by 0 to 3."""
    there: list[tuple[int, int]] = []
    place, time = 10, 100
    for step, later in gaps:
        place, time = place + step, time + later
        there.append((place, time))
    first, last = (there[0][0], there[-1][0]) if there else (0, 0)
    asked = 0

    def behind(at: int) -> tuple[int, int] | None:
        nonlocal asked
        asked += 1
        return next((one for one in there if one[0] > at), None)

    found = place_before(QueueSample("i", first, last, len(there), 0), second, behind)
    assert all(arrived < second for at, arrived in there if at <= found)
    assert all(arrived >= second for at, arrived in there if at > found)
    assert asked <= 9
    assert all(one < other for one, other in pairwise(at for at, _ in there))
