"""``make spark-kill ARGS='--into files'``: a query into folders that loses its checkpoint.

A sender puts numbered messages into a queue on ALPHA; a query with our source writes them into a
folder, and is killed again and again. Every third time its checkpoint is removed between two lives.
Then the next one must be refused with ``read-before``, because its first batches would have numbers
that the folder knows; and the tool does what the text says: ``onceq spark forget``, and a new
folder.

What a folder holds is what its own ``_spark_metadata`` names, read here without Spark. Nothing may
be lost: at the end each message has a row, and the queue is empty. No folder has a message twice,
and of two folders only the batch that was written last into the earlier one may be in both: with a
lost checkpoint it is lost, too, whether that batch was removed.

Watches: I4 at the connector (P13), with a checkpoint that is lost.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import onceq
from onceq.client.stopping import pause
from proof.nodes import Node, free_port
from proof.torture.kill import SETTINGS, Driver
from proof.torture.kill_judge import Outcome
from proof.torture.spark.side import (
    BATCH_S_MAX,
    BEHIND,
    IN_QUEUE,
    MESSAGES,
    PAUSE_S,
    SparkSide,
    end_all,
    outcome_of,
)

VICTIMS = ("driver", "worker", "ALPHA")
LOST_EVERY = 3
"""One of this many kills takes the checkpoint along."""
BATCHES_MIN = 2
"""Batches after which the first one was removed: then the next query can be refused."""
FORGET_S_MAX = 120
REFUSED = "read-before"
WHOLE = ".compact"
"""An entry of such a log that has all before it, too."""


class FilesSide(SparkSide):
    """The query, which counts how far the sender is ahead of it."""

    def __init__(self, folder: Path, node: Node, driver: Driver, config: dict[str, Any]) -> None:
        self.folders = [folder / "out-0"]
        config |= {"checkpoint": str(folder / "checkpoint"), "folder": str(self.folders[0])}
        super().__init__(folder, config | {"work": str(folder / "work")}, [node])
        self._home, self._driver = folder, driver
        self.refused = 0

    def wait_for_batch(self) -> bool:
        """See SparkSide. The sender is told."""
        came = super().wait_for_batch()
        self._driver.judge.received = min(self.rows, self._driver.judge.committed)
        return came

    def lose_checkpoint(self, queue: str, manager: Path) -> str:
        """What happens to its people then; "", or what is wrong."""
        self.close()
        shutil.rmtree(self._home / "checkpoint")
        failures = self.failures
        self.start()
        with self._news:
            told = self._news.wait_for(lambda: self.failures > failures, BATCH_S_MAX)
        self.close()
        if not told or REFUSED not in self.last_failure:
            return f"a query without its checkpoint is not refused: {self.last_failure!r}"
        self.refused += 1
        said = subprocess.run(
            [sys.executable, "-c", "from onceq.cli.main import main; main()", "--qm", str(manager),
             "spark", "forget", queue, "--yes"],
            capture_output=True, text=True, timeout=FORGET_S_MAX, check=False,
        )  # fmt: skip
        if said.returncode:
            return f"onceq spark forget ended with {said.returncode}: {said.stderr}"
        shutil.rmtree(self._home / "checkpoint", ignore_errors=True)
        self.folders.append(self._home / f"out-{len(self.folders)}")
        self.change(folder=str(self.folders[-1]))
        self.start()
        return ""


def run(
    *, kills: int, seed: int, folder: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[Outcome, dict[str, int]]:
    """Do it all in a folder; every process is gone when this returns or raises."""
    alpha = Node(folder, "ALPHA", free_port(), {}, settings=SETTINGS)
    chance = random.Random(f"{seed} anew")
    driver: Driver | None = None
    spark: FilesSide | None = None
    done: Counter[str] = Counter()
    try:
        alpha.start()
        with onceq.connect(str(alpha.path)) as qm:
            qm.create_queue(IN_QUEUE, transactional=True)
        messages = chance.choice(MESSAGES)
        driver = Driver(
            folder, alpha, alpha, seed, destination=IN_QUEUE, waiting_max=messages * BEHIND
        )
        spark = FilesSide(folder, alpha, driver, {
            "managers": [str(alpha.path)], "queue": IN_QUEUE, "messages": messages,
            "partitions": chance.choice((1, 3)),
        })  # fmt: skip
        driver.sender.start()
        spark.start()
        problems = _kill_again_and_again(alpha, spark, driver, kills, chance, done, say)
        driver.sender.stopping.set()
        driver.sender.join()
        if not problems:
            code = spark.finish()
            problems += [f"the driver ended with exit code {code}"] if code else []
            left = driver.managers[0].queue(IN_QUEUE).messages
            problems += [f"{left} messages are still in the queue that was read"] if left else []
            found = [rows(one) for one in spark.folders]
            driver.outcome.received = sum(len(numbers) for numbers, _ in found)
            problems += judged(found, driver.judge.committed)
    finally:
        end_all(alpha, spark, driver)
    return outcome_of(alpha, driver, done, problems), {
        "batches": spark.batches, "failed queries": spark.failures,
        "checkpoints lost, and the query refused": spark.refused,
    }  # fmt: skip


def _kill_again_and_again(
    alpha: Node, spark: FilesSide, driver: Driver, kills: int, chance: random.Random,
    done: Counter[str], say: Callable[[str], None],
) -> list[str]:  # fmt: skip
    """Each kill follows batches that were committed, so that every life gets somewhere."""
    while done.total() < kills and not driver.judge.violations:
        lost = done.total() % LOST_EVERY == LOST_EVERY - 1
        for _ in range(BATCHES_MIN + 1 if lost else 1):
            if not spark.wait_for_batch():
                return [f"no batch in {BATCH_S_MAX:.0f} s; last failure: {spark.last_failure}"]
        pause(chance.uniform(*PAUSE_S))
        victim = "checkpoint" if lost else chance.choice(VICTIMS)
        if victim == "ALPHA":
            alpha.kill()
            alpha.start()
        elif victim == "driver":
            spark.kill_driver()
        elif victim == "checkpoint":
            problem = spark.lose_checkpoint(IN_QUEUE, alpha.path)
            if problem:
                return [problem]
        elif not spark.kill_worker(chance):
            continue
        done[victim] += 1
        say(
            f"killed {victim} ({done.total()} of {kills}); {driver.judge.committed:,} committed, "
            f"{spark.rows:,} rows, {spark.batches} batches, {spark.failures} queries failed"
        )
    return []


# ---- the judge --------------------------------------------------------------------------------


def rows(folder: Path) -> tuple[list[int], list[int]]:
    """Numbers of the messages in a folder, and those of its last batch, as its log names them."""
    log = folder / "_spark_metadata"
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    batches = {int(n): _files(log / n) for n in names if re.fullmatch(r"\d+", n)}
    wholes = {int(n[: -len(WHOLE)]): n for n in names if n.endswith(WHOLE)}
    files: dict[Path, None] = {}
    last: list[Path] = []
    for number in sorted({*batches, *wholes}):
        found = _files(log / wholes[number]) if number in wholes else batches[number]
        last = [path for path in found if path not in files]  # One that is whole has all before it.
        files |= dict.fromkeys(found)
    return _numbers(list(files)), _numbers(last)


def _files(log: Path) -> list[Path]:
    lines = log.read_text().splitlines()[1:]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]


def _numbers(files: list[Path]) -> list[int]:
    from pyarrow import parquet

    return [
        int(body.split(b" ", 1)[0])
        for file in files
        for body in parquet.read_table(file, columns=["body"]).column("body").to_pylist()
    ]


def judged(found: list[tuple[list[int], list[int]]], committed: int) -> list[str]:
    """Return the problems of folders, each later than the ones before it, with ``committed``
    messages: numbers of all messages that each has, and of its last batch."""
    problems: list[str] = []
    seen: dict[int, int] = {}
    last = [set(numbers) for _, numbers in found]
    for place, (numbers, _) in enumerate(found):
        for number, count in Counter(numbers).items():
            if count > 1:
                problems.append(f"repeated: {number} has {count} rows in folder {place}")
            before = seen.get(number)
            if before is not None and (before != place - 1 or number not in last[before]):
                problems.append(f"repeated: {number} is in folders {before} and {place}")
            if not 0 <= number < committed:
                problems.append(f"phantom: {number} was never committed")
            seen[number] = place
    problems += [f"lost: {number} is nowhere" for number in range(committed) if number not in seen]
    return problems
