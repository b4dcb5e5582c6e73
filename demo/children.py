"""Processes of the demo: started, killed, stopped.

Every child has a session of its own, so that Ctrl-C reaches only the demo, which then ends its
children in its own order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

STOP_S_MAX = 20.0


PORTS = range(20_000, 32_000)
"""Below those that a system gives to connections by itself (from 32,768 on), so that nobody is
given one of them between its choice and the start of its queue manager."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now; two demos at once begin to look at different places."""
    begin = os.getpid() * 64
    found: list[int] = []
    for offset in range(len(PORTS)):
        port = PORTS[(begin + offset) % len(PORTS)]
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"fewer than {count} ports from {PORTS[0]} to {PORTS[-1]} are free")


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What ends the demo waits until a new child is known: nobody would end that one else."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda n, _: came.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt


class Child:
    """A process of the demo; its errors go to a file beside the data."""

    def __init__(self, arguments: Sequence[str], log: Path, *, pipe: bool = False) -> None:
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                # What it would leave behind when it is killed goes with the demo's directory.
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "PYTHONUNBUFFERED": "1",
                    "TMPDIR": str(log.parent),
                },
                text=True,
            )

    @property
    def output(self) -> IO[str]:
        """What it prints."""
        assert self.process.stdout is not None
        return self.process.stdout

    def kill(self) -> None:
        """SIGKILL, to it and to what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not help."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def complain(self) -> str:
        """The end of what it wrote to its log."""
        return self.log.read_text(errors="replace")[-2_000:].strip()


@dataclass
class Listener:
    """Lines of JSON from a child, read by a thread; the last one counts."""

    child: Child
    last: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        for line in self.child.output:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            self.result = said.pop("result", None) or self.result
            self.last.update(said)

    def failed(self) -> bool:
        """Whether it has ended as it should not."""
        return self.child.process.poll() not in (None, 0)
