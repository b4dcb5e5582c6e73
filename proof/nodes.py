"""Real daemons for tools that drive them: each in a process of its own, ended by its own pid.

With ``acquaint`` they have identities, and speak TLS with each other.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import onceq
from onceq.embedded import data_directory, trusting

READY_S_MAX = 60.0


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Node:
    """One daemon in a process of its own."""

    def __init__(
        self, folder: Path, name: str, port: int, peers: dict[str, int], *, settings: str = "",
        clients: bool = False, unread: bool = False,
    ) -> None:  # fmt: skip
        """Args:
        clients: Whether applications may connect over TCP, too.
        unread: Nobody reads what it writes: standard error is a pipe that is full soon.
        """
        self._unread = unread
        self.path = folder / name.lower()
        self.clients_at = f"127.0.0.1:{free_port()}" if clients else ""
        self.name, self.token = name, ""
        self.process: subprocess.Popen[bytes] | None = None
        self.kills = 0
        self.start_s: list[float] = []
        self.program = ["-m", "onceq.service.main"]
        data_directory.init(
            str(self.path), name=name, listen=f"127.0.0.1:{port}",
            client_listen=self.clients_at or None,
            peers={peer: f"127.0.0.1:{at}" for peer, at in peers.items()},
        )  # fmt: skip
        configuration = self.path / "onceq.toml"
        configuration.write_text(configuration.read_text() + settings)
        if clients:
            with onceq.open(self.path) as qm:
                # Over TCP an application proves by nothing else who it is.
                self.token = qm.tokens.create("tools", grants={"": "administer"}).token

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        began = time.monotonic()
        with open(self.path / "log.txt", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, "--data", str(self.path)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE if self._unread else log,
                start_new_session=True,
            )  # fmt: skip
        if self.process.stderr is not None:
            fcntl.fcntl(self.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        assert self.process.stdout is not None
        watch = threading.Timer(READY_S_MAX, self.process.kill)
        watch.start()
        said = self.process.stdout.readline()
        watch.cancel()
        if b"ready" not in said:
            self.process.wait()
            tail = (self.path / "log.txt").read_text()[-2000:]
            raise RuntimeError(f"{self.name} did not start:\n{tail}")
        self.start_s.append(time.monotonic() - began)

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self.process is not None
        return self.process.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it by its own pid; returns its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.kills += number == signal.SIGKILL
        code = self.process.wait(60)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def acquaint(authority: Node, *others: Node) -> dict[str, str]:
    """Give daemons identities, as ``onceq tls init``, ``invite`` and ``join`` do. None of them has
    run before; the authority runs afterwards.

    Returns:
        The GUID of each, by name.
    """
    guids = {authority.name: trusting.init(str(authority.path)).id}
    authority.start()
    for node in others:
        code = trusting.invite(str(authority.path), node.name).code
        guids[node.name] = trusting.join(str(node.path), code).id
    return guids


def allow(node: Node, guid: str, rights: str = "send", queue: str = "*") -> None:
    """Let another queue manager do something at a daemon that runs."""
    with onceq.connect(str(node.path)) as manager:
        manager.rights.grant(f"peer:{guid}", rights, queue)
