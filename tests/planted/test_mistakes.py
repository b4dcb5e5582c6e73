"""Programme P15: every planted mistake is found by the simulator, and named for what it breaks."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onceq.testing.sim import marks
from onceq.testing.simulate import Result, commit_of, run_seed
from tests.planted.in_worlds import ALL
from tests.planted.mistakes import named, quiet_workload

SEEDS = 1_000
SAMPLE = 3
"""Mistakes of the quick tier: the commit chooses them, so that all have their turn."""


def first_failure(seeds: range) -> Result | None:
    for seed in seeds:
        result = run_seed(seed)
        if result.violation:
            return result
    return None


def find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant one mistake; worlds must notice it, and name what it breaks."""
    mistake = ALL[name]
    mistake.plant(monkeypatch)
    result = first_failure(range(mistake.first, mistake.first + SEEDS))
    assert result is not None, f"{name}: {SEEDS} worlds did not notice it"
    # Whatever changes what is durable may first be seen where recoveries are compared.
    expected = mistake.expected | {"I22"}
    assert named(result.violation) in expected, f"{name}: {result.violation}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL))
def test_the_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(name, monkeypatch)


@pytest.mark.slow
@pytest.mark.tier("quick")
def test_some_mistakes_are_found() -> None:
    """Without the alarm tried, a quiet simulator proves nothing."""
    commit = commit_of(str(Path(__file__).parent))
    for name in Random(commit).sample(sorted(ALL), SAMPLE):
        with pytest.MonkeyPatch.context() as patch:
            find(name, patch)


@pytest.mark.tier("quick")
def test_a_simulator_that_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """28: worlds in which only databases and coordinators are at work fail for want of marks."""
    quiet_workload(monkeypatch)
    reached: marks.Marks = marks.Marks()
    for seed in range(5):
        reached += run_seed(seed).marks
    assert {marks.MOVED, marks.REJECTED, marks.FENCED} <= set(marks.missing(reached))
