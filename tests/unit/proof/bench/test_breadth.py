"""The benchmark of breadths fills every column."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.bench.breadth import DESTINATIONS, QUEUES, Columns, key

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.tier("rest")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "arguments"),
    [
        pytest.param(QUEUES, ["3", "--messages", "300"], id="queues"),
        pytest.param(DESTINATIONS, ["3", "--body", "2000", "--bytes", "300000"], id="destinations"),
    ],
)
def test_a_row_has_every_column(columns: Columns, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "proof", "bench-breadth", "--json", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert set(row) == {key(column) for column in columns}
    assert all(value > 0 for name, value in row.items() if name.endswith("1/s"))
