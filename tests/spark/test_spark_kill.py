"""``make spark-kill``, a short one; how its processes are found is tested beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_kill

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_query_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """A worker, the driver and a daemon, by this seed."""
    outcome, more = spark_kill.run(kills=3, seed=46, folder=tmp_path)
    assert outcome.violations == []
    assert sum(outcome.kills.values()) == 3
    assert outcome.received == outcome.committed > 0
    assert more["batches"] >= 3


def test_only_workers_of_this_driver_are_found() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "pyspark"], stdin=subprocess.PIPE
    )
    try:
        assert spark_kill.workers(os.getpid()) == [child.pid]
        assert spark_kill.workers(child.pid) == []
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
