"""All systems, by name. A module of one is read only when it is asked for: its client library may
be missing."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from proof.bench.peers.contract import System


@dataclass(frozen=True)
class Entry:
    """A system that can be measured.

    Attributes:
        place: Module and class.
        title: In tables.
        transactions: Whether the messages of one send, or one receive, take effect all or none.
    """

    place: str
    title: str
    transactions: bool = True


SYSTEMS = {
    "onceq": Entry("proof.bench.peers.managers:Daemon", "onceq, daemon"),
    "onceq-embedded": Entry("proof.bench.peers.managers:Embedded", "onceq, embedded"),
    "onceq-two": Entry("proof.bench.peers.managers:TwoManagers", "onceq, over two daemons"),
    "postgresql": Entry("proof.bench.peers.postgresql:PostgresTable", "PostgreSQL, table"),
    "redis": Entry("proof.bench.peers.redis_streams:RedisStreams", "Redis, stream"),
    "kafka-transactions": Entry("proof.bench.peers.kafka:KafkaTransactions", "Kafka, transactions"),
    "kafka": Entry("proof.bench.peers.kafka:Kafka", "Kafka, idempotent", transactions=False),
    "rabbitmq": Entry(
        "proof.bench.peers.rabbitmq:QuorumQueue", "RabbitMQ, quorum queue", transactions=False
    ),
    "beanstalkd": Entry(
        "proof.bench.peers.beanstalkd:Beanstalkd", "beanstalkd", transactions=False
    ),
    "nats": Entry("proof.bench.peers.jetstream:JetStream", "NATS JetStream", transactions=False),
}
"""In the order of the tables."""


def system(name: str) -> type[System]:
    """The class of a system; raises ImportError if its client library is not there."""
    module, _, kind = SYSTEMS[name].place.partition(":")
    found: type[System] = getattr(importlib.import_module(module), kind)
    assert found.name == name
    return found
