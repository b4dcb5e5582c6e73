"""A queue manager in a process of its own, for tests: started, stopped and killed by them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from onceq.client.opening import connect
from onceq.client.threads.manager import QueueManager
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.limits import LOG_SEGMENT_BYTES_MIN

STOP_S: Final = 60.0
"""Longest wait for its end; only a defect makes a test wait so long."""


class Daemon:
    """A queue manager as ``onceq qm run`` runs it, reached over the socket in its directory.

    Attributes:
        where: For ``onceq.connect``.
    """

    def __init__(self, folder: str | PathLike[str], name: str = "ALPHA") -> None:
        """Make one and start it.

        Args:
            folder: Its data directory, with a path so short that a Unix socket fits (107 bytes).
        """
        path = Path(folder)
        self.where = str(path)
        self._name = name
        self._log = path.with_name(f"{path.name}.log")
        self._process: subprocess.Popen[str] | None = None
        self._clients: list[QueueManager] = []
        path.mkdir(parents=True, exist_ok=True)
        settings = f"[settings]\nlog_segment_bytes = {LOG_SEGMENT_BYTES_MIN}\n"
        (path / CONFIGURATION_FILE).write_text(f'name = "{name}"\nlisten = ""\n{settings}')
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            RuntimeError: It runs already, or does not start; the text has what it said.
        """
        if self.running:
            raise RuntimeError("this queue manager runs: stop or kill it first")
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "onceq.service.main", "--data", self.where,
                 "--create", self._name],
                stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ),
            )  # fmt: skip
        assert self._process.stdout is not None
        if "ready" not in self._process.stdout.readline():
            self._end(signal.SIGKILL)
            raise RuntimeError(f"the queue manager did not start:\n{self._log.read_text()}")

    def connect(self) -> QueueManager:
        """An application with it, which is closed with this."""
        made = connect(self.where)
        self._clients.append(made)
        return made

    def kill(self) -> None:
        """``kill -9``: what was confirmed is there after the next ``start``."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.wait(STOP_S)
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        """Close its applications, and stop it."""
        while self._clients:
            self._clients.pop().close()
        self.stop()
