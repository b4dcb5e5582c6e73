"""Programme P4 with ``--pauses``: kept worlds in which operators pause queues."""

from __future__ import annotations

import pytest

from proof.sim.apps import pausing
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed
from tests.simulation.conftest import Draw

KEPT = range(20)


@pytest.mark.slow
def test_worlds_in_which_queues_are_paused(
    monkeypatch: pytest.MonkeyPatch, draw_until: Draw
) -> None:
    monkeypatch.setattr(pausing, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in draw_until(KEPT, reached, marks.OF_PAUSES):
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_PAUSES), dict(reached)
