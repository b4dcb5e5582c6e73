"""Two turns of the cases (``turns.py``), which the commit chooses: each comes some day, soon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from proof.sim.simulate import commit_of
from tests.conformance.turns import TURNS, VARIABLE

ROOT = Path(__file__).parents[2]
SAMPLE = 2
TURNED_MIN = 80
"""Cases that any turn changes something in, at least."""
CHOSEN = Random(f"turns of {commit_of(str(ROOT))}").sample(sorted(TURNS), SAMPLE)


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", CHOSEN)
def test_cases_hold_when_what_must_not_matter_is_turned(turn: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/conformance"],
        cwd=ROOT, env={**os.environ, VARIABLE: turn}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-8_000:]
    (turned,) = re.findall(rf"^turn {turn}: (\d+) turned", found.stdout, re.M)
    assert int(turned) >= TURNED_MIN
