"""Programme P4 with ``--wholes``: kept worlds in which transactions are received whole."""

from __future__ import annotations

import pytest

from proof.sim.apps import delaying, wholes
from proof.sim.base import marks
from proof.sim.simulate import describe, run_seed

KEPT = range(20)


@pytest.mark.slow
def test_worlds_in_which_transactions_are_received_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside receives, rejections, moves, retries and delays of single messages (finding D6)."""
    monkeypatch.setattr(wholes, "SHARE", 1.0)
    monkeypatch.setattr(delaying, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, (*marks.OF_WHOLES, marks.WHOLE_DELAYED)), dict(reached)
