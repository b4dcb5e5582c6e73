"""One queue manager as a process of its own, with its clock and its death in somebody's hands.

It runs the daemon's own code on a store in a directory, over real sockets. What is different is
what the daemon is given: an event loop and a clock whose time is set from outside, and a store
with named points to die at. The owner of these listens at a Unix socket, where this process
connects, says one line of JSON when it is ready, and takes these:

    {"wall": us, "mono": us, "ask": n}   set the clocks; answer n when nothing is left to do
    {"die": point, "count": k}           end by SIGKILL there (``onceq.testing.disk``)
    {"forget": "streams"}                lose the table of incoming streams
    {"fail": "sync"}                     the disk fails at the next sync

The answer ``{"idle": n, "due": us or null, "wires": [[port, other port, read, written]...]}``
says when the next timer is due by the monotonic clock, and what has passed over each connection
with another queue manager: what was sent there and not read yet may still have consequences.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import socket
import sys
from typing import Any

from onceq.errors import OnceqError, SyncFailed
from onceq.model.marks import Now
from onceq.service import config, logs
from onceq.service.clock import SystemClock
from onceq.service.daemon import ManagerDaemon, run
from onceq.store.files import RealFiles
from onceq.testing.disk import PointedStore, Points
from proof.sim.process.virtual import HandClock, VirtualLoop

SEGMENT_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 16


def die() -> None:
    """End as if by somebody else's ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class FailingFiles(RealFiles):
    """A disk of which somebody else says when it fails."""

    fails = False

    def sync(self, file: int) -> None:
        """See Files."""
        if self.fails:
            raise SyncFailed("the disk was told to fail")
        super().sync(file)


class Held:
    """This process, as far as somebody else has it in hand."""

    def __init__(self, control: str, now: Now) -> None:
        self.clock = HandClock(now)
        self.points = Points(die)
        self.files = FailingFiles()
        self.loop = VirtualLoop(self.clock, self._idle, self.points)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(control)
        self._kept = b""
        self._asked: int | None = None
        self._daemon: ManagerDaemon | None = None

    def ready(self, daemon: ManagerDaemon) -> None:
        """It listens: from now on it takes orders."""
        self._daemon = daemon
        self.loop.add_reader(self._socket, self._read)
        self._say(ready=daemon.peers_at, pid=os.getpid())

    def close(self) -> None:
        """The queue manager has stopped."""
        self._socket.close()

    def _say(self, **what: Any) -> None:
        self._socket.sendall(json.dumps(what).encode() + b"\n")

    def _read(self) -> None:
        data = self._socket.recv(LINE_BYTES_MAX)
        if not data:
            die()  # nobody is left who could set the clock
        *lines, self._kept = (self._kept + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, order: dict[str, Any]) -> None:
        if "ask" in order:
            self.clock.set(Now(order["wall"], order["mono"]))
            self._asked = order["ask"]
        elif "die" in order:
            self.points.arm(order["die"], order["count"])
        elif order.get("forget") == "streams":
            assert self._daemon is not None
            self._daemon.engine.manager.state.progress.clear()
        elif order.get("fail") == "sync":
            self.files.fails = True
        else:
            raise ValueError(f"no such order: {order}")

    def _idle(self, wait_s: float | None) -> None:
        """Nothing is left to do before time goes on or something comes."""
        if self._asked is None:
            return
        asked, self._asked = self._asked, None
        due = None
        if wait_s is not None:
            # Never early: a timer that is not due yet would be set for the same time again.
            due = self.clock.read().mono_us + math.ceil(wait_s * 1e6 - 1e-3)
        wires = [[*wire.ports, wire.read, wire.written] for wire in self.loop.peers]
        self._say(idle=asked, due=due, wires=wires)


def serve(path: str, control: str, now: Now) -> None:
    """Run the queue manager of a directory.

    Args:
        control: Unix socket of the process that holds the clock.
        now: What the clocks show when it starts.

    Raises:
        OnceqError: It cannot start, or had to stop.
    """
    configuration = config.load(path)
    logs.set_up(configuration.log_level, form=configuration.log_format)
    held = Held(control, now)
    store = PointedStore.open(path, held.files, segment_bytes=SEGMENT_BYTES)
    assert isinstance(store, PointedStore)
    store.points = held.points
    try:
        run(path, store, configuration, held.ready, loop=held.loop, clock=held.clock)
    finally:
        held.close()


def main(argv: list[str] | None = None) -> int:
    """``python -m proof.sim.process.process``; returns its exit code."""
    parser = argparse.ArgumentParser(prog="proof.sim.process.process", description=__doc__)
    parser.add_argument("--data", required=True, help="data directory of the queue manager")
    parser.add_argument(
        "--control", required=True, help="Unix socket of the process that sets the clock"
    )
    parser.add_argument("--wall-us", type=int, default=SystemClock().read().wall_us)
    parser.add_argument("--mono-us", type=int, default=1_000_000)
    options = parser.parse_args(argv)
    try:
        serve(options.data, options.control, Now(options.wall_us, options.mono_us))
    except OnceqError as error:
        sys.stderr.write(f"onceq: error ({error.code}): {error.text}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
