"""Dates of SRMP: every second there and back, and what is no date."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import MalformedPacket
from onceq.wire.srmp.envelope import DAY_S, FOREVER_S, seconds_of, text_of

SECONDS = st.integers(0, FOREVER_S)


@given(SECONDS)
def test_dates_are_those_of_the_calendar(seconds: int) -> None:
    said = datetime.fromtimestamp(seconds, UTC)
    assert text_of(seconds) == said.strftime("%Y%m%dT%H%M%S")
    assert seconds_of(text_of(seconds)) == seconds
    assert seconds_of(said.strftime("%Y-%m-%dT%H:%M:%SZ")) == seconds


@pytest.mark.parametrize("year", [1972, 1999, 2000, 2024, 2026])
def test_every_day_of_a_year(year: int) -> None:
    first = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    for day in range(366):
        seconds = first + day * DAY_S
        assert text_of(seconds) == datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%S")
        assert seconds_of(text_of(seconds)) == seconds


def test_what_cannot_be_said_is_the_first_or_the_last_second() -> None:
    assert text_of(-5) == "19700101T000000"
    assert text_of(FOREVER_S + 1) == text_of(FOREVER_S) == "20380119T031407"
    assert seconds_of("19600101T000000") == 0
    assert seconds_of("99991231T235959") == FOREVER_S


@pytest.mark.parametrize(
    "text",
    ["", "20260101", "20260101T0000", "20261301T000000", "20260001T000000", "20260132T000000",
     "20260101T240000", "20260101T006000", "20260101T000061", "20260101T000000+01:00",
     " 20260101T000000", "x" * 100],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(MalformedPacket, match="not a date"):
        seconds_of(text)
