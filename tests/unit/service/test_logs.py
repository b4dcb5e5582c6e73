"""The log: one line for each event, whatever came from outside."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceq.model.limits import LOG_LINES_MAX
from onceq.service import logs


class Read(io.StringIO):
    """What was written, when all of it was."""

    handler: logging.Handler

    def getvalue(self) -> str:
        self.handler.flush()
        return super().getvalue()


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = Read()
    root = logging.getLogger()
    before = root.level
    handler = stream.handler = logs.set_up("info", stream)
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
    logs.change("debug", "text")
    logs.event("detail", level=logging.DEBUG)
    logs.change("error", "text")
    logs.event("no matter")
    assert "DEBUG detail" in written.getvalue()
    assert "no matter" not in written.getvalue()


def test_the_level_of_an_application_is_its_own_matter() -> None:
    before = logging.getLogger().level
    logs.change("debug", "text")
    assert logging.getLogger().level == before


@pytest.fixture
def objects(written: io.StringIO) -> Callable[[], list[dict[str, Any]]]:
    """What was written as JSON, line by line."""
    logs.change("info", "json")
    return lambda: [json.loads(line) for line in written.getvalue().split("\n")[:-1]]


def test_an_event_can_be_an_object(objects: Callable[[], list[dict[str, Any]]]) -> None:
    logs.event("session opened", session=3, address="10.0.0.7", known=True, ratio=0.5, peer=None)
    (one,) = objects()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one.pop("time"))
    assert one == {
        "level": "INFO", "event": "session opened", "session": 3, "address": "10.0.0.7",
        "known": True, "ratio": 0.5, "peer": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", ["two\nlines", '"', "\x1b[31m", "\u2028", "\udcff", "x" * 10_000, b"bytes", [1, 2]]
)
def test_no_value_breaks_an_object(
    objects: Callable[[], list[dict[str, Any]]], written: io.StringIO, value: object
) -> None:
    logs.event("said", reason=value)
    (one,) = objects()
    assert written.getvalue().isascii()
    assert one["reason"] == str(value)[:500] + ("…" if len(str(value)) > 500 else "")


def test_a_value_cannot_pass_for_the_event(objects: Callable[[], list[dict[str, Any]]]) -> None:
    logs.event("said", time="never", event="another", ratio=float("nan"))
    (one,) = objects()
    assert (one["event"], one["event_"], one["time_"]) == ("said", "another", "never")
    assert one["ratio"] == "nan"


def test_a_mistake_is_one_line_with_its_trace(
    objects: Callable[[], list[dict[str, Any]]], written: io.StringIO
) -> None:
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError:
        logs.log.exception("a mistake of %s", "ours")
    (one,) = objects()
    assert (one["level"], one["event"]) == ("ERROR", "a mistake of ours")
    assert "RuntimeError: two" in one["trace"]
    assert written.getvalue().count("\n") == 1


def full_pipe() -> tuple[int, int]:
    """A pipe that takes no byte more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"\n" * 4096)
    os.set_blocking(write, True)
    return read, write


def test_nobody_waits_for_whoever_reads_the_log() -> None:
    read, write = full_pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as stream:
        lines = logs.Lines(stream)
        for number in range(LOG_LINES_MAX * 3):
            lines.say(f"line {number}")
        assert not lines.flush(0.0), "nobody has read a byte of it"
        got = iter(line.rstrip("\n") for line in reader if line != "\n")
        assert next(got) == "line 0"
        last, said = 0, 0
        for line in got:
            if line.startswith("line "):
                last += 1
                assert line == f"line {last}", "the first ones, in their order"
            else:
                said = int(line.split()[0].replace(",", ""))
                break
        assert last + 1 + said == LOG_LINES_MAX * 3, "each was written, or is counted"
        assert said >= LOG_LINES_MAX - 1


def test_a_closed_stream_stops_nobody() -> None:
    read, write = os.pipe()
    os.close(read)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as stream:
        lines = logs.Lines(stream)
        lines.say("to nobody")
        assert lines.flush(30.0)
