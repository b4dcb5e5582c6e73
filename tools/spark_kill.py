"""``make spark-kill``: a Spark query between two queues, killed again and again; nothing may be
lost, repeated or out of order.

A sender puts numbered messages into a queue on ALPHA; a query reads them there with our source and
writes them with our sink, through ALPHA, into a queue on BETA; a receiver takes them there in
transactions (``kill.py``). Meanwhile SIGKILL ends the driver with its Java, a Python worker in the
middle of a task, or one of the daemons, at moments that the seed decides. The history of sender and
receiver is the judge (``kill_judge.py``); at the end nothing may stand anywhere, and no branch may
be left prepared.

Watches: I4 and I5 at the connector (P13), I20, I21.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onceq
from kill import DESTINATION, SETTINGS, Driver
from kill_command import command
from kill_judge import Outcome
from nodes import Node, free_port
from onceq.client.pause import pause
from onceq.embedded import data_directory

ROOT = Path(__file__).resolve().parent.parent
IN_QUEUE = r"private$\in"
VICTIMS = ("driver", "worker", "worker", "worker", "ALPHA", "ALPHA", "BETA")
PAUSE_S = (0.1, 1.5)
"""Between a batch that was committed and the next kill."""
BATCH_S_MAX = 180.0
"""Without a batch for so long, the query hangs."""
FINISH_S_MAX = 300.0
PROC = Path("/proc")


class SparkSide:
    """The process that runs the query, and all that it has started."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self._folder = folder
        path = folder / "spark.json"
        path.write_text(json.dumps(config))
        self.arguments = [str(ROOT / "tools/spark_kill_driver.py"), str(path)]
        """Of Python."""
        self.batches = self.rows = self.failures = 0
        self.last_failure = ""
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; it goes on with its checkpoint."""
        with open(self._folder / "spark.log", "a") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError), self._news:
                said = json.loads(line)
                self.batches += "batch" in said
                self.rows += said.get("rows", 0)
                if "failed" in said:
                    self.failures += 1
                    self.last_failure = said["failed"]
                self._news.notify_all()

    def wait_for_batch(self) -> bool:
        """Until another batch is committed; False if none comes."""
        with self._news:
            seen = self.batches
            return self._news.wait_for(lambda: self.batches > seen, BATCH_S_MAX)

    def kill_driver(self) -> None:
        """SIGKILL for the driver, its Java and its workers, and a new one."""
        self._end()
        self.start()

    def kill_worker(self, chance: random.Random) -> bool:
        """SIGKILL for one Python process that works for Spark; False if there is none now."""
        assert self._process is not None
        found = workers(self._process.pid)
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
        return True

    def finish(self) -> int:
        """Let it work off what is left; returns its exit code."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        return process.wait(FINISH_S_MAX)

    def _end(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # a session of its own: its id is the group's
            process.wait()

    def close(self) -> None:
        """End whatever is left of it."""
        self._end()


def workers(driver: int) -> list[int]:
    """Python processes below a driver that run code of tasks: those that Spark's daemon forks."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for place in PROC.iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(place.name)] = int(
                    (place / "stat").read_text().rpartition(")")[2].split()[1]
                )
                commands[int(place.name)] = (place / "cmdline").read_bytes()

    def below(process: int) -> bool:
        while process and process != driver:
            process = parents.get(process, 0)
        return process == driver

    return sorted(
        pid for pid, command in commands.items()
        if b"pyspark" in command and b"java" not in command and pid != driver and below(pid)
    )  # fmt: skip


def run(
    *, kills: int, seed: int, folder: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[Outcome, dict[str, int]]:
    """Do it all in a folder; every process is gone when this returns or raises."""
    ports = free_port(), free_port()
    alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]}, settings=SETTINGS)
    beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]}, settings=SETTINGS)
    chance = random.Random(f"{seed} spark")
    spark = SparkSide(
        folder,
        {
            "manager": str(alpha.path), "queue": IN_QUEUE, "destination": DESTINATION,
            "checkpoint": str(folder / "checkpoint"), "work": str(folder / "work"),
            "messages": chance.choice((500, 2_000, 8_000)), "partitions": chance.choice((1, 3)),
        },
    )  # fmt: skip
    driver: Driver | None = None
    done: Counter[str] = Counter()
    problems: list[str] = []
    try:
        alpha.start()
        beta.start()
        with onceq.connect(str(alpha.path)) as qm:
            qm.create_queue(IN_QUEUE, transactional=True)
        driver = Driver(folder, alpha, beta, seed, destination=IN_QUEUE)
        driver.sender.start()
        driver.receiver.start()
        spark.start()
        problems = _kill_again_and_again(
            {"ALPHA": alpha, "BETA": beta}, spark, driver, kills, chance, done, say
        )
        if not problems:
            driver.drain()
            code = spark.finish()
            problems += [f"the driver ended with exit code {code}"] if code else []
            problems += _leftovers(alpha)
            if not driver.judge.violations:
                driver.leftovers()
    finally:
        spark.close()
        if driver is not None:
            driver.sender.stopping.set()
            driver.receiver.stopping.set()
        for node in (alpha, beta):
            if node.process is not None:
                node.kill(signal.SIGTERM)
        if driver is not None:
            driver.close()
    outcome = driver.outcome
    outcome.kills = dict(done)
    outcome.violations = problems + driver.judge.violations
    for node in (alpha, beta):
        problem = data_directory.check(str(node.path))["problem"]
        if problem:
            outcome.violations.append(f"{node.name}: {problem}")
    return outcome, {"batches": spark.batches, "failed queries": spark.failures}


def _kill_again_and_again(
    nodes: dict[str, Node], spark: SparkSide, driver: Driver, kills: int, chance: random.Random,
    done: Counter[str], say: Callable[[str], None],
) -> list[str]:  # fmt: skip
    """Each kill follows a batch that was committed, so that every life gets somewhere."""
    while done.total() < kills and not driver.judge.violations:
        if not spark.wait_for_batch():
            return [f"no batch in {BATCH_S_MAX:.0f} s; last failure: {spark.last_failure}"]
        pause(chance.uniform(*PAUSE_S))
        victim = chance.choice(VICTIMS)
        if victim in nodes:
            nodes[victim].kill()
            nodes[victim].start()
        elif victim == "driver":
            spark.kill_driver()
        elif not spark.kill_worker(chance):
            continue
        done[victim] += 1
        say(
            f"killed {victim} ({done.total()} of {kills}); {driver.judge.committed:,} committed, "
            f"{driver.judge.received:,} received, {spark.batches} batches, "
            f"{spark.failures} queries failed"
        )
    return []


def _leftovers(alpha: Node) -> list[str]:
    """What must not be left of a query that has ended in order."""
    with onceq.connect(str(alpha.path)) as qm:
        left = qm.queue(IN_QUEUE).messages
        branches = [view.xid for view in qm.branches() if view.phase == "prepared"]
    problems = [f"{left} messages are still in the queue that was read"] if left else []
    if branches:
        problems.append(f"{len(branches)} branches are still prepared, such as {branches[0]}")
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


def main() -> int:
    """The command."""
    return command(
        "spark-kill", __doc__ or "", run, table,
        count=20, what="Spark and both queue managers", telling=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
