"""Worlds in each of which rows in databases decide: nothing is wrong, and the hard cases happen."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from proof.sim.base import marks
from proof.sim.base.options import draw, sized
from proof.sim.simulate import small_world
from proof.sim.world import World
from tests.simulation.conftest import Draw

SIZE = 0.6
TRANSACTIONS = 20
SEEDS = range(10, 96)


@pytest.mark.slow
def test_every_case_of_a_last_agent_happens_and_has_one_outcome(draw_until: Draw) -> None:
    found: marks.Marks = marks.Marks()
    for seed in draw_until(SEEDS, found, marks.OF_ROWS):
        drawn = draw(Random(f"{seed}/options"))
        options = sized(replace(drawn, by_row=TRANSACTIONS), SIZE)
        world = World(seed, options=options, size=SIZE)
        if not world.kernel.options.by_row:
            continue  # Copies of managers take turns in it.
        with small_world(SIZE):
            world.run()
        found += world.kernel.marks
    assert not marks.missing(found, marks.OF_ROWS)
