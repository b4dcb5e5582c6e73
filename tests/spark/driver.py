"""A reader of a stream, called as Spark calls it, without Spark."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from onceq.spark.source.options import parse
from onceq.spark.source.stream import OnceqStreamReader

NAMES = ("queueManager", "queue", "lookupId", "body", "class")
EVERYTHING = ReadAllAvailable()


class Driver:
    """What Spark does with a reader, batch by batch."""

    def __init__(self, where: object, queue: str, **options: object) -> None:
        given = {"queueManager": str(where), "queue": queue, "retryIntervalMs": "1"}
        if "retryTimeout" not in options:
            given["numRetries"] = "3"
        given |= {name: str(value) for name, value in options.items()}
        if "subscribePattern" in given:
            del given["queue"]
        self.reader = OnceqStreamReader(parse(given, stream=True), NAMES)

    def first(self) -> Any:
        """The place where a new query begins."""
        return json.loads(json.dumps(self.reader.initialOffset()))

    def after(self, start: Any, limit: Any = EVERYTHING) -> Any:
        """The end of the next batch; what is committed is removed by that."""
        return json.loads(json.dumps(self.reader.latestOffset(start, limit)))

    def rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        """What a batch has."""
        return [
            row
            for task in self.reader.partitions(start, end)
            for batch in self.reader.read(task)
            for row in batch.to_pylist()
        ]

    def bodies(self, start: Any, end: Any) -> list[str]:
        """The bodies of a batch."""
        return [row["body"].decode() for row in self.rows(start, end)]

    def lose_connection(self) -> None:
        """As when the network is cut: whatever was held is given back by the queue manager."""
        for access in self.reader._queues.accesses.values():
            access.close()


class Drivers:
    """The drivers of one test."""

    def __init__(self) -> None:
        self._made: list[Driver] = []

    def __call__(self, *where: object, queue: str, **options: object) -> Driver:
        """A driver of these queue managers."""
        self._made.append(Driver(",".join(map(str, where)), queue, **options))
        return self._made[-1]

    def stop(self) -> None:
        """Let go of all of them."""
        for driver in self._made:
            driver.reader.stop()


def send(hub: Any, queue: str, *bodies: object) -> None:
    """Send texts, or numbers as texts, in one transaction."""
    with hub.manager.transaction() as tx:
        tx.send_many(queue, [f"{body}".encode() for body in bodies])
