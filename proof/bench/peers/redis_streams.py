"""A stream of Redis with a consumer group, each write synced."""

from __future__ import annotations

from pathlib import Path

import redis

from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.programs import program
from proof.bench.peers.server import Measured, Served

PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
STREAM, GROUP, CLIENT, FIELD = "queue", "group", "client", b"body"
WAIT_MS = 60_000


class _Server(Measured):
    settings = ("appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0")

    def __init__(self, within: Path) -> None:
        self._program, self._env = program("redis-server", PACKAGES, "usr/bin/redis-server")
        super().__init__(within)

    def command(self) -> list[str]:
        given = [word for setting in self.settings for word in f"--{setting}".split()]
        return [
            self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir",
            str(self.folder), "--save", "", *given,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return self._env

    def client(self) -> redis.Redis:
        return redis.Redis("127.0.0.1", self.port, protocol=2)

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


class StreamLink(Link):
    """Several commands in MULTI and EXEC take effect all or none."""

    def __init__(self, port: int) -> None:
        self._client = redis.Redis("127.0.0.1", port, protocol=2)

    def send(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self._client.execute_command("XADD", STREAM, "*", FIELD, bodies[0])
            return
        with self._client.pipeline(transaction=True) as several:
            for body in bodies:
                several.execute_command("XADD", STREAM, "*", FIELD, body)
            several.execute()

    def receive(self, count: int) -> list[bytes]:
        found = self._client.xreadgroup(GROUP, CLIENT, {STREAM: ">"}, count=count, block=WAIT_MS)
        ((_, entries),) = found
        numbers = [number for number, _ in entries]
        with self._client.pipeline(transaction=True) as several:
            several.execute_command("XACK", STREAM, GROUP, *numbers)
            several.execute_command("XDEL", STREAM, *numbers)
            several.execute()
        return [fields[FIELD] for _, fields in entries]

    def close(self) -> None:
        self._client.close()


class RedisStreams(Served):
    """One server, one stream."""

    name = "redis"
    server: _Server

    def start(self) -> None:
        self.server = self.run(_Server(self.folder))
        with self.server.client() as client:
            client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def about(self) -> About:
        with self.server.client() as client:
            version = client.info("server")["redis_version"]
        return About(
            f"Redis {version}, redis-py {redis.__version__} with hiredis",
            ", ".join(_Server.settings) + '; save ""; XADD in MULTI; XREADGROUP, then XACK and'
            " XDEL in MULTI",
        )

    def address(self) -> Address:
        return {"port": self.server.port}

    @classmethod
    def link(cls, address: Address) -> Link:
        return StreamLink(address["port"])
