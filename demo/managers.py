"""Queue managers, proxies and senders as processes: started, killed, started again, cleaned up.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import onceq
from demo.faults import Rates
from demo.flights import ORIGINS

HUB, AUDIT = "HUB", "AUDIT"
HUB_QUEUE = "private$\\departures"
AUDIT_QUEUE = "private$\\audit"
LATE_QUEUE = "private$\\late"
"""At each airport: what Spark sends back."""
DESTINATION = f"DIRECT=OS:{HUB}\\{HUB_QUEUE},DIRECT=OS:{AUDIT}\\{AUDIT_QUEUE}"
"""One name with two elements: a commit sends to both, or to none."""

SETTINGS = {
    "resend_first_s": 1.0,
    "resend_second_s": 1.0,
    "resend_third_s": 2.0,
    "resend_last_s": 2.0,
    "order_ack_delay_s": 0.05,
    "order_ack_delay_s_max": 0.1,
    "order_ack_messages_max": 256,
    "unacknowledged_messages_max": 1_024,
    "connect_retry_s": 0.2,
    "checkpoint_log_bytes": 64 << 20,
    "history": "true",
    "history_roll_s": 2,
}
"""MSMQ's own times are made for modems; a demo has three minutes. As with MSMQ's, a resend timer is
some times as long as the longest delay of an acknowledgment: one that rings before it is due asks
in vain, with two messages each time. The history is for the audit."""
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
class Daemon:
    """One queue manager."""

    name: str
    directory: Path
    port: int
    peers: Mapping[str, int] = field(default_factory=dict)
    child: Child | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    retired: bool = False

    def start(self) -> None:
        """Start it, and wait until it is ready; raises RuntimeError if it does not get so far."""
        with self.lock:
            if not self.retired:
                self._start()

    def retire(self) -> None:
        """It must not start again. One that is starting in another thread gets ready first."""
        with self.lock:
            self.retired = True

    def _start(self) -> None:
        self.directory.mkdir(exist_ok=True)
        lines = [f'listen = "127.0.0.1:{self.port}"', 'log_level = "warning"', "[peers]"]
        lines += [f'{name} = "127.0.0.1:{port}"' for name, port in self.peers.items()]
        lines += ["[settings]", *(f"{key} = {value}" for key, value in SETTINGS.items())]
        (self.directory / "onceq.toml").write_text("\n".join(lines) + "\n")
        with uninterrupted():
            child = self.child = Child(
                ["-m", "onceq.service.main", "--data", str(self.directory), "--create", self.name],
                self.directory.with_suffix(".log"),
                pipe=True,
            )
        if "ready" not in child.output.readline():
            child.kill()
            raise RuntimeError(f"queue manager {self.name} did not start: {child.complain()}")

    def kill(self) -> None:
        """As a power cut would end it."""
        assert self.child is not None
        self.child.kill()

    def connect(self) -> onceq.QueueManager:
        """An application's connection."""
        return onceq.connect(str(self.directory))


class Network:
    """Five queue managers and the proxies between them, in a directory of their own."""

    def __init__(self, directory: Path, *, seed: int, rates: Rates) -> None:
        self.directory = directory
        self._seed = seed
        self._rates = rates
        ports = iter(free_ports(5 + 2 * len(ORIGINS)))
        back = {origin: next(ports) for origin in ORIGINS}
        self.hub = Daemon(HUB, directory / HUB, next(ports), back)
        self.audit = Daemon(AUDIT, directory / AUDIT, next(ports))
        self.airports: dict[str, Daemon] = {}
        self._proxies = []
        for origin in ORIGINS:
            through = {HUB: next(ports), AUDIT: next(ports)}
            self.airports[origin] = Daemon(origin, directory / origin, back[origin], through)
            for target in (self.hub, self.audit):
                self._proxies.append(
                    {
                        "name": f"{origin}-{target.name}",
                        "port": through[target.name],
                        "target": target.port,
                    }
                )
        self.children: list[Child] = []
        self._stats = directory / "proxies.stats"

    @property
    def daemons(self) -> list[Daemon]:
        """All five."""
        return [self.hub, self.audit, *self.airports.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and make the queues."""
        config = self.directory / "proxies.json"
        config.write_text(
            json.dumps(
                {
                    "seed": self._seed,
                    "rates": asdict(self._rates),
                    "stats": str(self._stats),
                    "proxies": self._proxies,
                }
            )
        )
        for daemon in self.daemons:
            daemon.start()
        self.spawn(["-m", "demo.proxies", str(config)], "proxies")
        queues = [(self.hub, HUB_QUEUE), (self.audit, AUDIT_QUEUE)]
        queues += [(airport, LATE_QUEUE) for airport in self.airports.values()]
        for daemon, queue in queues:
            with daemon.connect() as manager:
                manager.create_queue(queue, transactional=True)

    def spawn(self, arguments: Sequence[str], name: str, *, pipe: bool = False) -> Child:
        """Start a further process that ends with the demo."""
        with uninterrupted():
            child = Child(arguments, self.directory / f"{name}.log", pipe=pipe)
            self.children.append(child)
        return child

    def faults(self) -> dict[str, dict[str, int]]:
        """What the proxies have counted so far."""
        try:
            found: dict[str, dict[str, int]] = json.loads(self._stats.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def pids(self) -> list[int]:
        """Of everything that still runs."""
        everything = [d.child for d in self.daemons if d.child is not None] + self.children
        return [child.process.pid for child in everything if child.process.poll() is None]

    def rest(self) -> None:
        """Stop the queue managers in order, and leave their directories."""
        for daemon in self.daemons:
            daemon.retire()
        running = [daemon.child for daemon in self.daemons if daemon.child is not None]
        for child in running:
            child.process.terminate()
        for child in running:
            child.stop()

    def stop(self) -> None:
        """End everything, whatever state it is in."""
        for daemon in self.daemons:
            daemon.retire()
        for child in reversed(self.children):
            child.kill()
        running = [daemon.child for daemon in self.daemons if daemon.child is not None]
        for child in running:
            if child.process.poll() is None:
                child.process.terminate()
        for child in running:
            child.stop()
