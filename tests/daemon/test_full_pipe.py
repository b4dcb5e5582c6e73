"""Nobody reads what a daemon writes, and it serves all the same (finding K14)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

import onceq
from tests import nursery
from tests.daemon.shell import ONCEQ
from tests.daemon.two import WAIT, Q

pytestmark = pytest.mark.slow


def full_pipe() -> tuple[int, int]:
    """A pipe that takes no byte more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"\n" * 4096)
    os.set_blocking(write, True)
    return read, write


def reached(path: Path, process: subprocess.Popen[bytes]) -> onceq.QueueManager:
    """A connection, as soon as it serves: what says that it does is not read."""
    while True:
        try:
            return onceq.connect(str(path), timeout=WAIT)
        except onceq.ServiceNotAvailable:
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"it has ended: {process.wait(0.05)}") from None


def test_standard_output_and_error_are_full_pipes(tmp_path: Path) -> None:
    path = tmp_path / "alpha"
    nursery.run(
        [*ONCEQ, "qm", "init", str(path), "--name", "ALPHA", "--listen", "127.0.0.1:0"], check=True
    )
    text = (path / "onceq.toml").read_text()
    (path / "onceq.toml").write_text(f'log_level = "debug"\n{text}')
    read, write = full_pipe()
    process = nursery.Popen([*ONCEQ, "qm", "run", str(path)], stdout=write, stderr=write)
    os.close(write)
    try:
        with reached(path, process) as qm:
            qm.create_queue(Q, transactional=True)
            for number in range(50):
                qm.send(Q, b"%d" % number, transactional=True)
            assert len(qm.receive_many(Q, timeout=WAIT)) == 50
            assert qm.admin.status().name == "ALPHA"
        with os.fdopen(read) as reader:
            process.send_signal(signal.SIGTERM)
            said = reader.read()
        assert process.wait(WAIT) == 0
        assert "onceq ALPHA ready" in said, "it comes when somebody reads"
        assert "INFO" in said
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(WAIT)
