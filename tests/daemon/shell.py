"""The command onceq as tests run it: in this process, and as one of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from onceq.cli.main import run
from tests import nursery

ONCEQ = [sys.executable, "-m", "onceq.cli.main"]
STOCK = "DIRECT=OS:BETA/private$/stock"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(path: Path) -> Iterator[subprocess.Popen[str]]:
    """``onceq qm run``, until the end of the block; it must then stop in order."""
    with open(path / "log.txt", "a") as log:
        process = nursery.Popen(
            [*ONCEQ, "qm", "run", str(path)], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "ready" in line, (path / "log.txt").read_text()
        yield process
    finally:
        process.terminate()
        code = process.wait(30)
        process.stdout.close()
    assert code == 0, (path / "log.txt").read_text()


@dataclass
class Shell:
    """Runs commands against ALPHA, in this process where nothing is read from the input."""

    alpha: Path
    beta: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self.capture.readouterr()
        assert run(["-q", str(self.alpha), *arguments]) == code, self.capture.readouterr()
        said = self.capture.readouterr()
        self.error = said.err
        assert "Traceback" not in said.err
        return said.out

    def json(self, *arguments: str) -> object:
        return json.loads(self(*arguments, "--json"))

    def pipe(self, *arguments: str, data: bytes = b"", code: int = 0) -> bytes:
        """A process of its own with this input; returns its output."""
        done = nursery.run(
            [*ONCEQ, "-q", str(self.alpha), *arguments], input=data, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        self.error = done.stderr.decode()
        assert done.returncode == code, self.error
        return done.stdout


def two_managers(folder: Path) -> Iterator[tuple[Path, Path]]:
    alpha, beta = folder / "alpha", folder / "beta"
    port = free_port()
    peer = f"BETA=127.0.0.1:{port}"
    assert run(["qm", "init", str(alpha), "--name", "ALPHA", "--listen", "127.0.0.1:0",
                "--peer", peer]) == 0  # fmt: skip
    with open(alpha / "onceq.toml", "a") as file:
        file.write("connect_retry_s = 0.05\norder_ack_delay_s = 0.02\n")
    assert run(["qm", "init", str(beta), "--name", "BETA", "--listen", f"127.0.0.1:{port}"]) == 0
    with open(beta / "onceq.toml", "a") as file:
        file.write("order_ack_delay_s = 0.02\n")
    with running(alpha):
        yield alpha, beta
