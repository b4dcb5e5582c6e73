"""Programme P15: every planted mistake is found by the simulator, and named for what it breaks."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from proof.sim.base import marks
from proof.sim.simulate import Result, commit_of, run_seed
from tests.planted.in_worlds import ALL
from tests.planted.mistakes import named, quiet_workload

SEEDS = 40
"""Worlds from its ``first`` on, of which one notices each mistake. Both tiers hold the same number:
what is right for all of them in one tier cannot fail for the few that the other one draws."""
FAR = 1_000
"""Worlds in which the next one that notices is looked for, to say what ``first`` may become."""
SAMPLE = 3
HERE = str(Path(__file__).parent)
CHOSEN = Random(commit_of(HERE)).sample(sorted(ALL), SAMPLE)
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
    end = mistake.first + SEEDS
    result = first_failure(range(mistake.first, end))
    if result is None:
        later = first_failure(range(end, end + FAR))
        where = "none of the next ones does" if later is None else f"world {later.seed} does"
        pytest.fail(f"{name}: no world of {mistake.first}..{end - 1} notices it; {where}")
    # Whatever changes what is durable may first be seen where recoveries are compared.
    expected = mistake.expected | {"I22"}
    assert named(result.violation) in expected, f"{name}: {result.violation}"


@pytest.mark.slow
@pytest.mark.search("worlds", few=8)
@pytest.mark.parametrize("name", sorted(ALL))
def test_the_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(name, monkeypatch)


@pytest.mark.slow
@pytest.mark.tier("quick")
@pytest.mark.parametrize("name", CHOSEN)
def test_the_mistake_is_found_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the alarm tried, a quiet simulator proves nothing."""
    find(name, monkeypatch)


@pytest.mark.tier("quick")
def test_a_simulator_that_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """28: worlds in which only databases and coordinators are at work fail for want of marks."""
    quiet_workload(monkeypatch)
    reached: marks.Marks = marks.Marks()
    for seed in range(5):
        reached += run_seed(seed).marks
    assert {marks.MOVED, marks.REJECTED, marks.FENCED} <= set(marks.missing(reached))
