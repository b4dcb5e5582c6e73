"""beanstalkd with its log synced at every write. It has no transactions: the puts of a batch
are sent in one go, and all answers awaited. This module speaks its protocol, since its clients wait
for each answer."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.programs import program
from proof.bench.peers.server import Measured, Served

WAIT_S = 60.0
RUN_S = 600
"""How long a message may be with a receiver."""
BUFFER = 1 << 17


class _Server(Measured):
    def __init__(self, within: Path) -> None:
        self.program, self._env = program("beanstalkd", ("beanstalkd",), "usr/bin/beanstalkd")
        super().__init__(within)

    def command(self) -> list[str]:
        where = ["-l", "127.0.0.1", "-p", str(self.port)]
        return [self.program, *where, "-b", str(self.folder), "-f0"]

    def environment(self) -> dict[str, str]:
        return self._env

    def version(self) -> str:
        done = subprocess.run(
            [self.program, "-v"], capture_output=True, text=True, env=self._env, check=False
        )
        return done.stdout.split()[-1]

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), WAIT_S).close()
        except OSError:
            return False
        return True


class TubeLink(Link):
    """Pipelined commands on one connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", BUFFER)

    def _all(self, count: int, said: bytes) -> None:
        for _ in range(count):
            line = self._answers.readline()
            if not line.startswith(said):
                raise RuntimeError(f"beanstalkd says {line!r} where {said!r} was due")

    def send(self, bodies: list[bytes]) -> None:
        puts = [b"put 0 0 %d %d\r\n%b\r\n" % (RUN_S, len(body), body) for body in bodies]
        self._socket.sendall(b"".join(puts))
        self._all(len(bodies), b"INSERTED")

    def receive(self, count: int) -> list[bytes]:
        self._socket.sendall(b"reserve\r\n" * count)
        bodies, deletes = [], []
        for _ in range(count):
            _, number, size = self._answers.readline().split()
            bodies.append(self._answers.read(int(size) + 2)[:-2])
            deletes.append(b"delete %b\r\n" % number)
        self._socket.sendall(b"".join(deletes))
        self._all(count, b"DELETED")
        return bodies

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class Beanstalkd(Served):
    """One server, one tube."""

    name = "beanstalkd"
    server: _Server

    def start(self) -> None:
        self.server = self.run(_Server(self.folder))

    def about(self) -> About:
        return About(
            f"beanstalkd {self.server.version()}, its protocol spoken directly",
            "-f0: a sync after every write; several commands sent in one go",
        )

    def address(self) -> Address:
        return {"port": self.server.port}

    @classmethod
    def link(cls, address: Address) -> Link:
        return TubeLink(address["port"])
