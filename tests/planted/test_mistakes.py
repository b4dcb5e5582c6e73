"""Programme P15: every planted mistake is found by the simulator, and named for what it breaks."""

from __future__ import annotations

import pytest

from onceq.testing import marks
from onceq.testing.simulate import Result, run_seed
from tests.planted.group_mistakes import GROUP_MISTAKES
from tests.planted.mistakes import MISTAKES, named, quiet_workload
from tests.planted.shared_mistakes import SHARED_MISTAKES

SEEDS = 1_000
ALL = MISTAKES | SHARED_MISTAKES | GROUP_MISTAKES


def first_failure(seeds: range) -> Result | None:
    for seed in seeds:
        result = run_seed(seed)
        if result.violation:
            return result
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL))
def test_the_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = ALL[name]
    mistake.plant(monkeypatch)
    result = first_failure(range(mistake.first, mistake.first + SEEDS))
    assert result is not None, f"{SEEDS} worlds did not notice it"
    assert named(result.violation) in mistake.expected, result.violation


def test_a_simulator_that_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """28: worlds in which nothing happens fail for want of marks."""
    quiet_workload(monkeypatch)
    reached: marks.Marks = marks.Marks()
    for seed in range(5):
        reached += run_seed(seed).marks
    assert marks.GAP in marks.missing(reached)
    assert marks.FOUND_DONE in marks.missing(reached)
