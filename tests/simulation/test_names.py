"""Programme P4 with ``--names``: kept worlds in which most queues are public, where they can be."""

from __future__ import annotations

import pytest

from proof.sim.apps import places
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed

KEPT = (
    *range(0x5000, 0x5014),
    0x5019,  # finding D5: acknowledged by a queue that left the directory, and never asked about
    0xB05D,  # what was committed after its queue had left the directory waited for ever (J4)
)
SIZE = 0.3


@pytest.mark.slow
def test_worlds_in_which_queues_have_several_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WINDOWS", ((0.0, 1.0),))
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed, size=SIZE)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_NAMES), dict(reached)
