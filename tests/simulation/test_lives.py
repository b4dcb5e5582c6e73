"""Programme P4 with ``--lives``: kept worlds in which managers are put back to earlier moments."""

from __future__ import annotations

import pytest

from proof.sim.base import marks
from proof.sim.faults import lives
from proof.sim.simulate import describe, run_seed
from tests.simulation.conftest import Draw

KEPT = range(300, 324)


@pytest.mark.slow
def test_worlds_in_which_managers_are_put_back(
    monkeypatch: pytest.MonkeyPatch, draw_until: Draw
) -> None:
    monkeypatch.setattr(lives, "SHARE", 1.0)
    wanted = (marks.HOT_BACKUP, marks.RESTORED, marks.RESTORED_HOT, marks.TURNS, marks.RELOADED)
    reached: marks.Marks = marks.Marks()
    for seed in draw_until(KEPT, reached, wanted):
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, wanted)
