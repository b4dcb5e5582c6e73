"""The benchmark of a lossy link runs, and its goals are judged the right way round."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.bench import loss as bench_loss

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_smoke_run_counts_what_was_lost_and_sent_again() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "bench-loss", "--messages", "2000", "--rounds", "1",
         "--one-in", "200", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == bool(found["missed"])
    (clean,), (lossy,) = found["rounds"]["clean"], found["rounds"]["lossy"]
    assert (clean["lost"], clean["repeated"]) == (0, 0)
    assert lossy["lost"] > 0
    assert lossy["resends"] >= lossy["lost"]
    assert clean["rate"] > 0
    assert lossy["rate"] > 0


def test_goals_are_judged_the_right_way_round() -> None:
    assert bench_loss.verdict({"share": 0.34, "resends_per_loss": 2.0}) == []
    assert len(bench_loss.verdict({"share": 0.33, "resends_per_loss": 2.1})) == 2
