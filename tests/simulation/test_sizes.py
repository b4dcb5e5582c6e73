"""The sizes of simulated worlds: how many there are of each, and what is smaller in a small one."""

from __future__ import annotations

import argparse
from collections import Counter
from random import Random

import pytest

from proof.sim.base.options import SIZES, draw, draw_size, sized
from proof.sim.simulate import describe, parsed, run_seed
from proof.sim.world import World


def test_a_batch_has_worlds_of_every_size() -> None:
    found = Counter(World(seed).kernel.options.size for seed in range(300))
    whole = sum(SIZES.values())
    assert set(found) == set(SIZES)
    for size, weight in SIZES.items():
        assert found[size] == pytest.approx(300 * weight / whole, rel=0.3)


def test_a_small_world_is_the_same_world_with_less_in_it() -> None:
    for seed in range(50):
        large = draw(Random(seed))
        small = sized(large, 0.3)
        assert small.managers == large.managers
        assert 5 <= small.transactions <= max(large.transactions * 0.3, 5)
        assert bool(small.shared) == bool(large.shared)
        assert bool(small.crash_every_us) == bool(large.crash_every_us)
        if large.crash_every_us:
            faults, before = small.safety_us / small.crash_every_us, (
                large.safety_us / large.crash_every_us
            )  # fmt: skip
            assert before * 0.3 < faults < before, "fewer of them, but more often"


def test_what_depends_on_how_much_is_written_follows_the_size() -> None:
    for seed in range(50):
        large = draw(Random(seed))
        small = sized(large, 0.3)
        assert small.settings.checkpoint_log_bytes < large.settings.checkpoint_log_bytes
        assert small.segment_bytes <= large.segment_bytes / 2
    assert sized(large, 1) is large


def test_the_size_shifts_nothing_else_that_is_drawn() -> None:
    """Kept seeds name the size that they were found with, and keep their stories."""
    sizes = {seed: draw_size(Random(f"{seed}/size")) for seed in range(50)}
    seed = next(seed for seed, size in sizes.items() if size < 1)
    assert World(seed, size=1).kernel.options == draw(Random(f"{seed}/options"))
    assert World(seed).kernel.options == sized(World(seed, size=1).kernel.options, sizes[seed])


def test_a_seed_is_written_with_the_size_that_was_asked_for() -> None:
    assert parsed("0x98") == (0x98, 0)
    assert parsed("152@1") == (152, 1)
    assert parsed("0x98@0.3") == (0x98, 0.3)
    for wrong in ("banana", "0x98@large", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="such as 152 or 0x98"):
            parsed(wrong)
    small = run_seed(0x98, size=0.3)
    assert describe(small).startswith("make sim SEED=0x98@0.3\n")
    drawn = run_seed(0x98, size=World(0x98).kernel.options.size)
    assert drawn.hash == run_seed(0x98).hash
    assert describe(run_seed(0x98)).startswith("make sim SEED=0x98\n")
