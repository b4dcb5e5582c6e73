"""The example of two networks: the whole path of a queue manager on Spark, beside the core."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def test_every_order_once_and_as_the_core_says() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, "-m", "examples.networks"], cwd=ROOT, capture_output=True, text=True,
        timeout=600, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *_, verdicts, ends, streams, last = done.stdout.splitlines()
    assert last == "every order once and in order, and the core says the same of every row"
    for word in ("accept", "duplicate", "gap", "stale stream"):
        assert f" {word}" in verdicts, verdicts
    for code in ("0x0002", "0x8000", "0x8002", "0x8009"):
        assert code in ends, ends
    assert streams.endswith("each with a second stream"), streams
