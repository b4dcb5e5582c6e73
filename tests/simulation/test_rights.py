"""Programme P4 with ``--rights``: kept worlds in which applications and managers need rights."""

from __future__ import annotations

import pytest

from onceq.simulator.apps import subjects
from onceq.simulator.sim import marks
from onceq.simulator.simulate import describe, run_seed

KEPT = (*range(1, 31), 118, 220)


@pytest.mark.slow
def test_worlds_in_which_rights_are_given_and_taken_while_messages_flow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subjects, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    required = (*marks.OF_RIGHTS, *marks.OF_TOKENS)
    assert not marks.missing(reached, required), dict(reached)
