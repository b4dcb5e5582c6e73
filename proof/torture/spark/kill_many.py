"""``make spark-kill ARGS='--managers 2'``: a source and a sink of two queue managers, of which one
joins in the middle.

ALPHA and BETA each have a sender that puts numbered messages into a queue to be read, and a
receiver at a queue to be written. The query begins with ALPHA alone, reached by its directory. In
the middle of the run its driver is killed, and the next one goes on with the same checkpoint and
with both, reached over TCP: BETA's messages, which have waited, are read from the first on, and
each batch is written to both with one decision.

Which way a message takes follows from its key: by an address to one queue manager, to wherever the
turn of its partition says, or through ALPHA and over the network to BETA. What is promised, and
judged (``kill_judge.Streams``): each message once, and in order of each source and key in every
queue where they come. With an even seed the query writes its batches itself (``foreachBatch``),
with the rows of a key in one partition and sorted, as ``docs/how-to/spark.md`` says; then a key has
one way, also where partitions take turns. With an odd one it is a stream from queue to queue, whose
partitions are those of the source; then a key whose partitions take turns comes in two queues.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from proof.nodes import Node
from proof.torture.kill import DESTINATION, QUEUE
from proof.torture.kill_judge import Outcome, Streams
from proof.torture.kill_load import Receiver, Sender, Traffic
from proof.torture.spark.side import BEHIND, IN_QUEUE, MESSAGES, SparkSide

KEYS = 12
WAYS = 3
TURNS = 1
"""Of the ways, the one by the turns of partitions."""


class Crossing:
    """Both are read and written; see the module."""

    def __init__(
        self, folder: Path, alpha: Node, beta: Node, seed: int, chance: random.Random
    ) -> None:
        batchwise = seed % 2 == 0
        roaming = () if batchwise else range(TURNS, KEYS, WAYS)
        judge = Streams((alpha.name, beta.name), KEYS, roaming)
        messages = chance.choice(MESSAGES)
        self.traffic: Traffic = Both(
            judge, seed, folder, alpha, beta, waiting_max=messages * BEHIND
        )
        self._both = [alpha.clients_at, beta.clients_at]
        self.config: dict[str, object] = {
            "queue": IN_QUEUE, "keys": KEYS, "messages": messages,
            "partitions": chance.choice((1, 3)), "tasks": chance.choice((2, 3)) if batchwise else 0,
            **_ways([str(alpha.path)]),
        }  # fmt: skip

    def join(self, spark: SparkSide) -> bool:
        """BETA joins, and ALPHA has another address."""
        spark.change(**_ways(self._both))
        return True


def _ways(managers: list[str]) -> dict[str, object]:
    """Which queue managers there are, and where messages go by their keys."""
    return {
        "managers": managers,
        "destinations": [f"{managers[-1]}/{QUEUE}", QUEUE, f"{managers[0]}/{DESTINATION}"],
    }


class Both(Traffic):
    """A sender and a receiver at each queue manager."""

    judge: Streams

    def __init__(
        self, judge: Streams, seed: int, folder: Path, *nodes: Node, waiting_max: int
    ) -> None:
        super().__init__(judge, seed, folder, *nodes)
        names = [node.name for node in nodes]
        for name, qm in zip(names, self.managers, strict=True):
            for queue in (IN_QUEUE, QUEUE):
                qm.create_queue(queue, transactional=True)
            self.parts += [Outcome(), Outcome()]
            self.senders.append(
                Sender(
                    qm, IN_QUEUE, self.judge.sources[name], self.parts[-2], self.history,
                    chance=random.Random(f"{seed} send {name}"), body=partial(body, name),
                    waiting_max=waiting_max,
                )
            )  # fmt: skip
            self.receivers.append(
                Receiver(
                    qm, QUEUE, self.judge.violations, self.parts[-1],
                    chance=random.Random(f"{seed} receive {name}"),
                    received=partial(self._received, name),
                )
            )  # fmt: skip
        self._unsure = dict(zip(names, self.senders, strict=True))

    def _received(self, place: str, bodies: list[bytes]) -> None:
        messages = [parsed(found) for found in bodies]
        self.history.note("received", messages[0][1], len(messages), source=messages[0][0])
        unsure = {name: sender.under_way for name, sender in self._unsure.items()}
        self.judge.receive(place, messages, unsure)


def body(name: str, number: int) -> bytes:
    """Of the message of a number, from a source."""
    return b"%s %d %s" % (name.encode(), number, b"x" * (number % 200))


def parsed(found: bytes) -> tuple[str, int]:
    """Source and number of a message; raises ValueError if it is not whole."""
    name, number, _ = found.split(b" ")
    if found != body(name.decode(), int(number)):
        raise ValueError(f"the body of message {number.decode()} of {name.decode()} is changed")
    return name.decode(), int(number)
