"""A server that is measured: a process with a folder, that can be halted, and ends with all of its
children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from tests.servers import Server

from peers.contract import System

END_S = 20.0
LOOK_S = 0.02

_Server = TypeVar("_Server", bound="Measured")


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path("/proc", str(int(entry)), "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Those that are gone do not mind."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Measured(Server):
    """A process with a folder on the disk to measure. Subclasses say what it is."""

    farewell = signal.SIGKILL
    """What ends it: its files are thrown away, unless it would leave something else behind."""

    def pids(self) -> list[int]:
        """The process and all its children; none if it does not run."""
        if self.process is None or self.process.poll() is not None:
            return []
        return family(self.process.pid)

    def crash(self) -> None:
        """End it and all its children, also if they are halted."""
        assert self.process is not None
        pids = self.pids()
        signal_all(pids, signal.SIGCONT)
        signal_all(pids[:1], self.farewell)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        until = time.monotonic() + END_S if self.farewell != signal.SIGKILL else 0.0
        while time.monotonic() < until and any(map(_lives, pids[1:])):
            time.sleep(LOOK_S)
        signal_all(filter(_lives, pids), signal.SIGKILL)
        self.process.wait(END_S)


class Served(System):
    """A system of one server, or of several on this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._servers: list[Measured] = []

    def run(self, server: _Server) -> _Server:
        """Start one that ends with this system."""
        self._servers.append(server)
        server.start()
        return server

    def pids(self) -> list[int]:
        return [pid for server in self._servers for pid in server.pids()]

    def close(self) -> None:
        for server in reversed(self._servers):
            server.close()


def _lives(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()
