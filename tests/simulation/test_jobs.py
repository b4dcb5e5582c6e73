"""Programme P4 with ``--jobs``: kept worlds in which operators start jobs."""

from __future__ import annotations

import pytest

from proof.sim.apps import jobs
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed

KEPT = (*range(9000000, 9000024), 9500003, 9500012, 9500031, 9500036)
"""Of the last four, three have somebody who takes messages before their turn, and one has messages
that a job cannot do."""


@pytest.mark.slow
def test_worlds_in_which_jobs_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_JOBS), dict(reached)
