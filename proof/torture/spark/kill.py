"""``make spark-kill``: a Spark query between two queues, killed again and again; nothing may be
lost, repeated or out of order.

A sender puts numbered messages into a queue on ALPHA; a query reads them there with our source and
writes them with our sink, through ALPHA, into a queue on BETA; a receiver takes them there in
transactions (``torture.kill_load``). Meanwhile SIGKILL ends the driver with its Java, a Python
worker the middle of a task, or one of the daemons, at moments that the seed decides. The history of
sender and receiver is the judge (``torture.kill_judge``); at the end nothing may stand anywhere,
and no branch may be left prepared.

With ``--managers 2`` both have a queue to be read and a queue to be written, and BETA joins the
source and the sink in the middle of the run (``kill_many``).
With ``--into files`` the query writes folders of Parquet, and loses its checkpoint now and then
(``kill_anew``).

Watches: I4 and I5 at the connector (P13), I2, I20, I21.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import onceq
from onceq.client.stopping import pause
from onceq.embedded import data_directory
from proof.nodes import Node, free_port
from proof.torture.command import command
from proof.torture.kill import DESTINATION, SETTINGS, Driver
from proof.torture.kill_judge import Outcome
from proof.torture.kill_load import Traffic
from proof.torture.spark import kill_anew
from proof.torture.spark.kill_many import Crossing
from proof.torture.spark.side import BATCH_S_MAX, BEHIND, IN_QUEUE, MESSAGES, PAUSE_S, SparkSide

VICTIMS = ("driver", "worker", "worker", "worker", "ALPHA", "ALPHA", "BETA")
MANAGERS = ("1", "2")
INTO = ("queues", "files")
JOIN_AT = 3
"""A third of the kills comes before a queue manager joins."""


class Shape(Protocol):
    """What a run is about: who sends what where, and what the query does with it."""

    traffic: Traffic
    config: dict[str, object]
    """Of the query; see ``kill_driver``."""

    def join(self, spark: SparkSide) -> bool:
        """Change the query in the middle of the run; False if nothing is to be changed."""


class Line:
    """From a queue on ALPHA, through ALPHA, into a queue on BETA."""

    def __init__(
        self, folder: Path, alpha: Node, beta: Node, seed: int, chance: random.Random
    ) -> None:
        with onceq.connect(str(alpha.path)) as qm:
            qm.create_queue(IN_QUEUE, transactional=True)
        messages = chance.choice(MESSAGES)
        self.config: dict[str, object] = {
            "managers": [str(alpha.path)], "queue": IN_QUEUE, "destination": DESTINATION,
            "messages": messages, "partitions": chance.choice((1, 3)),
        }  # fmt: skip
        self.traffic: Traffic = Driver(
            folder, alpha, beta, seed, destination=IN_QUEUE, waiting_max=messages * BEHIND
        )

    def join(self, spark: SparkSide) -> bool:
        """See Shape."""
        return False


def run(
    *, kills: int, seed: int, folder: Path, managers: str = MANAGERS[0], into: str = INTO[0],
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Outcome, dict[str, int]]:  # fmt: skip
    """Do it all in a folder; every process is gone when this returns or raises."""
    if into == "files":
        return kill_anew.run(kills=kills, seed=seed, folder=folder, say=say)
    ports = free_port(), free_port()
    alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]}, settings=SETTINGS, clients=True)
    beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]}, settings=SETTINGS, clients=True)
    nodes = {node.name: node for node in (alpha, beta)}
    chance = random.Random(f"{seed} spark")
    shape: Shape | None = None
    spark: SparkSide | None = None
    done: Counter[str] = Counter()
    try:
        for node in nodes.values():
            node.start()
        make = Line if managers == "1" else Crossing
        shape = make(folder, alpha, beta, seed, chance)
        places = {name: str(folder / name) for name in ("checkpoint", "work")}
        spark = SparkSide(folder, {**shape.config, **places}, nodes.values())
        shape.traffic.start()
        spark.start()
        problems = _kill_again_and_again(nodes, spark, shape, kills, chance, done, say)
        if not problems:
            shape.traffic.drain()
            code = spark.finish()
            problems += [f"the driver ended with exit code {code}"] if code else []
            problems += _leftovers(shape.traffic)
            if not shape.traffic.judge.violations:
                shape.traffic.leftovers()
    finally:
        if spark is not None:
            spark.close()
        if shape is not None:
            shape.traffic.stop()
        for node in nodes.values():
            if node.process is not None:
                node.kill(signal.SIGTERM)
        if shape is not None:
            shape.traffic.close()
    outcome = shape.traffic.outcome
    outcome.kills = dict(done)
    outcome.violations = problems + shape.traffic.judge.violations
    for node in nodes.values():
        problem = data_directory.check(str(node.path)).problem
        if problem:
            outcome.violations.append(f"{node.name}: {problem}")
    return outcome, {"batches": spark.batches, "failed queries": spark.failures}


def _kill_again_and_again(
    nodes: dict[str, Node], spark: SparkSide, shape: Shape, kills: int, chance: random.Random,
    done: Counter[str], say: Callable[[str], None],
) -> list[str]:  # fmt: skip
    """Each kill follows a batch that was committed, so that every life gets somewhere."""
    judge = shape.traffic.judge
    joined = False
    while done.total() < kills and not judge.violations:
        if not spark.wait_for_batch():
            return [f"no batch in {BATCH_S_MAX:.0f} s; last failure: {spark.last_failure}"]
        pause(chance.uniform(*PAUSE_S))
        victim = chance.choice(VICTIMS)
        due = done.total() >= kills // JOIN_AT
        if due and not joined and shape.join(spark):
            victim = "driver"
            say("what is killed next goes on with more queue managers")
        joined = due
        if victim in nodes:
            nodes[victim].kill()
            nodes[victim].start()
        elif victim == "driver":
            spark.kill_driver()
        elif not spark.kill_worker(chance):
            continue
        done[victim] += 1
        say(
            f"killed {victim} ({done.total()} of {kills}); {judge.committed:,} committed, "
            f"{judge.received:,} received, {spark.batches} batches, "
            f"{spark.failures} queries failed"
        )
    return []


def _leftovers(traffic: Traffic) -> list[str]:
    """What must not be left of a query that has ended in order."""
    problems = []
    for qm in traffic.managers:
        if any(view.path == IN_QUEUE for view in qm.queues()):
            left = qm.queue(IN_QUEUE).messages
            problems += [f"{left} messages are still in the queue that was read"] if left else []
        branches = [view.xid for view in qm.admin.branches() if view.phase == "prepared"]
        if branches:
            problems.append(
                f"{len(branches)} branches are still prepared at {qm.name}, such as {branches[0]}"
            )
        problems += [
            f"{qm.name} still remembers a decision: {one}" for one in qm.admin.decisions()[:1]
        ]
    return problems


def table(outcome: Outcome, more: Mapping[str, int]) -> str:
    """The result for people."""
    rows = [
        ("seed", outcome.seed),
        ("SIGKILLs", ", ".join(f"{name} {count}" for name, count in sorted(outcome.kills.items()))),
        *more.items(),
        ("messages committed", f"{outcome.committed:,}"),
        ("messages received", f"{outcome.received:,}"),
        ("lost, repeated, out of order", len(outcome.violations)),
    ]
    return "\n".join(f"{name:30} {value}" for name, value in rows)


def main(arguments: list[str]) -> int:
    """The command."""
    return command(
        arguments, "spark-kill", __doc__ or "", run, table,
        count=20, what="Spark and both queue managers", telling=True,
        choices={"managers": MANAGERS, "into": INTO},
    )  # fmt: skip
