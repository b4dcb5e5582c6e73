"""A topic of one Kafka broker (KRaft), each append flushed: without transactions, and with them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_STORED, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceq.errors import ConfigurationError
from onceq.spark.runtime import ensure_java
from proof.bench.peers.contract import About, Address, Link
from proof.bench.peers.programs import fetching
from proof.bench.peers.server import Measured, Served
from tests.programs import CACHE, NoServer, run, within_reach
from tests.servers import free_port

VERSION = "4.4.0"
LOG4J = "2.25.2"
PROJECT = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>onceq</groupId><artifactId>bench</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
<version>{LOG4J}</version></dependency>
</dependencies>
</project>
"""
JARS = f"kafka-{VERSION}"
CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
log.flush.interval.messages=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.coordinator.append.linger.ms=0
broker.session.timeout.ms=600000
"""
HEAP = "1g"
WAIT_S = 60.0
POLL_S = 0.1
LINGER_MS = 5
"""The end of a transaction ends it."""
TOPIC, GROUP = "queue", "client"
CLIENT: dict[str, Any] = {"log_level": 0, "socket.timeout.ms": 60_000}


def _java() -> str:
    try:
        return str(Path(ensure_java()) / "bin" / "java")
    except ConfigurationError as error:
        raise NoServer(error.text) from None


def _jars() -> Path:
    """Of Maven; fetched whole or not at all."""
    if not (CACHE / JARS).exists():
        fetching("Kafka")
        maven = shutil.which("mvn")
        if maven is None:
            raise NoServer("Kafka's jars come from Maven, and there is no mvn on the PATH")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            (Path(work) / "pom.xml").write_text(PROJECT)
            done = subprocess.run(
                [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
                cwd=work, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise NoServer(f"Kafka's jars cannot be had: {done.stdout.strip()[-300:]}")
            (Path(work) / "jars").rename(CACHE / JARS)
    return within_reach(CACHE, (JARS,), JARS) / JARS


class _Broker(Measured):
    def __init__(self, within: Path) -> None:
        self._java, self._jars = _java(), _jars()
        super().__init__(within)
        self._configuration = self.folder / "broker.properties"
        self._configuration.write_text(
            CONFIGURATION.format(port=self.port, controller=free_port(), folder=self.folder)
        )

    def format(self) -> None:
        """Make its folder one of a new cluster."""
        run(
            self._java, "-cp", f"{self._jars}/*", "kafka.tools.StorageTool", "format",
            "-t", str(uuid.uuid4()), "-c", self._configuration, env=self.environment(),
        )  # fmt: skip

    def command(self) -> list[str]:
        heap = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC"]
        where = ["-cp", f"{self._jars}/*", "kafka.Kafka", str(self._configuration)]
        return [self._java, *heap, *where]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder)}

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    @property
    def servers(self) -> dict[str, Any]:
        """For a client."""
        return {**CLIENT, "bootstrap.servers": f"127.0.0.1:{self.port}"}


class TopicLink(Link):
    """An idempotent producer, and a consumer of its own group that commits its place."""

    def __init__(self, servers: dict[str, Any]) -> None:
        common = {
            **servers, "enable.idempotence": True, "acks": "all", "batch.size": 4_000_000,
            "batch.num.messages": 100_000, "message.max.bytes": 8_000_000,
        }  # fmt: skip
        self._single = Producer({**common, "linger.ms": 0})
        self._several = Producer({**common, "linger.ms": LINGER_MS})
        self._consumer = _consumer(servers)

    def send(self, bodies: list[bytes]) -> None:
        producer = self._single if len(bodies) == 1 else self._several
        for body in bodies:
            producer.produce(TOPIC, body)
        if producer.flush(WAIT_S):
            raise RuntimeError("Kafka did not answer in time")

    def receive(self, count: int) -> list[bytes]:
        bodies, place = _taken(self._consumer, count)
        self._consumer.commit(offsets=place, asynchronous=False)
        return bodies

    def close(self) -> None:
        self._consumer.close()


class TransactionLink(Link):
    """A producer in transactions; what is received is committed in one as well."""

    def __init__(self, servers: dict[str, Any]) -> None:
        name = f"client-{uuid.uuid4().hex}"
        given = {**servers, "transactional.id": name, "linger.ms": LINGER_MS}
        self._producer = Producer({**given, "batch.size": 4_000_000})
        self._producer.init_transactions(WAIT_S)
        self._consumer = _consumer(servers)

    def send(self, bodies: list[bytes]) -> None:
        self._producer.begin_transaction()
        for body in bodies:
            self._producer.produce(TOPIC, body)
        self._producer.commit_transaction(WAIT_S)

    def receive(self, count: int) -> list[bytes]:
        bodies, place = _taken(self._consumer, count)
        self._producer.begin_transaction()
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(place, group, WAIT_S)
        self._producer.commit_transaction(WAIT_S)
        return bodies

    def close(self) -> None:
        self._consumer.close()


def _consumer(servers: dict[str, Any]) -> Any:
    """From where the group has come to."""
    consumer = Consumer({
        **servers, "group.id": GROUP, "enable.auto.commit": False, "fetch.wait.max.ms": 10,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
        "queued.min.messages": 100_000, "fetch.error.backoff.ms": 5,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_STORED)])
    return consumer


def _taken(consumer: Any, count: int) -> tuple[list[bytes], list[Any]]:
    """Take ``count`` messages; return them and the places behind them."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        found = consumer.consume(count - len(bodies), WAIT_S)
        for message in found:
            if message.error():
                raise RuntimeError(f"Kafka: {message.error()}")
            bodies.append(message.value())
        if not found:
            raise RuntimeError("Kafka gave no message in time")
    return bodies, [TopicPartition(TOPIC, 0, found[-1].offset() + 1)]


class Kafka(Served):
    """One broker, which is its own controller; one topic of one partition."""

    name = "kafka"
    warm_s = 1.2
    broker: _Broker
    settings = "idempotent producer, acks=all; receives commit their offset"

    def start(self) -> None:
        broker = _Broker(self.folder)
        try:
            broker.format()
        except BaseException:
            broker.close()
            raise
        self.broker = self.run(broker)
        admin = AdminClient(broker.servers)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_S)
        self._await_coordinator()

    def _await_coordinator(self) -> None:
        """The first who asks for the place of a group makes the broker create a topic for such
        places, and is refused until it is there."""
        consumer = _consumer(self.broker.servers)
        until = time.monotonic() + WAIT_S
        while True:
            try:
                consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_S)
                continue
            break
        consumer.close()

    def about(self) -> About:
        library = confluent_kafka.libversion()[0]
        return About(
            f"Kafka {VERSION}, confluent-kafka {confluent_kafka.__version__}, librdkafka {library}",
            f"log.flush.interval.messages=1; {self.settings}; heap of {HEAP}",
        )

    def address(self) -> Address:
        return self.broker.servers

    @classmethod
    def link(cls, address: Address) -> Link:
        return TopicLink(address)


class KafkaTransactions(Kafka):
    """The same with its transactions."""

    name = "kafka-transactions"
    settings = "transactional producer; receives commit their offset in a transaction"

    @classmethod
    def link(cls, address: Address) -> Link:
        return TransactionLink(address)
