"""Kill consumers with SIGKILL at random; nothing may be lost, and nothing be there twice.

``make consumer-kill KILLS=25`` kills that many of each of four kinds of consumer. Each moves
numbered messages from one queue into another; the judge compares what has arrived there with what
was sent, and their order. The kinds: one message a transaction; batches; tasks, several workers
that keep the order of eight keys; one message with a row of a database, which is counted, too.

Consumers are forked from this process, which has loaded everything, so that one costs a moment. A
consumer dies after a random time, or (``--deaths calls``) by its own hand in a certain call of its
handler, before or after its work: then a seed says exactly what happens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onceq
import onceq.aio
from proof.nodes import Node, free_port

KINDS = ("one", "batch", "async", "database")
IN, OUT = r"private$\in", r"private$\out"
FILLED = 60
"""Messages that wait when a consumer starts: more than it handles in its life."""
LIFE_S_MAX = 0.6
BATCH = 7
KEYS = 8
REST_S_MAX = 60.0
"""How long the last consumer of a kind may take for what is left."""


@dataclass(frozen=True)
class Death:
    """When a consumer dies: after a time, or by its own hand in a call.

    Attributes:
        call: Of its handler, counted from 1; 0: after the time.
        late: When that call has done its work, and its transaction is still open.
    """

    after_s: float = 0.0
    call: int = 0
    late: bool = False


NEVER = Death(after_s=REST_S_MAX)


@dataclass
class Figures:
    """What became of one kind.

    Attributes:
        again: Messages that were handed out more than once.
        faults: What is wrong.
    """

    kind: str
    kills: int = 0
    messages: int = 0
    again: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = "nothing lost, nothing twice" if not self.faults else "; ".join(self.faults[:5])
        return (
            f"{self.kind:9} {self.kills:4} kills  {self.messages:6} messages  {self.again:4} of "
            f"them handed out again  {self.seconds:6.1f} s  {told}"
        )


class Handler:
    """What a consumer does with messages, and where it dies."""

    def __init__(self, death: Death, marks: Path) -> None:
        self._death = death
        self._calls = 0
        self._marks = marks

    def begin(self, messages: Sequence[onceq.Message]) -> None:
        """A call begins."""
        self._calls += 1
        again = sum(1 for message in messages if message.abort_count)
        if again:
            with self._marks.open("a") as file:
                file.write("x" * again)
        self._meet(late=False)

    def end(self) -> None:
        """It ends."""
        self._meet(late=True)

    def _meet(self, *, late: bool) -> None:
        if 0 < self._death.call <= self._calls and late is self._death.late:
            os.kill(os.getpid(), signal.SIGKILL)

    def one(self, tx: onceq.Transaction, message: onceq.Message) -> None:
        """One message a transaction."""
        self.begin([message])
        tx.send(OUT, message.body)
        self.end()

    def batch(self, tx: onceq.Transaction, messages: onceq.Batch) -> None:
        """Several in one."""
        self.begin(list(messages))
        tx.send_many(OUT, messages.bodies())
        self.end()

    def row(self, tx: onceq.Transaction, message: onceq.Message, db: Any) -> None:
        """One, with a row."""
        self.begin([message])
        db.execute("INSERT INTO done VALUES (" + str(int(message.text)) + ")")
        tx.send(OUT, message.body)
        self.end()

    async def task(self, tx: Any, message: onceq.Message) -> None:
        """One, with others beside it."""
        self.begin([message])
        await tx.send(OUT, message.body)
        await asyncio.sleep(0)
        self.end()


def key(message: onceq.Message) -> int:
    """What messages have in common that are to stay in their order."""
    return int(message.text) % KEYS


class Database:
    """Where rows are counted: SQLite in a file, or PostgreSQL at an address."""

    def __init__(self, folder: Path, address: str) -> None:
        self._path = folder / "done.db"
        self._address = address
        with contextlib.closing(self._raw()) as db:
            db.execute("CREATE TABLE IF NOT EXISTS done (number bigint)")
            db.execute("DELETE FROM done")
            db.commit()

    def _raw(self) -> Any:
        if not self._address:
            return sqlite3.connect(self._path)
        import psycopg

        return psycopg.connect(self._address)

    def connect(self) -> Any:
        """For a consumer."""
        if not self._address:
            return self._raw()
        from onceq.partners.postgresql import PostgresLast

        return PostgresLast(self._raw())

    def numbers(self) -> list[int]:
        """The rows."""
        with contextlib.closing(self._raw()) as db:
            return [number for (number,) in db.execute("SELECT number FROM done").fetchall()]


@dataclass(frozen=True)
class Bed:
    """Where consumers live."""

    where: str
    folder: Path
    database: Database

    def consume(self, kind: str, death: Death, timeout: float | None) -> None:
        """The whole life of a consumer."""
        handler = Handler(death, self.folder / "again")
        if kind == "async":
            asyncio.run(self._in_tasks(handler, timeout))
            return
        with onceq.connect(self.where) as qm:
            if kind == "one":
                qm.consume(IN, handler.one, timeout=timeout)
            elif kind == "batch":
                qm.consume(IN, handler.batch, batch=BATCH, timeout=timeout)
            else:
                qm.consume(IN, handler.row, database=self.database.connect, timeout=timeout)

    async def _in_tasks(self, handler: Handler, timeout: float | None) -> None:
        async with await onceq.aio.connect(self.where) as qm:
            await qm.consume(IN, handler.task, concurrency=4, order=key, timeout=timeout)

    def born(self, kind: str, death: Death, timeout: float | None = None) -> int:
        """Fork a consumer; its process identifier."""
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            self.consume(kind, death, timeout)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the only way to hear of it
            print(
                f"a consumer failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True
            )
        finally:
            os._exit(code)


def deaths(rng: random.Random, count: int, *, calls: bool) -> Iterator[Death]:
    """Yield the moment of death of ``count`` consumers."""
    for _ in range(count):
        if calls:
            yield Death(call=rng.randint(1, 6), late=rng.random() < 0.5)
        else:
            yield Death(after_s=rng.uniform(0.01, LIFE_S_MAX))


def run_kind(bed: Bed, qm: onceq.QueueManager, kind: str, ends: Iterator[Death]) -> Figures:
    """Kill consumers of one kind, and judge."""
    began, found = time.monotonic(), Figures(kind)
    for queue in (IN, OUT):
        qm.purge(queue)
    (bed.folder / "again").write_text("")
    for death in ends:
        waits = qm.queue(IN).messages
        bodies = [b"%d" % n for n in range(found.messages, found.messages + FILLED - waits)]
        if bodies:
            qm.send_many(IN, bodies, transactional=True)
            found.messages += len(bodies)
        child = bed.born(kind, death)
        if not death.call:
            time.sleep(death.after_s)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            found.faults.append("a consumer ended by itself")
        found.kills += 1
    _rest(bed, qm, kind, found)
    found.again = len((bed.folder / "again").read_text())
    found.seconds = time.monotonic() - began
    found.faults += judged(kind, found.messages, _bodies(qm))
    if kind == "database":
        found.faults += ["rows: " + fault for fault in judged(kind, found.messages,
                                                             bed.database.numbers())]  # fmt: skip
    return found


def _rest(bed: Bed, qm: onceq.QueueManager, kind: str, found: Figures) -> None:
    """Let a consumer live until nothing is left, prepared branches included."""
    until = time.monotonic() + REST_S_MAX
    while qm.queue(IN).messages:
        if time.monotonic() > until:
            found.faults.append(f"{qm.queue(IN).messages} messages are left")
            return
        _, status = os.waitpid(bed.born(kind, NEVER, timeout=0.2), 0)
        if status:
            found.faults.append(f"the last consumer ended with {status}")
            return


def _bodies(qm: onceq.QueueManager) -> list[int]:
    found: list[int] = []
    after = 0
    while True:
        try:
            batch = qm.peek_many(OUT, after=after)
        except onceq.ReceiveTimeout:
            return found
        found += [int(body) for body in batch.bodies()]
        after = batch.lookup_ids[-1]


def judged(kind: str, sent: int, arrived: Sequence[int]) -> list[str]:
    """What is wrong with what has arrived of the numbers from 0 on.

    Args:
        kind: "async" keeps the order of each key, "database" none (a branch whose consumer died
            between the promise and the row is settled by recovery, after others), all others the
            whole order.
    """
    faults: list[str] = []
    counts = Counter(arrived)
    lost = [number for number in range(sent) if number not in counts]
    twice = [number for number, count in counts.items() if count > 1]
    if lost:
        faults.append(f"{len(lost)} lost, such as {lost[0]}")
    if twice:
        faults.append(f"{len(twice)} twice, such as {twice[0]}")
    if any(not 0 <= number < sent for number in counts):
        faults.append("some were never sent")
    group: Callable[[int], int] = (lambda n: n % KEYS) if kind == "async" else (lambda n: 0)
    last: dict[int, int] = {}
    for number in arrived if kind != "database" else ():
        if number < last.get(group(number), -1):
            faults.append(f"{number} came behind {last[group(number)]}")
            break
        last[group(number)] = number
    return faults


def run(
    folder: Path, *, kills: int, seed: int, kinds: Sequence[str] = KINDS, calls: bool = False,
    address: str = "", say: Callable[[object], None] = lambda _: None,
) -> list[Figures]:  # fmt: skip
    """All kinds, one after another, on one daemon."""
    node = Node(folder, "ALPHA", free_port(), {})
    node.start()
    try:
        bed = Bed(str(node.path), folder, Database(folder, address))
        found: list[Figures] = []
        with onceq.connect(bed.where) as qm:
            for queue in (IN, OUT):
                qm.create_queue(queue, transactional=True)
            for kind in kinds:
                rng = random.Random(f"{seed}/{kind}")
                found.append(run_kind(bed, qm, kind, deaths(rng, kills, calls=calls)))
                say(found[-1])
        return found
    finally:
        node.kill()


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=25, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these")
    parser.add_argument("--deaths", choices=("times", "calls"), default="times")
    parser.add_argument("--postgresql", default="", metavar="ADDRESS",
                        help="postgresql://user@host/name in place of SQLite")  # fmt: skip
    wish = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="onceq-consumer-kill-") as folder:
        found = run(
            Path(folder), kills=wish.kills, seed=wish.seed, kinds=wish.kind or KINDS,
            calls=wish.deaths == "calls", address=wish.postgresql,
            say=lambda figures: print(figures, flush=True),
        )  # fmt: skip
    return 1 if any(figures.faults for figures in found) else 0
