"""Programme P4 with ``--consumers``: kept worlds in which operators ask who works on queues."""

from __future__ import annotations

import pytest

from proof.sim.apps import onlookers
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed

KEPT = (*range(20), 82, 106)
"""In 106 messages of a job failed that stand at the same place of two queues."""


@pytest.mark.slow
def test_worlds_in_which_operators_ask_who_works_on_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onlookers, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_CONSUMERS), dict(reached)
