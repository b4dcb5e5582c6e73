"""A daemon, and each kind of connection to it: for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import onceq
from onceq.client.credentials import AUTHORITIES, TOKEN
from onceq.errors import ReceiveTimeout
from tests.daemon.applications import Daemon
from tests.hosts.door import DoorProcess
from tests.scratch import scratch
from tests.servers import free_port
from tests.unit.client.tls_door import Authority

Q, PLAIN, OUT = r"private$\orders", r"private$\plain", r"private$\out"
LINKS = ("unix", "tcp", "tls")


@dataclass
class Place:
    """A daemon, and where to connect to it by each kind of connection."""

    daemon: Daemon
    tls: str
    token: str

    def where(self, link: str) -> str:
        """For ``connect``; over TCP a token says who connects."""
        os.environ.pop(TOKEN, None)
        if link == "tcp":
            os.environ[TOKEN] = self.token
        return {"unix": self.daemon.where, "tcp": self.daemon.tcp, "tls": self.tls}[link]

    def bodies(self, queue: str) -> list[bytes]:
        """What stands in a queue, once each connection that is lost was noticed."""
        with onceq.connect(self.daemon.where) as other:
            try:
                return sorted(other.peek_many(queue, 10_000).bodies())
            except ReceiveTimeout:
                return []

    def purge(self) -> None:
        with onceq.connect(self.daemon.where) as other:
            for queue in (Q, PLAIN, OUT):
                other.purge(queue)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """It stands still meanwhile."""
        self.daemon.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemon.signal(signal.SIGCONT)


@contextlib.contextmanager
def placed(factory: pytest.TempPathFactory, name: str) -> Iterator[Place]:
    """With its three queues."""
    with scratch(factory, name) as folder, Daemon(folder / "a", tcp=free_port()) as daemon:
        with onceq.connect(daemon.where) as qm:
            for queue in (Q, OUT):
                qm.create_queue(queue, transactional=True)
            qm.create_queue(PLAIN)
            token = qm.tokens.create("hosts", grants={"": "administer"}).token
        authority = Authority(folder)
        os.environ[AUTHORITIES] = authority.file
        try:
            with DoorProcess(str(daemon.path / "onceq.sock"), authority) as door:
                yield Place(daemon, door.where, token)
        finally:
            del os.environ[AUTHORITIES]
            os.environ.pop(TOKEN, None)
