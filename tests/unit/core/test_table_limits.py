"""What is forgotten where a table is full: always what is oldest, and never so that it lies."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.state import in_doubt_table, state
from onceq.core.state.in_doubt_table import Memories
from onceq.core.state.queues import Progress
from onceq.core.state.records import Change, Seen
from onceq.core.state.state import State
from tests.unit.core.alone import IDENTITY

SOURCE, KEY = b"S" * 16, "os:a\\private$\\q"


def test_of_too_many_identifiers_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "DUPLICATE_IDS_MAX", 3)
    made = State(IDENTITY)
    for number in (1, 2, 3, 1, 4):
        change = Change(1_000)
        change.seen.append(Seen(SOURCE, KEY, array("I", (number,))))
        made.apply(change, 0, [])
    assert [key[2] for key in made.seen] == [3, 1, 4]


def test_of_too_many_ranges_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was passed over before the ranges that are remembered is unknown, not accepted."""
    monkeypatch.setattr(in_doubt_table, "PASSED_RANGES_MAX", 2)
    memories, progress = Memories(), Progress(SOURCE, KEY)
    for number in (1, 3, 5, 7):
        memories.advance(progress, 9, number, number, surely_new=True)
    assert progress.passed == ((4, 4), (6, 6))
    assert memories.current(progress).since == 3
