"""The benchmark of tenants runs, counts what it sends, and compares slices of one run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from proof.bench.tenants import ASKED, BESIDE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_smoke_run_measures_a_third_one_beside_two_that_ask() -> None:
    # Not tmp_path: with a long test name the sockets in it would have too long a path.
    with tempfile.TemporaryDirectory(prefix="onceq-") as folder:
        done = subprocess.run(
            [
                sys.executable, "-m", "proof", "bench-tenants", "--count", "20", "--commits", "5",
                "--slices", "4", "--pause", "0.001", "--json", "--folder", folder,
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert list(Path(folder).iterdir()) == []
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["looks_s"] > 0
    for what in (BESIDE, ASKED):
        ratio = found[f"{what}_p99_ms"] / found["alone_p99_ms"]
        assert found[f"{what}_ratio"] == pytest.approx(ratio)
