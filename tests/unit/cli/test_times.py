"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onceq.cli.times import length, moment
from onceq.errors import IllegalPropertyValue


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("10m", 600), ("2h", 7_200), ("1d", 86_400)]
)
def test_lengths(text: str, seconds: int) -> None:
    assert length("--delay", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5h", "1w", "10 m", "m10", "9" * 10, "\u0661m"])
def test_what_is_no_length_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(IllegalPropertyValue, match=r"--delay .*such as 10m"):
        length("--delay", text)


def test_moments() -> None:
    assert moment("--at", "2026-12-01T08:00Z") == datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert moment("--at", "2026-12-01T08:00+02:00") == datetime(2026, 12, 1, 6, tzinfo=UTC)
    local = moment("--at", "2026-12-01 08:00")
    assert (local.replace(tzinfo=None), local.tzinfo is None) == (datetime(2026, 12, 1, 8), False)


@pytest.mark.parametrize("text", ["", "tomorrow", "8:00", "2026-13-01", "1700000000"])
def test_what_is_no_moment_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(IllegalPropertyValue, match=r"--at .*2026-12-01T08:00Z"):
        moment("--at", text)
