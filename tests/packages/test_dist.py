"""What is published can be built, has what it needs, and works where nothing else is."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_packages_are_built_and_the_wheel_works_alone(tmp_path: Path) -> None:
    """An environment is made and its dependencies are installed, as ``make dist`` does."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "dist.py", "--folder", tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    (source,) = tmp_path.glob("*.tar.gz")
    (bill,) = tmp_path.glob("*.cdx.json")
    sums = (tmp_path / "SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, name in (line.split("  ") for line in sums)}
    assert told == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, source, bill)
    }
    assert {path.name for path in tmp_path.iterdir()} == {*told, "SHA256SUMS"}
    made = json.loads(bill.read_text())
    (said,) = made["metadata"]["component"]["hashes"]
    assert said["content"] == told[wheel.name]
