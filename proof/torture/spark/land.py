"""``make spark-land``: ``onceq spark land`` killed again and again; each message is one row.

A sender puts numbered messages into a queue (``kill.py``), most of them JSON and some not; the
command lands them in a table, of the kind that is asked for, and bad ones in its error table.
Meanwhile SIGKILL ends the command with its Java, a Python worker in the middle of a task, or the
daemon, at moments that the seed decides; a command that has failed is given again. At the end it is
interrupted, given again with ``--until-empty``, and the tables are read by the library of their
kind (``land_judge.py``): every message that was committed once, with all that it says, in the
order of the commits.

Watches: I4 and I5 at the connector (P13).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import onceq
from onceq.client.stopping import pause
from onceq.spark.land.plan import TABLES, LandPlan
from onceq.spark.runtime import QUICK
from proof.nodes import Node, free_port
from proof.torture.command import command
from proof.torture.kill import SETTINGS, Driver
from proof.torture.kill_judge import Outcome
from proof.torture.spark.land_judge import body, judged
from proof.torture.spark.side import (
    BATCH_S_MAX,
    FINISH_S_MAX,
    IN_QUEUE,
    PAUSE_S,
    SparkSide,
    end_all,
    outcome_of,
)

VICTIMS = ("command", "command", "worker", "worker", "ALPHA")
STOPPED = 130
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable from which the command's Java has its options, settings of Spark among them."""
JAVA = "spark.driver.extraJavaOptions"
_BATCH = re.compile(r"batch \d+: ([\d,]+) messages")


class LandSide(SparkSide):
    """The command, given again whenever it has failed."""

    def __init__(self, folder: Path, driver: Driver, arguments: list[str]) -> None:
        super().__init__(folder, {})
        self._driver = driver
        self._more: list[str] = []
        self._wanted = True
        self._command = [
            "-c", "from onceq.cli.main import main; main()", *arguments, "--master", "local[2,3]",
        ]  # fmt: skip
        more = [QUICK[JAVA], *(f"-D{name}={QUICK[name]}" for name in QUICK if name != JAVA)]
        self._environment = {
            **os.environ, OPTIONS: " ".join((os.environ.get(OPTIONS, ""), *more)),
            "TMPDIR": str(folder),  # what is killed leaves files there
        }  # fmt: skip
        self.said = ""

    def start(self) -> None:
        """Give the command; a table that is there goes on."""
        process = subprocess.Popen(
            [sys.executable, *self._command, *self._more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=self._environment,
        )  # fmt: skip
        self._process = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            found = _BATCH.match(line)
            with self._news:
                if found:
                    self.batches += 1
                    # The sender limits the messages that no batch has counted yet.
                    self._driver.judge.received += int(found[1].replace(",", ""))
                else:
                    self.last_failure = line.strip()
                self._news.notify_all()
        code = process.wait()
        if code > 0 and self._wanted and process is self._process:
            self.failures += 1
            self.start()

    def end(self, number: int) -> int:
        """A signal, and what it exits with."""
        self._wanted = False
        process = self._process
        assert process is not None
        process.send_signal(number)
        self.said = _all(process.stdout)
        return process.wait(FINISH_S_MAX)

    def finish(self) -> int:
        """Let it work off what is left; its exit code."""
        self._more = ["--until-empty"]
        self.start()
        process = self._process
        assert process is not None
        self.said = _all(process.stdout)
        return process.wait(FINISH_S_MAX)


def _all(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.read()


def run(
    *, kills: int, seed: int, folder: Path, kind: str = "parquet",
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Outcome, dict[str, int]]:  # fmt: skip
    """Do it all in a folder; every process is gone when this returns or raises."""
    alpha = Node(folder, "ALPHA", free_port(), {}, settings=SETTINGS)
    chance = random.Random(f"{seed} land")
    plan = LandPlan(str(alpha.path), IN_QUEUE, folder / "table", table=kind)
    (folder / "schema.sql").write_text("n BIGINT NOT NULL, padding STRING")
    land: LandSide | None = None
    driver: Driver | None = None
    done: Counter[str] = Counter()
    try:
        alpha.start()
        with onceq.connect(str(alpha.path)) as qm:
            qm.create_queue(IN_QUEUE, transactional=True)
        driver = Driver(folder, alpha, alpha, seed, destination=IN_QUEUE, body=body)
        land = LandSide(
            folder, driver,
            ["--qm", str(alpha.path), "spark", "land", IN_QUEUE, "--to", kind, str(plan.to),
             "--format", "json", "--schema", str(folder / "schema.sql"),
             "--batch", str(chance.choice((2_000, 5_000, 10_000)))],
        )  # fmt: skip
        driver.sender.start()
        land.start()
        problems = _kill_again_and_again(alpha, land, driver, kills, chance, done, say)
        # One that has only begun to start would not hear that it is interrupted.
        if not problems and not land.wait_for_batch():
            problems = [f"no batch after the last kill; last said: {land.last_failure}"]
        driver.sender.stopping.set()
        driver.sender.join()
        if not problems:
            problems = _end(land, plan, driver)
    finally:
        end_all(alpha, land, driver)
    return outcome_of(alpha, driver, done, problems), {
        "batches": land.batches,
        "failed commands": land.failures,
    }


def _kill_again_and_again(
    alpha: Node, land: LandSide, driver: Driver, kills: int, chance: random.Random,
    done: Counter[str], say: Callable[[str], None],
) -> list[str]:  # fmt: skip
    """Each kill follows a batch that was landed, so that every life gets somewhere."""
    while done.total() < kills and not driver.judge.violations:
        if not land.wait_for_batch():
            return [f"no batch in {BATCH_S_MAX:.0f} s; last said: {land.last_failure}"]
        pause(chance.uniform(*PAUSE_S))
        victim = chance.choice(VICTIMS)
        if victim == "ALPHA":
            alpha.kill()
            alpha.start()
        elif victim == "command":
            land.kill_driver()
        elif not land.kill_worker(chance):
            continue
        done[victim] += 1
        say(
            f"killed {victim} ({done.total()} of {kills}); {driver.judge.committed:,} committed, "
            f"{land.batches} batches, {land.failures} commands failed"
        )
    return []


def _end(land: LandSide, plan: LandPlan, driver: Driver) -> list[str]:
    """Stop in order, land what is left, and look."""
    problems = []
    code = land.end(signal.SIGINT)
    if code != STOPPED:
        problems.append(f"interrupted, the command ended with {code}: {land.last_failure}")
    code = land.finish()
    if code:
        problems.append(f"the command ended with exit code {code}: {land.last_failure} {land.said}")
    with onceq.connect(plan.manager) as qm:
        left = qm.queue(IN_QUEUE).messages
    if left:
        problems.append(f"{left} messages are still in the queue")
    driver.outcome.received, wrong = judged(
        plan.table, plan.to, driver.judge.committed, manager="ALPHA", queue=IN_QUEUE
    )
    return problems + wrong


def table(outcome: Outcome, more: Mapping[str, int]) -> str:
    """The result for people."""
    rows = [
        ("seed", outcome.seed),
        ("SIGKILLs", ", ".join(f"{name} {count}" for name, count in sorted(outcome.kills.items()))),
        *more.items(),
        ("messages committed", f"{outcome.committed:,}"),
        ("rows read back", f"{outcome.received:,}"),
        ("lost, repeated, out of order", len(outcome.violations)),
    ]
    return "\n".join(f"{name:30} {value}" for name, value in rows)


def main(arguments: list[str]) -> int:
    """The command."""
    return command(
        arguments, "spark-land", __doc__ or "", run, table,
        count=20, what="the command and the queue manager", telling=True,
        choices={"kind": TABLES},
    )  # fmt: skip
