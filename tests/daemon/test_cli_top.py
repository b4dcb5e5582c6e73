"""``onceq top`` beside a queue manager that works, goes away, and comes again."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import onceq
from tests import nursery
from tests.daemon.shell import ONCEQ, running

Q = "private$/busy"


@pytest.mark.slow
def test_rates_through_a_restart(tmp_path: Path) -> None:
    nursery.run([*ONCEQ, "qm", "init", "a", "--name", "ALPHA", "--listen", ""],
                   cwd=tmp_path, check=True, capture_output=True)  # fmt: skip
    path = tmp_path / "a"

    def worked(process: subprocess.Popen[str]) -> None:
        """Send between two looks, until one of them tells of it."""
        assert process.stdout is not None
        with onceq.connect(str(path)) as qm:
            qm.create_queue(Q, transactional=True, exist_ok=True)
            for _ in range(100):
                qm.send(Q, b"x", transactional=True)
                told = json.loads(process.stdout.readline())
                assert told["queue_manager"] == "ALPHA"
                busy = [one for one in told["queues"] if one["queue"].endswith("busy")]
                if busy and busy[0]["in_s"]:
                    assert busy[0]["messages"] >= 1
                    return
        raise AssertionError("no look has seen anything move")

    with running(path):
        process = nursery.Popen(
            [*ONCEQ, "top", "-q", str(path), "--json", "--every", "0.2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        worked(process)
    assert process.stderr is not None
    assert "away: " in process.stderr.readline()
    with running(path):
        worked(process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in said


@pytest.mark.slow
def test_once_ends_by_itself(tmp_path: Path) -> None:
    nursery.run([*ONCEQ, "qm", "init", "a", "--name", "ALPHA", "--listen", ""],
                   cwd=tmp_path, check=True, capture_output=True)  # fmt: skip
    with running(tmp_path / "a"):
        done = nursery.run(
            [*ONCEQ, "top", "-q", "a", "--once", "--every", "0.1", "--all"],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    assert done.stdout.startswith("ALPHA ")
    assert "\x1b" not in done.stdout
