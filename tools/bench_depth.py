"""What each thing costs at a depth: rates, memory, restart and the longest pump (``make
bench-depth``).

Each depth is measured in a process of its own, with a queue manager embedded in it. A *pump* is one
turn of its loop: while it lasts, nobody else is served. So the longest one says how long a queue
manager stands still while it works off what stands in the column.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import onceq
from onceq.core.manager import Manager
from onceq.service.engine import Engine

QUEUE: Final = r"private$\deep"
SHORT: Final = r"private$\short"
BODY: Final = b"x" * 1_024
LIFETIME_S: Final = 3
DESTINATIONS: Final = 1_000
ELSEWHERE: Final = "5a5a5a5a-0000-0000-0000-000000000001"
"""A queue manager that is not there."""
AT_ONCE: Final = 1_000
COLUMNS: Final = (
    ("depth", "messages"), ("fill", "1/s"), ("send", "1/s"), ("receive", "1/s"),
    ("memory", "B each"), ("reopen", "s"), ("destinations", "1/s"), ("filling", "ms"),
    ("checkpoint", "ms"), ("expiry", "ms"), ("purge", "ms"),
)  # fmt: skip
"""Name and unit; from ``filling`` on the longest pump meanwhile, of a checkpoint its snapshot."""


class Longest:
    """The longest call of a function without arguments, since somebody has asked."""

    def __init__(self, of: type, name: str) -> None:
        self._longest = 0.0
        before = getattr(of, name)

        def call(one: object) -> object:
            began = time.perf_counter()
            try:
                return before(one)
            finally:
                self._longest = max(self._longest, time.perf_counter() - began)

        setattr(of, name, call)

    def ms(self) -> float:
        """In milliseconds; counted anew from now on."""
        found, self._longest = self._longest * 1_000, 0.0
        return found


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def opened(folder: str) -> onceq.QueueManager:
    """The queue manager in this process."""
    return onceq.open(folder, name="DEEP", create=True)


def fill(manager: onceq.QueueManager, queue: str, count: int, **properties: int) -> None:
    """So many messages, many in a transaction."""
    for start in range(0, count, AT_ONCE):
        with manager.transaction() as tx:
            tx.send_many(queue, [BODY] * min(AT_ONCE, count - start), **properties)


def take(manager: onceq.QueueManager, count: int) -> None:
    """Receive so many messages, a hundred in a transaction."""
    for _ in range(count // 100):
        with manager.transaction() as tx:
            tx.receive_many(QUEUE, 100)


def send(manager: onceq.QueueManager, count: int) -> None:
    """Send so many messages, a hundred in a transaction."""
    for _ in range(count // 100):
        with manager.transaction() as tx:
            tx.send_many(QUEUE, [BODY] * 100)


def first_messages(manager: onceq.QueueManager) -> None:
    """One message to each of many destinations that nothing was sent to."""
    for start in range(0, DESTINATIONS, 100):
        with manager.transaction() as tx:
            for at in range(start, start + 100):
                tx.send(rf"PRIVATE={ELSEWHERE}\{at + 1:08x}", BODY)


def measured(depth: int, folder: str, *, some: int) -> dict[str, float]:
    """One row."""
    pumps, snapshots = Longest(Engine, "pump"), Longest(Manager, "snapshot")
    row = dict[str, float](depth=depth)
    with closing(opened(folder)) as manager:
        for queue in (QUEUE, SHORT):
            manager.create_queue(queue, transactional=True)
        before = resident()
        row["fill"] = rate(depth, lambda: fill(manager, QUEUE, depth))
        row["memory"] = (resident() - before) / depth
        row["filling"] = pumps.ms()
        row["send"] = rate(some, lambda: send(manager, some))
        row["receive"] = rate(some, lambda: take(manager, some))
        row["destinations"] = rate(DESTINATIONS, lambda: first_messages(manager))
        snapshots.ms()
    row["checkpoint"] = snapshots.ms()
    row["reopen"] = 1 / rate(1, lambda: opened(folder).close())
    pumps.ms()
    with closing(opened(folder)) as manager:
        fill(manager, SHORT, depth, time_to_be_received=LIFETIME_S)
        pumps.ms()
        while manager.queue(SHORT).messages:
            time.sleep(0.05)
        row["expiry"] = pumps.ms()
        manager.purge(QUEUE)
        row["purge"] = pumps.ms()
    return row


def one(depth: int, *, some: int) -> dict[str, float]:
    """A row, in this process."""
    with tempfile.TemporaryDirectory(prefix="onceq-depth-") as folder:
        return measured(depth, folder, some=some)


def counted(text: str) -> int:
    """An argument that says how many."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of these: give one from 1")
    return int(text)


def in_a_process(command: list[str]) -> dict[str, float]:
    """The row that a process prints. Its files go with it, also when it is killed."""
    with tempfile.TemporaryDirectory(prefix="onceq-bench-") as folder:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, env=os.environ | {"TMPDIR": folder}
        )
    row: dict[str, float] = json.loads(done.stdout)
    return row


def stoppable(command: Callable[[], int]) -> int:
    """The result of a command; 130 if Ctrl-C has ended it."""
    try:
        return command()
    except KeyboardInterrupt:
        if "--json" not in sys.argv:
            print("\nstopped", file=sys.stderr)
        return 130


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "depths", nargs="*", type=counted, default=[1_000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--some", type=counted, default=10_000, help="messages sent and received there"
    )
    parser.add_argument("--json", action="store_true", help="one row as JSON, from this process")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(one(asked.depths[0], some=asked.some)))
        return 0
    print(" ".join(f"{name:>12}" for name, _ in COLUMNS))
    print(" ".join(f"{unit:>12}" for _, unit in COLUMNS))
    for depth in asked.depths:
        command = [sys.executable, __file__, str(depth), "--json", "--some", str(asked.some)]
        row = in_a_process(command)
        print(" ".join(f"{row[name]:>12,.{0 if row[name] >= 100 else 1}f}" for name, _ in COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(stoppable(main))
