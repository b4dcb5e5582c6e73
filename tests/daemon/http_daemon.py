"""A daemon that takes messages over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import onceq
from tests import nursery
from tests.daemon.applications import ROOT

LOCAL = r"private$\q"
WAIT_S = 30


class HttpDaemon:
    """A daemon that takes messages over HTTP."""

    def __init__(self, path: Path, name: str, port: int, more: str = "", tables: str = "") -> None:
        path.mkdir()
        self.path, self.name, self.port = path, name, port
        (path / "onceq.toml").write_text(
            f'name = "{name}"\nlisten = ""\nhttp_listen = "127.0.0.1:{port}"\n{more}\n'
            f"{tables}\n[settings]\norder_ack_delay_s = 0.02\nconnect_retry_s = 0.1\n"
            "resend_first_s = 0.3\n"
        )
        self.start()

    def start(self) -> None:
        with open(self.path.parent / f"{self.name}.log", "a") as log:
            self.process = nursery.Popen(
                [sys.executable, "-m", "onceq.service.main", "--data", str(self.path),
                 "--create", self.name],
                stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip
        assert self.process.stdout is not None
        assert "ready" in self.process.stdout.readline(), self.log()

    def log(self) -> str:
        return (self.path.parent / f"{self.name}.log").read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def all_of(qm: onceq.QueueManager, count: int) -> list[str]:
    """What arrives, until so many are there; each wait is bounded."""
    found: list[str] = []
    while len(found) < count:
        found += [m.text for m in qm.receive_many(LOCAL, count - len(found), timeout=WAIT_S)]
    return found
