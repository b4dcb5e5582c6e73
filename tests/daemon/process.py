"""One queue manager as a real process: started, told to stop, killed, and asked what it said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests import nursery

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
"""Longest wait for what must come; only a defect makes a test wait so long."""


class Process:
    """``python -m onceq.service.main`` on a directory, or a program that runs it otherwise."""

    def __init__(
        self,
        path: Path,
        *options: str,
        program: Sequence[str] = ("-m", "onceq.service.main"),
        start: type[subprocess.Popen[str]] = nursery.Popen,
        **environment: str,
    ) -> None:
        """Start it.

        Args:
            start: ``subprocess.Popen`` for a fresh interpreter.
        """
        self.path = path
        self.log = path.parent / f"{path.name}.log"
        with open(self.log, "a") as log:
            self.popen = start(
                [sys.executable, *program, "--data", str(path), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", **environment},
            )
        self.ready = ""

    def started(self) -> Process:
        """Wait until it says that it is ready."""
        assert self.popen.stdout is not None
        self.ready = self.popen.stdout.readline().rstrip("\n")
        assert " ready: " in self.ready, self.said
        return self

    @property
    def said(self) -> str:
        """What is in its log, all lives together."""
        return self.log.read_text()

    def wait_to_say(self, text: str, count: int = 1) -> None:
        """Wait until a text is in its log, and so often; a thread of its own writes the log."""
        until = time.monotonic() + WAIT_S
        while self.said.count(text) < count:
            assert time.monotonic() < until, f"{text} is not in:\n{self.said}"

    @property
    def peers_at(self) -> str:
        """Where it accepts other managers."""
        return self.ready.split("peers on ")[1].split(",")[0]

    def ended(self) -> int:
        """Wait for its end; its exit code."""
        with self.popen:
            return self.popen.wait(WAIT_S)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal; its exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.ended()
