"""A quorum queue of RabbitMQ, with publisher confirms.

It has no transactions over several messages of such a queue: a batch is published, and all its
confirms awaited. An acknowledgment has no answer in AMQP: nobody knows when it is durable.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.programs import fetching
from proof.bench.peers.server import Measured, Served
from tests.programs import CACHE, debian
from tests.servers import free_port

INSTALLED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PACKAGES = (
    "rabbitmq-server", "erlang-base", "erlang-asn1", "erlang-crypto", "erlang-eldap",
    "erlang-inets", "erlang-mnesia", "erlang-os-mon", "erlang-parsetools", "erlang-public-key",
    "erlang-runtime-tools", "erlang-ssl", "erlang-syntax-tools", "erlang-tools", "erlang-xmerl",
)  # fmt: skip
ERL = """#!/bin/sh
ROOTDIR={root}/usr/lib/erlang BINDIR={bin} EMU=beam PROGNAME=erl exec {bin}/erlexec "$@"
"""
CONFIGURATION = """
listeners.tcp.1 = 127.0.0.1:{port}
log.console.level = error
log.file = false
disk_free_limit.absolute = 1GB
"""
QUEUE = "queue"
PREFETCH_MIN = 50


def _programs() -> tuple[str, str, Path | None]:
    """The server, epmd, and where Debian's packages are unpacked if they come from there."""
    epmd = shutil.which("epmd")
    found = INSTALLED if INSTALLED.exists() else shutil.which("rabbitmq-server")
    if found and epmd:
        return str(found), epmd, None
    inside = str(INSTALLED.relative_to("/"))
    if not (CACHE / "rabbitmq" / inside).exists():
        fetching("rabbitmq-server")
    root, _ = debian("rabbitmq", PACKAGES, inside)
    return str((root / inside).resolve()), str(root / "usr/bin/epmd"), root


class _Names(Measured):
    """The register of names that Erlang wants; a server would start one that stays."""

    def __init__(self, within: Path, program: str) -> None:
        self._program = program
        super().__init__(within)

    def command(self) -> list[str]:
        return [self._program, "-port", str(self.port), "-address", "127.0.0.1"]

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


class _Server(Measured):
    def __init__(self, within: Path, program: str, root: Path | None, names: int) -> None:
        super().__init__(within)
        self._program = program
        self._names = names
        self._distribution = free_port()
        (self.folder / "rabbitmq.conf").write_text(CONFIGURATION.format(port=self.port))
        (self.folder / "plugins").write_text("[].")
        if root is not None:  # Debian's erl runs from nowhere but its own place
            (runtime,) = (root / "usr/lib/erlang").glob("erts-*/bin")
            erl = self.folder / "erl"
            erl.write_text(ERL.format(root=root, bin=runtime))
            erl.chmod(0o755)

    def command(self) -> list[str]:
        return [self._program]

    def environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"
            ),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def client(self) -> Any:
        """For what is done once."""
        return pika.BlockingConnection(_parameters(self.port))

    def answers(self) -> bool:
        try:
            self.client().close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True


def _parameters(port: int) -> Any:
    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)


class QuorumLink(Link):
    """One connection, a channel for either way."""

    def __init__(self, port: int) -> None:
        self._done = False
        self._why = ""
        self._unconfirmed: set[int] = set()
        self._published = 0
        self._waiting: list[tuple[int, bytes]] = []
        self._consuming = False
        self._connection = pika.SelectConnection(
            _parameters(port), on_open_callback=self._next, on_open_error_callback=self._lost,
            on_close_callback=self._lost,
        )  # fmt: skip
        self._turn(lambda: self._done)
        self.version: str = self._connection.server_properties["version"]
        self._sender = self._channel()
        self._receiver = self._channel()
        self._ask(lambda said: self._sender.confirm_delivery(self._confirmed, said))

    # ---- waiting ------------------------------------------------------------------------------

    def _turn(self, over: Callable[[], bool]) -> None:
        """Handle what comes until it is over."""
        while not over():
            self._connection.ioloop.start()
            if self._why:
                raise RuntimeError(f"RabbitMQ went away: {self._why}")

    def _next(self, *_: object) -> None:
        self._done = True
        self._connection.ioloop.stop()

    def _lost(self, _: object, why: object) -> None:
        self._why = str(why)
        self._connection.ioloop.stop()

    def _ask(self, question: Callable[[Callable[..., None]], Any]) -> Any:
        """Ask something that is answered by a call."""
        self._done = False
        found = question(self._next)
        self._turn(lambda: self._done)
        return found

    def _channel(self) -> Any:
        return self._ask(lambda said: self._connection.channel(on_open_callback=said))

    # ---- messages -----------------------------------------------------------------------------

    def _confirmed(self, frame: Any) -> None:
        said = frame.method
        if isinstance(said, pika.spec.Basic.Nack):
            self._why = "a message was refused"
        elif said.multiple:
            self._unconfirmed = {tag for tag in self._unconfirmed if tag > said.delivery_tag}
        else:
            self._unconfirmed.discard(said.delivery_tag)
        if self._why or not self._unconfirmed:
            self._connection.ioloop.stop()

    def send(self, bodies: list[bytes]) -> None:
        durable = pika.BasicProperties(delivery_mode=2)
        for body in bodies:
            self._published += 1
            self._unconfirmed.add(self._published)
            self._sender.basic_publish("", QUEUE, body, durable)
        self._turn(lambda: not self._unconfirmed)

    def _delivered(self, _: object, method: Any, __: object, body: bytes) -> None:
        self._waiting.append((method.delivery_tag, body))
        if len(self._waiting) >= self._wanted:
            self._connection.ioloop.stop()

    def receive(self, count: int) -> list[bytes]:
        self._wanted = count
        if not self._consuming:
            most = max(2 * count, PREFETCH_MIN)
            self._ask(lambda said: self._receiver.basic_qos(prefetch_count=most, callback=said))
            self._receiver.basic_consume(QUEUE, self._delivered, consumer_tag=QUEUE)
            self._consuming = True
        self._turn(lambda: len(self._waiting) >= count)
        got, self._waiting = self._waiting[:count], self._waiting[count:]
        self._receiver.basic_ack(got[-1][0], multiple=True)
        # Nothing comes back that could be waited for; one round of the loop sends it.
        self._connection.ioloop.call_later(0, self._connection.ioloop.stop)
        self._connection.ioloop.start()
        return [body for _, body in got]

    def rest(self) -> None:
        if self._consuming:
            self._ask(lambda said: self._receiver.basic_cancel(QUEUE, callback=said))
            self._consuming = False

    def close(self) -> None:
        self._connection.close()
        while not self._connection.is_closed:
            self._connection.ioloop.start()


class QuorumQueue(Served):
    """One node, one queue."""

    name = "rabbitmq"
    warm_s = 1.2
    server: _Server

    def start(self) -> None:
        program, epmd, root = _programs()
        names = self.run(_Names(self.folder, epmd))
        self.server = self.run(_Server(self.folder, program, root, names.port))
        client = self.server.client()
        client.channel().queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        client.close()

    def about(self) -> About:
        link = QuorumLink(self.server.port)
        link.close()
        return About(
            f"RabbitMQ {link.version}, pika {pika.__version__}",
            "quorum queue of one node, persistent messages, publisher confirms; prefetch of two"
            " transactions; acknowledgments have no answer, and were not waited for",
        )

    def address(self) -> Address:
        return {"port": self.server.port}

    @classmethod
    def link(cls, address: Address) -> Link:
        return QuorumLink(address["port"])
