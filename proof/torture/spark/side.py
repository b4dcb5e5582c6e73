"""The process that runs Spark for the tools that kill, found with all that it has started."""

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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onceq.client.credentials import TOKEN_FILE
from onceq.embedded import data_directory
from proof.nodes import Node
from proof.torture.kill import Driver
from proof.torture.kill_judge import Outcome

IN_QUEUE = r"private$\in"
"""The queue that is read."""
MESSAGES = (500, 2_000, 8_000)
"""Of a trigger; the seed chooses one."""
BEHIND = 3
"""Triggers that a query may be behind its senders: what is left at the end is worked off."""
PAUSE_S = (0.1, 1.5)
"""Between a batch that was committed and the next kill."""
BATCH_S_MAX = 180.0
"""Without a batch for so long, the query hangs."""
FINISH_S_MAX = 300.0
PROC = Path("/proc")


class SparkSide:
    """The process that runs the query, and all that it has started."""

    def __init__(self, folder: Path, config: dict[str, Any], nodes: Iterable[Node] = ()) -> None:
        self._folder = folder
        self._tokens = folder / "tokens"
        self._tokens.touch(0o600)
        self._tokens.write_text("".join(
            f"{one.clients_at} {one.token}\n{one.path} {one.token}\n" if one.token
            else f"{one.path} -\n" for one in nodes
        ))  # fmt: skip
        self._config = config
        self._path = folder / "spark.json"
        self.change()
        self.arguments = ["-m", "proof.torture.spark.kill_driver", str(self._path)]
        """Of Python."""
        self.batches = self.rows = self.failures = 0
        self.last_failure = ""
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    def change(self, **more: Any) -> None:
        """Another configuration; the process that runs does not see it, the next one does."""
        self._config.update(more)
        self._path.write_text(json.dumps(self._config))

    def start(self) -> None:
        """Start it; it goes on with its checkpoint."""
        with open(self._folder / "spark.log", "a") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True, env={**os.environ, TOKEN_FILE: str(self._tokens)},
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
        """End the processes that are left of it."""
        self._end()


def end_all(alpha: Node, side: SparkSide | None, driver: Driver | None) -> None:
    """End every process of a run with one queue manager, however far it came."""
    if driver is not None:
        driver.sender.stopping.set()
    if side is not None:
        side.close()
    if alpha.process is not None:
        alpha.kill(signal.SIGTERM)
    if driver is not None:
        driver.close()


def outcome_of(alpha: Node, driver: Driver, done: Counter[str], problems: list[str]) -> Outcome:
    """What came of such a run, when all of it has ended."""
    outcome = driver.outcome
    outcome.kills = dict(done)
    outcome.violations = problems + driver.judge.violations
    problem = data_directory.check(str(alpha.path)).problem
    outcome.violations += [f"ALPHA: {problem}"] if problem else []
    return outcome


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
