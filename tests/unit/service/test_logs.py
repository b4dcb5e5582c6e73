"""The log: one line for each event, whatever came from outside."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from onceq.service import logs


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.level
    handler = logs.set_up("info", stream)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def test_one_line_with_time_level_words_and_values(written: io.StringIO) -> None:
    logs.event("session opened", session=3, address="10.0.0.7")
    logs.event("stopped")
    first, second = written.getvalue().splitlines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(stamp + r" INFO session opened: session=3 address=10\.0\.0\.7", first)
    assert re.fullmatch(stamp + " INFO stopped", second)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a\nINFO forged: x=1", r'"a\nINFO forged: x=1"'),
        ('say "x"', r'"say \"x\""'),
        ("\x1b[31mred", r'"\x1b[31mred"'),
        ("b=1", '"b=1"'),
        ("Grüße", "Grüße"),
        ("Grüße an\u2028alle", r'"Gr\xfc\xdfe an\u2028alle"'),
    ],
)
def test_no_value_breaks_its_line(written: io.StringIO, value: str, shown: str) -> None:
    logs.event("said", reason=value)
    (line,) = written.getvalue().splitlines()
    assert line.endswith(f"INFO said: reason={shown}")


def test_values_are_cut(written: io.StringIO) -> None:
    logs.event("said", reason="x" * 100_000)
    assert len(written.getvalue()) < 600


def test_what_is_below_the_level_is_not_even_made(written: io.StringIO) -> None:
    class Never:
        def __str__(self) -> str:
            raise AssertionError("made for nothing")

    logs.event("said", level=logging.DEBUG, reason=Never())
    assert written.getvalue() == ""


def test_a_library_says_nothing_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
    try:
        logs.event("trouble", level=logging.WARNING)
    finally:
        for handler in handlers:
            logging.getLogger().addHandler(handler)
    assert capfd.readouterr() == ("", "")


def test_the_level_can_be_changed_of_what_this_process_writes(written: io.StringIO) -> None:
    logs.change_level("debug")
    logs.event("detail", level=logging.DEBUG)
    logs.change_level("error")
    logs.event("no matter")
    assert "DEBUG detail" in written.getvalue()
    assert "no matter" not in written.getvalue()


def test_the_level_of_an_application_is_its_own_matter() -> None:
    before = logging.getLogger().level
    logs.change_level("debug")
    assert logging.getLogger().level == before
