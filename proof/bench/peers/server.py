"""A server that is measured: a process with a folder, that can be halted, and ends with all of its
children."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from proof.bench.peers.contract import System
from tests.servers import Server

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


def lives(pid: int) -> bool:
    """Whether a process has not ended, though nobody may have asked how it has."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


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
        if self.farewell != signal.SIGKILL:
            signal_all(pids[:1], self.farewell)
            self._await(pids)
        signal_all(filter(lives, pids), signal.SIGKILL)
        self._await(pids)

    def _await(self, pids: list[int]) -> None:
        """Until all of them have ended, or for a while."""
        assert self.process is not None
        until = time.monotonic() + END_S
        while self.process.poll() is None or any(map(lives, pids)):
            if time.monotonic() > until:
                return
            time.sleep(LOOK_S)


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
