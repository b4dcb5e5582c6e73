"""``make spark-kill``, a short one; how its processes are found is tested beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proof.torture.spark import kill as spark_kill
from proof.torture.spark import side as spark_side

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_query_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """A daemon and the driver, by this seed; ``make spark-kill`` goes on."""
    outcome, more = spark_kill.run(kills=2, seed=21, folder=tmp_path)
    assert outcome.violations == []
    assert outcome.kills == {"ALPHA": 1, "driver": 1}
    assert outcome.received == outcome.committed > 0
    assert more["batches"] >= 2


@pytest.mark.parametrize("seed", [93, 94], ids=["stream", "foreachBatch"])
def test_a_second_queue_manager_joins_in_the_middle(tmp_path: Path, seed: int) -> None:
    """ALPHA is killed while it is alone, the driver at the change, and then BETA."""
    outcome, more = spark_kill.run(kills=3, seed=seed, folder=tmp_path, managers="2")
    assert outcome.violations == []
    assert outcome.kills == {"ALPHA": 1, "driver": 1, "BETA": 1}
    assert outcome.received == outcome.committed > 0
    assert more["batches"] >= 3


def test_a_checkpoint_that_is_lost(tmp_path: Path) -> None:
    """The query is refused, its people do what it says, and nothing is lost."""
    outcome, more = spark_kill.run(kills=3, seed=5, folder=tmp_path, into="files")
    assert outcome.violations == []
    assert outcome.kills["checkpoint"] == more["checkpoints lost, and the query refused"] == 1
    assert outcome.received >= outcome.committed > 0


DRIVER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", "pyspark"],
                         stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
child.stdin.close()
child.wait()
"""


def test_only_workers_of_this_driver_are_found() -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    try:
        child = int(driver.stdout.readline())
        assert spark_side.workers(driver.pid) == [child]
        assert spark_side.workers(child) == []
    finally:
        driver.stdin.close()
        driver.wait()
        driver.stdout.close()
