"""Programme P4 with ``--readers``: kept worlds in which readers remove what they have written."""

from __future__ import annotations

import pytest

from proof.sim.apps import readers
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed
from tests.simulation.conftest import Draw

KEPT = (*range(30), 130, 131, 139, 165, 220)
"""The last five reach what is rarest: one world of fifty comes there."""


@pytest.mark.slow
def test_worlds_in_which_readers_remove_what_they_have_written(
    monkeypatch: pytest.MonkeyPatch, draw_until: Draw
) -> None:
    monkeypatch.setattr(readers, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in draw_until(KEPT, reached, marks.OF_READERS):
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_READERS), dict(reached)
