"""Programme P4: fresh seeds of this commit, and every seed that ever found something."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.sim.base import marks
from proof.sim.simulate import (
    REPEATED,
    Result,
    commit_of,
    describe,
    fresh,
    hash_in_other_process,
    parsed,
    run_batch,
    run_seed,
)

HERE = Path(__file__).parent
SAMPLE = 40
"""Fresh worlds of the quick tier; the other tier lives through a whole batch of others."""
MORE = 2
"""Further batches that may be run for a mark that was not reached."""
KEPT = [
    line.split()[0]
    for line in (HERE / "seeds.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
LATEST = 5
"""Of these are run in the quick tier: those of the code that changes now."""


@pytest.fixture(scope="module")
def batch() -> dict[int, Result]:
    seeds = fresh(SAMPLE + marks.BATCH, commit_of(str(HERE)))[SAMPLE:]
    return {result.seed: result for result in run_batch(seeds)}


@pytest.mark.slow
@pytest.mark.tier("quick")
@pytest.mark.timeout(300)
def test_every_invariant_holds_in_a_sample_of_fresh_worlds() -> None:
    results = list(run_batch(fresh(SAMPLE, commit_of(str(HERE)))))
    failed = [result for result in results if result.violation]
    assert not failed, f"{len(failed)} of {SAMPLE} worlds failed:\n" + "\n\n".join(
        describe(result) for result in failed[:3]
    )
    assert sum(result.ends["received"] for result in results) > 20 * SAMPLE, "hardly any message"


@pytest.mark.slow
def test_every_invariant_holds_in_fresh_worlds(batch: dict[int, Result]) -> None:
    failed = [result for result in batch.values() if result.violation]
    assert not failed, f"{len(failed)} of {len(batch)} worlds failed:\n" + "\n\n".join(
        describe(result) for result in failed[:3]
    )


@pytest.mark.slow
def test_the_hard_cases_were_reached(batch: dict[int, Result]) -> None:
    """The rarest of them comes in one world of seventy: one batch of ninety does without it, and
    then the next one must not."""
    reached: marks.Marks = marks.Marks()
    for result in batch.values():
        reached += result.marks
    seeds = sorted(batch)
    for _ in range(MORE):
        if not marks.missing(reached):
            break
        seeds = [seed + marks.BATCH for seed in seeds]
        for result in run_batch(seeds):
            assert not result.violation, describe(result)
            reached += result.marks
    assert not marks.missing(reached), dict(reached)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_under_any_hash_seed(batch: dict[int, Result]) -> None:
    seeds = sorted(batch)[:REPEATED]
    assert hash_in_other_process(seeds, "4711") == [batch[seed].hash for seed in seeds]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.tier("rest")) for seed in KEPT[:-LATEST]]
    + [pytest.param(seed, marks=pytest.mark.tier("quick")) for seed in KEPT[-LATEST:]],
)
def test_a_seed_that_once_found_something(seed: str) -> None:
    number, size = parsed(seed)
    result = run_seed(number, size=size)
    assert not result.violation, describe(result)


@pytest.mark.slow
@pytest.mark.tier("quick")
def test_a_world_moves_messages() -> None:
    """The canary: a world in which nothing happens would pass every other test."""
    result = run_seed(1, size=1)
    assert result.ends["received"] > 20
    assert result.events > 500
    assert result.virtual_s > 600


@pytest.mark.slow
@pytest.mark.tier("quick")
def test_nobody_is_left_off_the_network_when_the_faults_stop() -> None:
    """Others would try to reach that manager every few seconds for as long as somebody sleeps."""
    result = run_seed(0xA03C, size=1)
    assert not result.violation, describe(result)
    assert result.events < 50_000
