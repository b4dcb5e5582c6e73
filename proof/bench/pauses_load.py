"""The applications of ``make bench-pauses``, each in a process of its own.

One sends and receives at a moderate rate, one does what operators do to large queues, and one asks
something cheap every millisecond and notes how long each answer takes. The yardstick does the same
small work again and again, without the queue manager: where it takes more processor time than it
does otherwise, it is the machine that is slow.
"""

from __future__ import annotations

import itertools
import json
import mmap
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final

import onceq
from onceq.model.message import Acknowledge, Delivery, Journal
from proof.bench.client import Client, go

BODY: Final = b"x" * 100
PACKET_BYTES: Final = 350
"""About what such a message takes in the log."""
AT_ONCE: Final = 500
ACKS: Final = r"private$\acks"
DEAD: Final = "SYSTEM$;DEADXACT"
WORK: Final = r"private$\work"
IDLE: Final = r"private$\idle"
BALLAST: Final = r"private$\ballast"
BALLAST_BODY: Final = b"b" * (64 << 10)
BALLAST_SHARE: Final = 4.5
"""Bytes of ballast for each byte that stays, so that segments are sparse without it..."""
BALLAST_BYTES_MIN: Final = 128 << 20
"""... and this many at least: a smaller log is not cleaned up."""
ELSEWHERE: Final = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001\00000001"
"""A queue of a manager that is not there."""
TRAFFIC_BODY: Final = b"t" * (8 << 10)
ROUND_S: Final = 0.01
PROBE_S: Final = 0.001
YARDSTICK_S: Final = 0.02
YARDSTICK_ADDS: Final = 6_000
YARDSTICK_PAGES: Final = 128
YARDSTICK_COPY: Final = bytes(1 << 20)
"""What a loop of Python does: adds, pages of memory that are new, and a copy. About 2 ms."""
KINDS: Final = ("plain", "plain", "plain", "bare", "wanted", "timed", "dead", "away")
"""The content of the queues, in turn: transactional messages; ones that are not; ones whose senders
want to know how they end; ones that expire one after another; dead letters; ones to be sent."""

PASSING: Final = ("timed", "dead")
"""Of these fewer and fewer are left."""


class Filler:
    """Puts messages into queues, of the kind that each is for."""

    def __init__(self, qm: onceq.QueueManager, seconds: float) -> None:
        self._qm = qm
        self._seconds = max(int(seconds), 2)
        self._lifetimes = itertools.cycle(range(1, self._seconds + 1))

    def make(self, queue: str, kind: str) -> None:
        """The queue itself."""
        if kind != "away":
            self._qm.create_queue(
                queue, transactional=kind != "bare", journal=kind == "plain", exist_ok=True
            )

    def fill(self, queue: str, kind: str, count: int, pause_s: float = 0.0) -> None:
        """Send messages, some hundred in a transaction."""
        for start in range(0, count, AT_ONCE):
            some = [BODY] * min(AT_ONCE, count - start)
            if kind == "bare":
                self._qm.send_many(queue, some, delivery=Delivery.RECOVERABLE)
            else:
                with self._qm.transaction() as tx:
                    tx.send_many(self.place(queue, kind), some, **self._properties(kind))
            if pause_s:
                time.sleep(pause_s)

    def place(self, queue: str, kind: str) -> str:
        """Where it is sent to."""
        return ELSEWHERE if kind == "away" else queue

    def _properties(self, kind: str) -> dict[str, Any]:
        asked = Acknowledge.NEGATIVE_RECEIVE | Acknowledge.POSITIVE_RECEIVE
        wanting = {"acknowledge": asked, "admin_queue": ACKS}
        if kind == "wanted":
            return wanting
        if kind == "timed":
            return wanting | {"time_to_be_received": next(self._lifetimes)}
        if kind == "dead":
            return {"time_to_be_received": 1, "journal": Journal.DEADLETTER}
        return {}


def queues_of(count: int) -> list[tuple[str, str]]:
    """Names of that many queues, and of what kind each is."""
    kinds = itertools.islice(itertools.cycle(KINDS), count)
    return [(rf"private$\deep{at}", kind) for at, kind in enumerate(kinds)]


def share(messages: int, queues: int) -> int:
    """Return how many messages each queue needs, so that the wanted number stays."""
    kinds = [kind for _, kind in queues_of(queues)]
    return -(-messages // max(sum(kind not in PASSING for kind in kinds), 1))


def fill(qm: onceq.QueueManager, seconds: float, each: int, queues: int) -> None:
    """Everything that waits when the measurement begins."""
    for name in (ACKS, BALLAST):
        qm.create_queue(name)
    for name in (WORK, IDLE):
        qm.create_queue(name, transactional=True)
    qm.send(IDLE, BODY, transactional=True)
    filler, messages = Filler(qm, seconds), each * queues
    large = max(int(BALLAST_SHARE * messages * PACKET_BYTES), BALLAST_BYTES_MIN)
    owed = 0.0
    # What expires while it is measured comes last.
    for queue, kind in sorted(queues_of(queues), key=lambda one: one[1] == "timed"):
        filler.make(queue, kind)
        for start in range(0, each, AT_ONCE):
            filler.fill(queue, kind, min(AT_ONCE, each - start))
            owed += large / len(BALLAST_BODY) * min(AT_ONCE, each - start) / max(messages, 1)
            if owed >= 1:
                qm.send_many(BALLAST, [BALLAST_BODY] * int(owed), delivery=Delivery.RECOVERABLE)
                owed -= int(owed)


def _traffic(options: dict[str, Any]) -> dict[str, Any]:
    """Ten messages come and go in each round, and one round of ten is undone."""
    count = 0
    with onceq.connect(options["where"]) as qm:
        go()
        began = time.monotonic()
        for number in itertools.count(1):
            with qm.transaction() as tx:
                tx.send_many(WORK, [TRAFFIC_BODY] * 10)
            with qm.transaction() as tx:
                tx.receive_many(WORK, 10)
                if number % 10 == 0:
                    tx.abort()
                else:
                    count += 10
            due = began + number * ROUND_S
            if time.monotonic() >= began + options["seconds"]:
                return {"messages": count}
            time.sleep(max(due - time.monotonic(), 0))
    raise AssertionError


def _probe(options: dict[str, Any]) -> dict[str, Any]:
    """When each answer was there, and how many milliseconds it took."""
    found: list[tuple[float, float]] = []
    with onceq.connect(options["where"]) as qm:
        go()
        until = time.monotonic() + options["seconds"]
        while (began := time.monotonic()) < until:
            qm.peek(IDLE)
            ended = time.monotonic()
            found.append((ended, 1e3 * (ended - began)))
            time.sleep(PROBE_S)
    return {"answers": found}


def _yardstick(options: dict[str, Any]) -> dict[str, Any]:
    """When the work was done each time, and the milliseconds of processor time that it took."""
    found: list[tuple[float, float]] = []
    copy = bytearray(len(YARDSTICK_COPY))
    go()
    until = time.monotonic() + options["seconds"]
    while time.monotonic() < until:
        began, total = time.thread_time(), 0
        for number in range(YARDSTICK_ADDS):
            total += number
        with mmap.mmap(-1, YARDSTICK_PAGES * mmap.PAGESIZE) as pages:
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at] = 1
        copy[:] = YARDSTICK_COPY
        found.append((time.monotonic(), 1e3 * (time.thread_time() - began)))
        time.sleep(YARDSTICK_S)
    return {"samples": found}


class Operator:
    """Does one thing after another to large queues, and notes when."""

    def __init__(self, qm: onceq.QueueManager, seconds: float, each: int, queues: int) -> None:
        self._qm = qm
        self._each = each
        self._until = time.monotonic() + seconds
        self._pause_s = min(seconds / 1_000, 0.01)
        self._filler = Filler(qm, seconds)
        found = queues_of(queues)
        self._of = {kind: itertools.cycle([q for q, k in found if k == kind]) for kind in KINDS}
        self.done: list[tuple[str, float, float]] = []

    def run(self) -> None:
        """Until time is up."""
        self._do("purge of the ballast", lambda: self._qm.purge(BALLAST))
        works: list[tuple[str, Callable[[], object]]] = [
            ("purge", lambda: self._purged("plain")),
            ("mass expiry", self._expired),
            ("purge of messages whose senders ask", lambda: self._purged("wanted")),
            ("list of all queues", self._listed),
            ("deletion of a queue with a journal", self._deleted),
            ("purge of an outgoing queue", lambda: self._purged("away")),
            ("purge of messages without transactions", lambda: self._purged("bare")),
            ("purge of dead letters", lambda: self._qm.purge(DEAD)),
            ("mass expiry into dead letters", lambda: self._filled("dead")),
            ("purge of acknowledgments", lambda: self._qm.purge(ACKS)),
        ]
        for what, work in itertools.cycle(works):
            if time.monotonic() >= self._until:
                return
            self._do(what, work)
            time.sleep(20 * self._pause_s)

    def _do(self, what: str, work: Callable[[], object]) -> None:
        began = time.monotonic()
        work()
        self.done.append((what, began, time.monotonic()))

    def _purged(self, kind: str) -> None:
        queue = next(self._of[kind])
        self._qm.purge(self._filler.place(queue, kind))
        self._filler.fill(queue, kind, self._each, self._pause_s)

    def _expired(self) -> None:
        """They all end in the same second, and nobody has asked."""
        queue = next(self._of["plain"])
        for start in range(0, self._each, AT_ONCE):
            with self._qm.transaction() as tx:
                some = [BODY] * min(AT_ONCE, self._each - start)
                tx.send_many(queue, some, time_to_be_received=2)

    def _filled(self, kind: str) -> None:
        self._filler.fill(next(self._of[kind]), kind, self._each, self._pause_s)

    def _listed(self) -> None:
        self._qm.queues()
        self._qm.admin.outgoing()
        self._qm.admin.status()

    def _deleted(self) -> None:
        """Half of what is in it is in its journal by then."""
        queue = next(self._of["plain"])
        for _ in range(0, self._each // 2, AT_ONCE):
            with self._qm.transaction() as tx:
                tx.receive_many(queue, AT_ONCE)
        self._qm.delete_queue(queue)
        self._filler.make(queue, "plain")
        self._filler.fill(queue, "plain", self._each, self._pause_s)


def _operate(options: dict[str, Any]) -> dict[str, Any]:
    with onceq.connect(options["where"]) as qm:
        go()
        operator = Operator(qm, options["seconds"], options["each"], options["queues"])
        operator.run()
    return {"done": operator.done}


class Load(Client):
    """A process that runs one of the above."""

    program: ClassVar[str] = "proof.bench.pauses_load"


if __name__ == "__main__":
    work = {
        "traffic": _traffic, "probe": _probe, "operate": _operate, "yardstick": _yardstick,
    }[sys.argv[1]]  # fmt: skip
    with suppress(BrokenPipeError):
        print(json.dumps(work(json.loads(sys.argv[2]))), flush=True)
