"""The store survives every crash point of its scenarios, on every legal disk (P5)."""

from __future__ import annotations

import pytest

from tests.crash.programme import SCENARIOS, Tally, run


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_crash_point_and_image(name: str) -> None:
    tally = Tally()
    run(name, 120, tally)
    assert tally.points >= 5
    assert tally.images > 100
