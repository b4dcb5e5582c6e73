"""What each thing costs at a depth: rates, memory, restart and the longest pump (``make
bench-depth``).

Each depth is measured in a process of its own, with a queue manager embedded in it. Rates are the
best of several rounds, and below the table stands the processor time of a message at the greatest
depth beside that at the smallest one. With ``--bytes 100`` 10^7 messages need 8 GB of disk, and
twice as much without ``--no-ends``, which leaves expiry and purge out. A *pump* is one
turn of its loop: while it lasts, nobody else is served. So the longest one says how long a queue
manager stands still while it does the work of the column.
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
from operator import itemgetter
from pathlib import Path
from typing import Final, Unpack

import onceq
from onceq.core.manager import Manager
from onceq.service.engine import Engine

QUEUE: Final = r"private$\deep"
SHORT: Final = r"private$\short"
BODY: Final = b"x" * 1_024
ROUNDS: Final = 3
"""Of sends and receives at a depth; the best counts."""
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
        """Return milliseconds, and start to count again."""
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


def fill(
    manager: onceq.QueueManager,
    queue: str,
    count: int,
    body: bytes,
    **properties: Unpack[onceq.BatchProperties],
) -> None:
    """Send messages, many in a transaction."""
    for start in range(0, count, AT_ONCE):
        with manager.transaction() as tx:
            tx.send_many(queue, [body] * min(AT_ONCE, count - start), **properties)


def take(manager: onceq.QueueManager, count: int) -> None:
    """Receive messages, a hundred in a transaction."""
    for _ in range(count // 100):
        with manager.transaction() as tx:
            tx.receive_many(QUEUE, 100)


def send(manager: onceq.QueueManager, count: int, body: bytes) -> None:
    """Send messages, a hundred in a transaction."""
    for _ in range(count // 100):
        with manager.transaction() as tx:
            tx.send_many(QUEUE, [body] * 100)


def first_messages(manager: onceq.QueueManager, body: bytes) -> None:
    """One message to each of many destinations that nothing was sent to."""
    for start in range(0, DESTINATIONS, 100):
        with manager.transaction() as tx:
            for at in range(start, start + 100):
                tx.send(rf"PRIVATE={ELSEWHERE}\{at + 1:08x}", body)


def measured(depth: int, folder: str, *, some: int, body: bytes, ends: bool) -> dict[str, float]:
    """One row."""
    pumps, snapshots = Longest(Engine, "pump"), Longest(Manager, "snapshot")
    row = dict[str, float](depth=depth)
    with closing(opened(folder)) as manager:
        for queue in (QUEUE, SHORT):
            manager.create_queue(queue, transactional=True)
        before = resident()
        row["fill"] = rate(depth, lambda: fill(manager, QUEUE, depth, body))
        row["memory"] = (resident() - before) / depth
        row["filling"] = pumps.ms()
        for _ in range(ROUNDS):
            for name, work in (
                ("send", lambda: send(manager, some, body)),
                ("receive", lambda: take(manager, some)),
            ):
                began = time.process_time()
                row[name] = max(row.get(name, 0), rate(some, work))
                used = (time.process_time() - began) / some
                row[name + " cost"] = min(row.get(name + " cost", used), used)
        row["destinations"] = rate(DESTINATIONS, lambda: first_messages(manager, body))
        snapshots.ms()
    row["checkpoint"] = snapshots.ms()
    row["reopen"] = 1 / rate(1, lambda: opened(folder).close())
    pumps.ms()
    if not ends:
        return row
    with closing(opened(folder)) as manager:
        fill(manager, SHORT, depth, body, time_to_be_received=LIFETIME_S)
        pumps.ms()
        while manager.queue(SHORT).messages:
            time.sleep(0.05)
        row["expiry"] = pumps.ms()
        manager.purge(QUEUE)
        row["purge"] = pumps.ms()
    return row


def cost(row: dict[str, float]) -> float:
    """Seconds of a processor for a message that is sent and received at a depth."""
    return row["send cost"] + row["receive cost"]


def cell(value: float | None) -> str:
    """Return a figure in the format of the table."""
    return f"{'-':>12}" if value is None else f"{value:>12,.{0 if value >= 100 else 1}f}"


def one(depth: int, *, some: int, body: bytes, ends: bool) -> dict[str, float]:
    """A row, in this process."""
    with tempfile.TemporaryDirectory(prefix="onceq-depth-") as folder:
        return measured(depth, folder, some=some, body=body, ends=ends)


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


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "depths", nargs="*", type=counted, default=[1_000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--some", type=counted, default=10_000, help="messages sent and received there"
    )
    parser.add_argument(
        "--bytes", type=counted, default=len(BODY), help="of the body of each message"
    )
    parser.add_argument(
        "--no-ends", dest="ends", action="store_false", help="no expiry, and no purge"
    )
    parser.add_argument("--json", action="store_true", help="one row as JSON, from this process")
    asked = parser.parse_args(arguments)
    if asked.json:
        body = b"x" * asked.bytes
        row = one(asked.depths[0], some=asked.some, body=body, ends=asked.ends)
        print(json.dumps(row))
        return 0
    print(" ".join(f"{name:>12}" for name, _ in COLUMNS))
    print(" ".join(f"{unit:>12}" for _, unit in COLUMNS))
    rows: list[dict[str, float]] = []
    for depth in asked.depths:
        sizes = ["--some", str(asked.some), "--bytes", str(asked.bytes)]
        sizes += [] if asked.ends else ["--no-ends"]
        row = in_a_process(
            [sys.executable, "-m", "proof", "bench-depth", str(depth), "--json", *sizes]
        )
        rows.append(row)
        print(" ".join(cell(row.get(name)) for name, _ in COLUMNS))
    first, last = (pick(rows, key=itemgetter("depth")) for pick in (min, max))
    if first is not last:
        print(f"a message at {last['depth']:,} costs {cost(last) / cost(first):.2f} times what it "
              f"costs at {first['depth']:,}")  # fmt: skip
    return 0
