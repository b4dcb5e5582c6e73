"""The example runs, survives its kills, and its books agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


def test_the_sum_never_changes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.bank", "--seconds", "6"], cwd=ROOT, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the sum never changed, and each transfer was announced once" in done.stdout
    sheet = [line.split() for line in done.stdout.splitlines() if line[:4].strip().isdigit()]
    assert len(sheet) >= 2, "it is printed as it goes"
    assert {line[4] for line in sheet} == {"20,000"}
