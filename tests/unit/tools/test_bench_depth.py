"""The benchmark of depths fills every column."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench_depth import COLUMNS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.tier("rest")
@pytest.mark.slow
def test_a_row_has_every_column() -> None:
    command = [sys.executable, "tools/bench_depth.py", "200", "--json", "--some", "100"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert set(row) == {"send cost", "receive cost", *(name for name, _ in COLUMNS)}
    assert row["fill"] > 0
    assert row["expiry"] > 0
