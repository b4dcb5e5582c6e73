"""Kept worlds, of which a commit draws some until they have reached what they must."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

import pytest

from proof.sim.base import marks
from proof.sim.simulate import commit_of
from tests.searches import ROOT

PART: Final = 3
"""Of the worlds that are kept at least every third one is lived through."""

Draw = Callable[[Sequence[int], marks.Marks, tuple[str, ...]], Iterator[int]]


@pytest.fixture
def draw_until(request: pytest.FixtureRequest) -> Draw:
    """Give seeds in the order that the commit draws: a third, and more until their worlds have
    reached all marks that are wanted. With the option ``--all`` all of them are given."""

    def seeds(kept: Sequence[int], reached: marks.Marks, wanted: tuple[str, ...]) -> Iterator[int]:
        whole = request.config.getoption("--all")
        order = list(kept)
        Random(f"{commit_of(str(ROOT))} {request.node.nodeid}").shuffle(order)
        for count, seed in enumerate(order):
            if not whole and count * PART >= len(order) and not marks.missing(reached, wanted):
                return
            yield seed

    return seeds
