"""Executors of their own that die in the middle of a read, and tasks that fail and come again.

Each runs an application of its own (``cluster_driver.py``), which takes half a minute and more;
``make spark-cluster`` runs them alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MESSAGES = 100_000


@pytest.mark.parametrize(
    ("master", "how", "bare"),
    [("local-cluster[2,1,700]", "kill", True), ("local[2,4]", "raise", False)],
    ids=["an executor is killed", "a task fails"],
)
def test_every_message_once(daemon: Any, tmp_path: Path, master: str, how: str, bare: bool) -> None:
    queue = f"private$\\cluster-{how}"
    daemon.manager.create_queue(queue, transactional=True)
    for first in range(0, MESSAGES, 10_000):
        bodies = [f"{number}" for number in range(first, first + 10_000)]
        daemon.manager.send_many(queue, bodies, transactional=True)
    script = Path(__file__).with_name("cluster_driver.py")
    done = subprocess.run(
        [sys.executable, str(script), master, daemon.address, queue, str(tmp_path), how],
        stdout=subprocess.PIPE, text=True, timeout=540, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("result "))
    found = json.loads(line.removeprefix("result "))
    assert found["bare"] == [not bare, not bare], "executors must not have onceq by themselves"
    assert found["crashes"] == 3
    rows = [row for batch in found["batches"].values() for row in batch]
    assert rows == [f"{number}" for number in range(MESSAGES)]
    assert daemon.manager.queue(queue)["messages"] == 0


def test_a_driver_that_stands_still_keeps_what_it_has_begun(daemon: Any, tmp_path: Path) -> None:
    """It may go on at any time, and remove what it has read: a query with another checkpoint is
    refused, and its own checkpoint goes on."""
    from tests.spark.stream_driver import DRIVER, kill_group

    queue = r"private$\zombie"
    daemon.manager.create_queue(queue, transactional=True)
    daemon.manager.send_many(queue, [f"{i}" for i in range(40)], transactional=True)

    def started(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(daemon.path), queue, str(tmp_path / f"{name}-c"),
             str(tmp_path / "out")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    zombie = started("old")
    assert zombie.stdout is not None
    assert [zombie.stdout.readline() for _ in range(2)] == ["batch 0\n", "batch 1\n"]
    os.killpg(zombie.pid, signal.SIGSTOP)
    try:
        with started("new") as successor:
            out, errors = successor.communicate("")
        # Its hold has a lease, which is over; that it has read before is remembered for good.
        assert out == ""
        assert "[read-before]" in errors
        assert daemon.manager.queue(queue)["messages"] == 30
    finally:
        kill_group(zombie)
        assert zombie.stderr is not None
        zombie.stderr.close()
    with started("old") as successor:
        out, errors = successor.communicate("")
    assert out.splitlines() == ["batch 1", "batch 2", "batch 3"], errors
    assert daemon.manager.queue(queue)["messages"] == 0
    rows = pq.ParquetDataset(str(tmp_path / "out")).read()["body"].to_pylist()
    assert sorted(map(int, rows)) == list(range(40))
