"""Times on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from onceq.cli.sending import length, moment
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


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-03-29T02:30", "never; say 2026-03-29T01:30:00+01:00 or 2026-03-29T03:30:00+02:00"),
        ("2026-10-25T02:30", "twice; say 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"),
    ],
    ids=["left-out", "twice"],
)
def test_a_local_time_that_the_clock_does_not_show_once_is_refused(text: str, said: str) -> None:
    """Finding K16."""
    with pytest.raises(IllegalPropertyValue) as refused:
        moment("--at", text)
    assert said in refused.value.text
    for one in ("01:59", "03:00"):
        assert moment("--at", f"{text[:11]}{one}").minute == int(one[3:])
    assert moment("--at", f"{text}+01:00").astimezone(UTC).hour == 1
