"""What was written counts as taken when it was read."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceq.cli import terminal
from onceq.cli.terminal import Drain


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """Its two ends; those that a test has closed are gone from the list."""
    ends = list(os.pipe())
    yield ends
    for end in ends:
        os.close(end)


class _Poll:
    """In place of ``select.poll``: another process does something while we wait."""

    def __init__(self, does: list[object]) -> None:
        self.does = does
        self.waits: list[int] = []

    def register(self, descriptor: int, events: int) -> None:
        pass

    def poll(self, wait: int) -> list[tuple[int, int]]:
        self.waits.append(wait)
        action = self.does.pop(0)
        return action() if callable(action) else []


def test_what_is_not_read_is_waited_for(pipe: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pipe
    monkeypatch.setattr(terminal, "LOOKS", 1)

    def read() -> list[tuple[int, int]]:
        assert os.read(source, 100) == b"a line\n"
        return []

    made = _Poll([None, None, None, read])
    monkeypatch.setattr(select, "poll", lambda: made)
    drain = Drain(target)
    assert not drain.takes_all
    os.write(target, b"a line\n")
    drain.wait()
    assert made.waits == [0, 1, 2, 5]
    drain.wait()


def test_a_reader_that_goes_away_has_not_read_it(pipe: list[int]) -> None:
    drain = Drain(pipe[1])
    os.write(pipe[1], b"a line\n")
    os.close(pipe.pop(0))
    with pytest.raises(BrokenPipeError):
        drain.wait()


def test_a_reader_that_went_away_with_everything_has_read_it(pipe: list[int]) -> None:
    drain = Drain(pipe[1])
    os.write(pipe[1], b"a line\n")
    assert os.read(pipe[0], 100) == b"a line\n"
    os.close(pipe.pop(0))
    drain.wait()


def test_a_file_takes_all(tmp_path: Path) -> None:
    for path in (str(tmp_path / "out"), os.devnull):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        drain = Drain(descriptor)
        assert drain.takes_all
        os.write(descriptor, b"a line\n")
        drain.wait()
        os.close(descriptor)
