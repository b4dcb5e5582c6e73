"""A stream of NATS JetStream with a work queue, each write synced."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import socket
import subprocess
import sys
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.programs import program
from proof.bench.peers.server import Measured, Served
from tests.programs import within_reach

WAIT_S = 60.0
STREAM, SUBJECT, CONSUMER = "queue", "queue", "client"
UNACKNOWLEDGED_MAX = 10_000
CONFIGURATION = """
host: "127.0.0.1"
port: {port}
jetstream {{
  store_dir: "{folder}"
  sync_interval: always
}}
"""

_Result = TypeVar("_Result")


class _Server(Measured):
    def __init__(self, within: Path) -> None:
        self.program, _ = _program()
        super().__init__(within)
        self._configuration = self.folder / "nats.conf"
        said = CONFIGURATION.format(port=self.port, folder=self.folder / "store")
        self._configuration.write_text(said)

    def command(self) -> list[str]:
        return [self.program, "-c", str(self._configuration)]

    def version(self) -> str:
        done = subprocess.run(
            [self.program, "--version"], capture_output=True, text=True, check=False
        )
        return done.stdout.split()[-1].removeprefix("v")

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), WAIT_S).close()
        except OSError:
            return False
        return True


def _program() -> tuple[str, dict[str, str]]:
    """Of the virtual environment, where the extra ``bench`` puts it; of the PATH."""
    found = Path(sys.prefix) / "bin" / "nats-server"
    if found.exists():
        root = within_reach(found.parent, (found.name,), found.name)
        return str(root / found.name), {}
    return program("nats-server", ("nats-server",), "usr/sbin/nats-server")


class StreamLink(Link):
    """A connection with an event loop of its own."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._await(self._connect(port))

    def _await(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._loop.run_until_complete(work)

    async def _connect(self, port: int) -> None:
        self._client = await nats.connect(f"nats://127.0.0.1:{port}")
        self._stream = self._client.jetstream(timeout=WAIT_S)
        self._consumer = await self._stream.pull_subscribe_bind(CONSUMER, STREAM)

    def send(self, bodies: list[bytes]) -> None:
        self._await(self._send(bodies))

    async def _send(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            await self._stream.publish(SUBJECT, bodies[0])
            return
        batch = uuid.uuid4().hex
        for at, body in enumerate(bodies[:-1], 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(at)}
            await self._client.publish(SUBJECT, body, headers=headers)
        headers = {
            "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(bodies)),
            "Nats-Batch-Commit": "1",
        }  # fmt: skip
        said = await self._client.request(SUBJECT, bodies[-1], timeout=WAIT_S, headers=headers)
        answer = json.loads(said.data)
        if answer.get("count") != len(bodies):
            raise RuntimeError(f"a batch of {len(bodies)} was answered with {answer}")

    def receive(self, count: int) -> list[bytes]:
        return self._await(self._receive(count))

    async def _receive(self, count: int) -> list[bytes]:
        found = await self._consumer.fetch(count, timeout=WAIT_S)
        for message in found[:-1]:
            await message.ack()
        await found[-1].ack_sync(timeout=WAIT_S)
        return [message.data for message in found]

    def close(self) -> None:
        self._await(self._client.close())
        self._loop.close()


class JetStream(Served):
    """One server, one stream, one consumer."""

    name = "nats"
    server: _Server

    def start(self) -> None:
        self.server = self.run(_Server(self.folder))
        asyncio.run(self._make())

    async def _make(self) -> None:
        client = await nats.connect(f"nats://127.0.0.1:{self.server.port}")
        stream = client.jetstream(timeout=WAIT_S)
        await stream.add_stream(
            StreamConfig(
                name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE,
                retention=RetentionPolicy.WORK_QUEUE, allow_atomic=True,
            )
        )  # fmt: skip
        await stream.add_consumer(
            STREAM,
            ConsumerConfig(
                durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT,
                max_ack_pending=UNACKNOWLEDGED_MAX,
            ),
        )  # fmt: skip
        await client.close()

    def about(self) -> About:
        return About(
            f"NATS {self.server.version()}, nats-py {importlib.metadata.version('nats-py')}",
            "sync_interval always; file storage, work queue; several messages as an atomic batch;"
            " fetch, an acknowledgment of each, the last one answered",
        )

    def address(self) -> Address:
        return {"port": self.server.port}

    @classmethod
    def link(cls, address: Address) -> Link:
        return StreamLink(address["port"])
