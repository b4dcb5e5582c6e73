"""Programme P4 with ``--beside``: kept worlds in which two copies of a manager run side by side."""

from __future__ import annotations

import pytest

from proof.sim.base import marks
from proof.sim.faults import beside
from proof.sim.simulate import describe, run_seed

KEPT = (
    *((seed, 0.3) for seed in range(1000, 1027)),
    (0x44B, 1),
    (0x44D, 1),
    (0x305A, 0.3),
    (0x400F, 1),
    (0x5016, 0.3),
    (0x503B, 0.3),
)
"""Seeds, and the sizes of their worlds."""


@pytest.mark.slow
def test_worlds_in_which_two_copies_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed, size in KEPT:
        result = run_seed(seed, size=size)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_BESIDE), dict(reached)
