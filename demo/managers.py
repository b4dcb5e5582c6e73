"""Five queue managers and the proxies between them: made, started, killed, cleaned up.

They get to know each other by the commands that a user types.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import onceq
from demo.children import Child, free_ports, uninterrupted
from demo.faults import Rates
from demo.flights import ORIGINS
from onceq.embedded import data_directory

HUB, AUDIT = "HUB", "AUDIT"
HUB_QUEUE = "private$\\departures"
AUDIT_QUEUE = "private$\\audit"
LATE_QUEUE = "private$\\late"
"""At each airport: what Spark sends back."""
TARGETS = {HUB: f"DIRECT=OS:{HUB}\\{HUB_QUEUE}", AUDIT: f"DIRECT=OS:{AUDIT}\\{AUDIT_QUEUE}"}
"""The two queues that are filled, by their manager."""
DESTINATION = ",".join(TARGETS.values())
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


@dataclass
class Daemon:
    """One queue manager."""

    name: str
    directory: Path
    port: int
    peers: Mapping[str, int] = field(default_factory=dict)
    guid: str = ""
    """Who it is, which its certificate proves."""
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
        lines = [f'listen = "127.0.0.1:{self.port}"', 'log_level = "warning"', "[peers]"]
        lines += [f'{name} = "127.0.0.1:{port}"' for name, port in self.peers.items()]
        lines += ["[settings]", *(f"{key} = {value}" for key, value in SETTINGS.items())]
        (self.directory / "onceq.toml").write_text("\n".join(lines) + "\n")
        with uninterrupted():
            child = self.child = Child(
                ["-m", "onceq.service.main", "--data", str(self.directory)],
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
    """Five queue managers and the proxies between them, in a directory of their own.

    The managers have identities, so all that they say to each other is TLS, and each takes only
    what it was told to take, from whom it was told.
    """

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
                        "near": str(target.directory),
                        "far": str(self.airports[origin].directory),
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
        self._make_known()
        self.spawn(["-m", "demo.proxies", str(config)], "proxies")
        self._fill(self.hub, HUB_QUEUE, *self.airports.values())
        self._fill(self.audit, AUDIT_QUEUE, *self.airports.values())
        for airport in self.airports.values():
            self._fill(airport, LATE_QUEUE, self.hub)

    @staticmethod
    def _fill(daemon: Daemon, queue: str, *senders: Daemon) -> None:
        """Make a queue that others fill. Who they are is no right yet: each may send to this one,
        and do nothing else here."""
        with daemon.connect() as manager:
            manager.create_queue(queue, transactional=True)
            for sender in senders:
                manager.rights.grant(f"peer:{sender.guid}", "send", queue)

    def _make_known(self) -> None:
        """Make all five, and let them know each other by the commands that a user types.

        HUB gets an authority of its own; the others join it, each by an invitation that is good
        once, which HUB has to answer.
        """
        for daemon in self.daemons:
            made = data_directory.init(
                str(daemon.directory), name=daemon.name, listen=f"127.0.0.1:{daemon.port}"
            )
            daemon.guid = made.id
        hub, *others = self.daemons
        at = str(hub.directory)
        self._onceq(["tls", "init", "-d", at])
        hub.start()
        codes = self._onceq(*(["tls", "invite", daemon.name, "-d", at] for daemon in others))
        self._onceq(
            *(
                ["tls", "join", code.strip(), "-d", str(daemon.directory)]
                for daemon, code in zip(others, codes, strict=True)
            )
        )
        for daemon in others:
            daemon.start()

    def _onceq(self, *commands: Sequence[str]) -> list[str]:
        """Run commands side by side; what each prints. Raises RuntimeError where one fails."""
        children = [
            self.spawn(["-m", "onceq.cli.main", *command], "commands", pipe=True)
            for command in commands
        ]
        said = []
        for command, child in zip(commands, children, strict=True):
            said.append(child.output.read())
            if child.process.wait():
                raise RuntimeError(f"onceq {' '.join(command[:2])} failed: {child.complain()}")
            self.children.remove(child)
        return said

    def console(self) -> str:
        """Start a console that watches all five; the link that signs a browser in.

        Raises:
            RuntimeError: It did not start.
        """
        watched = [part for daemon in self.daemons for part in ("-q", str(daemon.directory))]
        child = self.spawn(
            ["-m", "onceq.cli.main", "console", "--port", "0", *watched], "console", pipe=True
        )
        for line in child.output:
            if line.startswith("sign in"):
                return line.partition(": ")[2].strip()
        raise RuntimeError(f"the console did not start: {child.complain()}")

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


def keep_text(network: Network, parquet: Path) -> str:
    """How to play with what was left running."""
    lines = ["The queue managers go on. Some things to try:"]
    lines += [f"  {daemon.name:<6} {daemon.directory}" for daemon in network.daemons]
    hub = network.hub.directory
    airport = network.airports["EWR"].directory
    pids = " ".join(map(str, network.pids()))
    lines += [
        f"  onceq -q {hub} queue list",
        f"  onceq -q {network.audit.directory} peek 'private$/audit'",
        f"  onceq -q {airport} outgoing list",
        f"  onceq tls show -d {hub}",
        f"  onceq rights show -q {hub}",
        f"  Parquet: {parquet}",
        f"End them with:  kill {pids}; sleep 2; rm -rf {network.directory}",
    ]
    return "\n".join(lines)
