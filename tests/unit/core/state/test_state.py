"""What a state forgets where a table of it is full: what is oldest."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.state.records import Change, SeenIdentifiers
from onceq.core.state.state import State
from onceq.model import limits
from tests.unit.core.alone import IDENTITY

SOURCE, KEY = b"S" * 16, "os:a\\private$\\q"


def test_of_too_many_refusals_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFUSALS_MAX", 3)
    made = State(IDENTITY)
    for number in (1, 2, 3, 1, 4):
        made.apply(Change(1_000, refused=[(7, number)]), 0, [])
    assert list(made.refused) == [(7, 3), (7, 1), (7, 4)]


def test_of_too_many_identifiers_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DUPLICATE_IDS_MAX", 3)
    made = State(IDENTITY)
    for number in (1, 2, 3, 1, 4):
        change = Change(1_000)
        change.seen.append(SeenIdentifiers(SOURCE, KEY, array("I", (number,))))
        made.apply(change, 0, [])
    assert [key[2] for key in made.seen] == [3, 1, 4]
