"""Looks for one planted mistake in simulated worlds; its process ends with 1 if it was found."""

from __future__ import annotations

import sys

import pytest

from proof.sim.simulate import run_seed
from tests.planted.planted import all_planted


def main(name: str, worlds: int) -> int:
    """1 and the violation, or 0 if so many worlds did not notice it."""
    planted = all_planted()[name]
    planted.plant(pytest.MonkeyPatch())
    for seed in range(planted.first, planted.first + worlds):
        result = run_seed(seed)
        if result.violation:
            sys.stdout.write(f"world {seed}: {result.violation}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
