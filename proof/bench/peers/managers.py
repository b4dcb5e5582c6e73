"""onceq itself: inside the client's process, as a daemon, and over two daemons."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import ClassVar

import onceq
from proof.bench.peers.contract import About, Address, Link, System
from proof.bench.peers.server import family
from proof.nodes import Node, free_port

QUEUE = r"private$\bench"
FAR = r"DIRECT=OS:BETA\private$\bench"
WAIT_S = 60.0


class ManagerLink(Link):
    """Sends through one queue manager and receives from another, or the same."""

    def __init__(
        self, sender: onceq.QueueManager, destination: str, receiver: onceq.QueueManager
    ) -> None:
        self._sender = sender
        self._destination = destination
        self._receiver = receiver

    def send(self, bodies: list[bytes]) -> None:
        with self._sender.transaction() as tx:
            tx.send_many(self._destination, bodies)

    def receive(self, count: int) -> list[bytes]:
        with self._receiver.transaction() as tx:
            return tx.receive_many(QUEUE, count, timeout=WAIT_S).bodies()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


def _about(settings: str) -> About:
    versions = f"onceq {onceq.__version__}, Python {platform.python_version()}"
    for extra in ("uvloop", "zlib-ng"):
        try:
            versions += f", {extra} {importlib.metadata.version(extra)}"
        except importlib.metadata.PackageNotFoundError:
            versions += f", no {extra}"
    return About(versions, settings)


class Embedded(System):
    """A queue manager inside the process of its only client."""

    name = "onceq-embedded"
    shared = False

    def start(self) -> None:
        """There is nothing but the client."""

    def about(self) -> About:
        return _about("defaults; each commit is synced")

    def address(self) -> Address:
        return {"path": str(self.folder / "gamma")}

    @classmethod
    def link(cls, address: Address) -> Link:
        qm = onceq.open(address["path"], name="GAMMA", create=True)
        qm.create_queue(QUEUE, transactional=True, exist_ok=True)
        return ManagerLink(qm, QUEUE, qm)

    def pids(self) -> list[int]:
        return []

    def close(self) -> None:
        """There is nothing but the client."""


class Daemon(System):
    """A queue manager in a process of its own, and clients on its Unix socket."""

    name = "onceq"
    names: ClassVar[tuple[str, ...]] = ("ALPHA",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._nodes: list[Node] = []

    def start(self) -> None:
        ports = {name: free_port() for name in self.names}
        for name, port in ports.items():
            others = {other: at for other, at in ports.items() if other != name}
            self._nodes.append(Node(self.folder, name, port, others))
            self._nodes[-1].start()
        with onceq.connect(str(self._nodes[-1].path)) as qm:
            qm.create_queue(QUEUE, transactional=True)

    def about(self) -> About:
        return _about("defaults; each commit is synced; Unix socket")

    def address(self) -> Address:
        return {"sender": str(self._nodes[0].path), "receiver": str(self._nodes[-1].path)}

    @classmethod
    def link(cls, address: Address) -> Link:
        sender = onceq.connect(address["sender"])
        if address["receiver"] == address["sender"]:
            return ManagerLink(sender, QUEUE, sender)
        return ManagerLink(sender, FAR, onceq.connect(address["receiver"]))

    def pids(self) -> list[int]:
        running = [node for node in self._nodes if node.process and node.process.poll() is None]
        return [pid for node in running for pid in family(node.pid)]

    def close(self) -> None:
        for node in self._nodes:
            if node.process is not None:
                node.kill()


class TwoManagers(Daemon):
    """Store and forward: what one daemon was given, a client receives from another one."""

    name = "onceq-two"
    alone = False
    names = ("ALPHA", "BETA")

    def about(self) -> About:
        return _about("defaults; each daemon syncs; TCP between them, Unix sockets to clients")
