"""Lines that others can cause: a few, and then their number."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from onceq.model.limits import LOG_LINES_AT_ONCE, LOG_RATE_S
from onceq.service.pacing import SECOND, Rates
from tests.unit.service.fakes import Clock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.message for record in caplog.records]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onceq")


def test_the_first_ones_are_lines_and_the_rest_a_number(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    later: list[Any] = []
    rates = Rates(clock)
    rates.later = later.append
    for number in range(1_000):
        rates.event("peer turned away", address="10.0.0.1", number=number)
    assert len(lines(caplog)) == LOG_LINES_AT_ONCE
    assert later == [LOG_RATE_S]
    clock.now_us += LOG_RATE_S * SECOND
    rates.tell()
    assert lines(caplog) == [
        f"peer turned away, more of these: count={1_000 - LOG_LINES_AT_ONCE} seconds={LOG_RATE_S} "
        "last_address=10.0.0.1 last_number=999"
    ]
    rates.tell()
    assert lines(caplog) == []
    rates.event("peer turned away", number=1)
    assert lines(caplog) == ["peer turned away: number=1"]


def test_the_number_is_told_with_the_next_one_too(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rates = Rates(clock)
    for _ in range(LOG_LINES_AT_ONCE + 7):
        rates.event("x")
    lines(caplog)
    clock.now_us += 2 * LOG_RATE_S * SECOND
    rates.event("x")
    assert lines(caplog) == [f"x, more of these: count=7 seconds={2 * LOG_RATE_S}", "x"]


def test_kinds_are_counted_apart(caplog: pytest.LogCaptureFixture) -> None:
    rates = Rates(Clock())
    for _ in range(LOG_LINES_AT_ONCE + 1):
        rates.event("session opened", of="strangers")
    lines(caplog)
    rates.event("session opened", of="known")
    rates.note("quota reached", {"of": 3})
    assert lines(caplog) == ["session opened", "quota reached: of=3"]


def test_an_interval_that_is_not_over_is_told_of_later_or_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    later: list[Any] = []
    rates = Rates(clock)
    rates.later = later.append
    for _ in range(LOG_LINES_AT_ONCE + 1):
        rates.event("x", level=logging.WARNING)
    lines(caplog)
    clock.now_us += 20 * SECOND
    rates.tell()
    assert (lines(caplog), later) == ([], [LOG_RATE_S, LOG_RATE_S - 20])
    rates.tell(all_of_it=True)
    assert lines(caplog) == ["x, more of these: count=1 seconds=20"]
    assert caplog.records == []
