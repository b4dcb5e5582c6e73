"""The table of endings: each situation leaves what is written down, and each row is needed."""

from __future__ import annotations

import pytest

from onceq.core.ending.table import FATES, Ending, Fate, Side, rows
from tests.unit.core.ending.situations import EVERYTHING, OUTCOMES, SITUATIONS, outcome, text
from tests.unit.core.ending.stage import Asked

HELD = {(side, False, Ending.REJECTED_AND_KEPT) for side in (Side.BOTH, Side.TARGET)}
"""What is held in no transaction, and rejected: nothing does both today."""
STAYS = {(Side.SOURCE, True, Ending.SETTLED_NOT_RECEIVED)}
"""It says no more than that the dead letter of the doubt stays where it is."""


def test_each_ending_leaves_what_is_written_down() -> None:
    assert text() == OUTCOMES.read_text()


def everything() -> list[str]:
    """What all situations leave where much was asked for."""
    return [
        outcome(one, asked, transactional=transactional)
        for _, transactional, one in SITUATIONS
        for asked in (EVERYTHING, Asked(level=15))
    ]


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_each_row_is_reached_and_makes_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an empty row in its place, something else is left in at least one situation."""
    before = everything()
    for key, fate in FATES.items():
        if key not in HELD | STAYS:
            monkeypatch.setitem(FATES, key, Fate())
            assert everything() != before, key
            monkeypatch.setitem(FATES, key, fate)


def test_the_page_has_every_row_once() -> None:
    shown = [(side, tx, ending) for ending, tx, sides, _ in rows() for side in sides]
    assert len(shown) == len(set(shown))
    assert set(shown) == set(FATES)
