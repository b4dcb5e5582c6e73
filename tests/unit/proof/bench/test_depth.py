"""The benchmark of depths fills every column."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.bench.depth import COLUMNS

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.tier("rest")
@pytest.mark.slow
def test_a_row_has_every_column() -> None:
    command = [sys.executable, "-m", "proof", "bench-depth", "200", "--json", "--some", "100"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert set(row) == {"send cost", "receive cost", *(name for name, _ in COLUMNS)}
    assert row["fill"] > 0
    assert row["expiry"] > 0
