"""A real daemon under a supervisor: ready, alive while its loop turns, silent while it does not."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

EVERY_US = 200_000
"""So long the supervisor waits for a sign of life."""


def _hear(own: socket.socket, seconds: float = WAIT_S) -> str:
    """The next word; "" if there is none in that time."""
    ready, _, _ = select.select([own], [], [], seconds)
    return own.recv(100).decode() if ready else ""


def test_it_says_that_it_is_alive_only_while_it_is(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(tmp_path / "notify"))
        # Its parent alone is told that it stands still: the nursery would be, not this process.
        process = Process(
            tmp_path / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0",
            start=subprocess.Popen,
            NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC=str(EVERY_US),
        ).started()  # fmt: skip
        said = [_hear(own) for _ in range(4)]
        assert "READY=1" in said
        assert said.count("WATCHDOG=1") == 3
        os.kill(process.popen.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.popen.pid, os.WSTOPPED | os.WNOWAIT)
        while _hear(own, 0):
            pass  # what it had said before
        assert _hear(own, 5 * EVERY_US / 1e6) == "", "a process that hangs is not alive"
        os.kill(process.popen.pid, signal.SIGCONT)
        assert _hear(own) == "WATCHDOG=1"
        process.popen.send_signal(signal.SIGTERM)
        last = ""
        while last != "STOPPING=1":
            last = _hear(own)
            assert last
        assert process.ended() == 0
