"""What each thing costs with many queues, and with many destinations of one send (``make
bench-breadth``).

Each row is measured in a process of its own, with a queue manager embedded in it, as ``make
bench-depth`` does for many messages. In the first table the same number of messages is spread over
more and more queues of this manager, and over as many outgoing queues to a manager that is not
there. In the second one a message goes to more and more queues in one send.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import onceq
from onceq.core.manager import Manager
from onceq.service.engine import Engine
from proof.bench.depth import (
    BODY,
    ELSEWHERE,
    Longest,
    counted,
    in_a_process,
    opened,
    rate,
    resident,
)

MESSAGES: Final = 20_000
AT_ONCE: Final = 100
BYTES: Final = 256 << 20
"""Of bodies for each row of the second table: several segments."""
Row = dict[str, float]
Columns = tuple[tuple[str, str], ...]
QUEUES: Final[Columns] = (
    ("queues", ""), ("create", "1/s"), ("send", "1/s"), ("receive", "1/s"), ("away", "1/s"),
    ("memory", "B/queue"), ("reopen", "s"), ("create", "ms"), ("send", "ms"), ("receive", "ms"),
    ("away", "ms"), ("list", "ms"), ("checkpoint", "ms"),
)  # fmt: skip
"""Name and unit of the columns of the first table; those in ms are the longest pump meanwhile."""
DESTINATIONS: Final[Columns] = (
    ("destinations", ""), ("bodies", "B"), ("sends", "1/s"), ("messages", "1/s"),
    ("written", "B each"), ("send", "ms"),
)  # fmt: skip


def key(column: tuple[str, str]) -> str:
    """Of a column in a row."""
    return " ".join(column).strip()


def send_each(manager: onceq.QueueManager, names: list[str], count: int) -> None:
    """Send to one after the other, and again from the first, a hundred in a transaction."""
    for start in range(0, count, AT_ONCE):
        with manager.transaction() as tx:
            for number in range(start, min(count, start + AT_ONCE)):
                tx.send(names[number % len(names)], BODY)


def over_queues(count: int, messages: int, folder: str) -> Row:
    """One row of the first table."""
    pumps, snapshots = Longest(Engine, "pump"), Longest(Manager, "snapshot")
    row = Row(queues=count)
    names = [rf"private$\q{number}" for number in range(count)]
    elsewhere = [rf"PRIVATE={ELSEWHERE}\{number + 1:08x}" for number in range(count)]

    def timed(what: str, times: int, work: Callable[[], object]) -> None:
        pumps.ms()
        row[f"{what} 1/s"] = rate(times, work)
        row[f"{what} ms"] = pumps.ms()

    with closing(opened(folder)) as manager:

        def create() -> None:
            for name in names:
                manager.create_queue(name, transactional=True)

        def receive() -> None:
            for name in names:
                for _ in manager.receive_many(name, messages):
                    pass

        before = resident()
        timed("create", count, create)
        row["memory B/queue"] = (resident() - before) / count
        timed("send", messages, lambda: send_each(manager, names, messages))
        timed("away", messages, lambda: send_each(manager, elsewhere, messages))
        pumps.ms()
        assert len(manager.queues()) >= count
        row["list ms"] = pumps.ms()
        timed("receive", messages, receive)
        snapshots.ms()
    row["checkpoint ms"] = snapshots.ms()
    row["reopen s"] = 1 / rate(1, lambda: opened(folder).close())
    return row


def to_destinations(count: int, body: int, total: int, folder: str) -> Row:
    """One row of the second table."""
    pumps = Longest(Engine, "pump")
    at_once = max(1, AT_ONCE // count)
    turns = max(1, total // (body * count * at_once))
    with closing(opened(folder)) as manager:
        for number in range(count):
            manager.create_queue(rf"private$\q{number}", transactional=True)
        name = ",".join(rf"DIRECT=OS:.\private$\q{number}" for number in range(count))
        pumps.ms()
        before = written()

        def send() -> None:
            for _ in range(turns):
                with manager.transaction() as tx:
                    tx.send_many(name, [b"x" * body] * at_once)

        speed = rate(turns * at_once, send)
        each = (written() - before) / (turns * at_once * count)
        return {
            "destinations": count, "bodies B": body, "sends 1/s": speed,
            "messages 1/s": speed * count, "written B each": each, "send ms": pumps.ms(),
        }  # fmt: skip


def written() -> int:
    """Bytes that this process has given to the file system."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def one(asked: argparse.Namespace) -> Row:
    """A row, in this process."""
    with tempfile.TemporaryDirectory(prefix="onceq-breadth-") as folder:
        if asked.body:
            return to_destinations(asked.queues[0], asked.body, asked.bytes, folder)
        return over_queues(asked.queues[0], asked.messages, folder)


def table(columns: Columns, rows: list[list[str]]) -> None:
    """Measure and print one."""
    print(" ".join(f"{name:>12}" for name, _ in columns))
    print(" ".join(f"{unit:>12}" for _, unit in columns))
    for arguments in rows:
        command = [sys.executable, "-m", "proof", "bench-breadth", "--json", *arguments]
        row = in_a_process(command)
        found = [row[key(column)] for column in columns]
        print(" ".join(f"{f:>12,.{0 if f >= 100 or f == int(f) else 1}f}" for f in found))


def main(arguments: list[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("queues", nargs="*", type=counted, default=[100, 1_000, 20_000])
    parser.add_argument("--destinations", nargs="*", type=counted, default=[1, 10, 100])
    parser.add_argument("--bodies", nargs="*", type=counted, default=[1_024, 65_536], help="bytes")
    parser.add_argument("--messages", type=counted, default=MESSAGES, help="in the first table")
    parser.add_argument(
        "--bytes", type=counted, default=BYTES, help="of bodies, in the second table"
    )
    parser.add_argument("--json", action="store_true", help="one row as JSON, from this process")
    parser.add_argument("--body", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.json:
        print(json.dumps(one(asked)))
        return 0
    table(QUEUES, [[str(count), "--messages", str(asked.messages)] for count in asked.queues])
    print()
    more = ["--bytes", str(asked.bytes)]
    rows = [[str(n), "--body", str(b), *more] for b in asked.bodies for n in asked.destinations]
    table(DESTINATIONS, rows)
    return 0
