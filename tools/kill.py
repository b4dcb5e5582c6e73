"""``make kill``: two real daemons under load, killed with SIGKILL again and again; nothing may be
lost, repeated or out of order.

A sender puts numbered messages into transactions of mixed sizes on ALPHA, for a queue on BETA; a
receiver takes them there in transactions. Meanwhile one or the other daemon (or both) is killed
at moments that the seed decides, and started again. Every commit is written to a history of the
driver's own, and synced, before the next one begins; a commit whose answer was lost is settled by
asking for its outcome. At the end the history is the judge.

Watches: I1, I3a, I4, I5, I17, I22, I26.
"""

from __future__ import annotations

import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import onceq
from kill_command import command
from kill_judge import History, Judge, Outcome
from nodes import Node, free_port
from onceq.client.pause import pause
from onceq.embedded import data_directory
from onceq.errors import (
    InDoubt,
    OperationCancelled,
    ReceiveTimeout,
    ServiceNotAvailable,
    TransactionOver,
)

QUEUE = r"private$\stock"
DESTINATION = r"DIRECT=OS:BETA\private$\stock"
SEND_SIZES = (1, 1, 2, 7, 30, 100, 400, 1500)
RECEIVE_SIZES = (1, 5, 50, 300, 1000)
WAITING_MAX = 40_000
"""Messages on their way at one time; the sender pauses above."""
PAUSE_S = (0.05, 0.9)
"""Between a start and the next kill."""
SETTLE_S_MAX = 120.0
"""Without any progress for so long, what is missing counts as lost."""
SETTINGS = """
connect_retry_s = 0.1
resend_first_s = 0.5
resend_second_s = 1.0
resend_third_s = 1.0
resend_last_s = 1.0
order_ack_delay_s = 0.05
order_ack_delay_s_max = 0.2
checkpoint_log_bytes = 2097152
"""
GONE = (ServiceNotAvailable, TransactionOver, OperationCancelled)
"""The connection was lost before a commit was asked for: nothing has happened."""


class Load(threading.Thread):
    """A thread that works until it is told to stop; what it raises is a violation."""

    def __init__(self, judge: Judge, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self._judge = judge
        self._work = work

    def run(self) -> None:
        """See Thread."""
        try:
            while not self.stopping.is_set():
                self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed
            self._judge.violations.append(f"{type(error).__name__}: {error}")


class Driver:
    """Sender and receiver with their histories."""

    def __init__(
        self, folder: Path, alpha: Node, beta: Node, seed: int, *, destination: str = DESTINATION,
        body: Callable[[int], bytes] = lambda number: b"%d %s" % (number, b"x" * (number % 200)),
    ) -> None:  # fmt: skip
        """Connect to both.

        Args:
            destination: Where the sender sends on ALPHA.
            body: Of the message of a number.
        """
        self._body = body
        self.judge = Judge()
        self.outcome = Outcome(seed=seed)
        self.history = History(folder / "history.jsonl")
        self._alpha = onceq.connect(str(alpha.path))
        self._beta = onceq.connect(str(beta.path))
        self._beta.create_queue(QUEUE, transactional=True)
        self._destination = destination
        self._random = {name: random.Random(f"{seed} {name}") for name in ("send", "receive")}
        self._under_way = 0
        self.sender = Load(self.judge, self._send)
        self.receiver = Load(self.judge, self._receive)

    def _send(self) -> None:
        """One transaction, until it is known to be committed or aborted."""
        if self.judge.waiting > WAITING_MAX:
            self.sender.stopping.wait(0.02)
            return
        count = self._random["send"].choice(SEND_SIZES)
        first = self.judge.committed
        bodies = [self._body(number) for number in range(first, first + count)]
        self.outcome.transactions += 1
        tx = None
        self._under_way = count
        try:
            tx = self._alpha.transaction()
            tx.send_many(self._destination, bodies)
            tx.commit()
            done = "committed"
        except InDoubt as error:
            self.outcome.in_doubt += 1
            done = self._settle(self._alpha, error.transaction)
            self.outcome.in_doubt_committed += done == "committed"
        except GONE:
            done = "aborted"
        if done == "committed":
            self.history.note("sent", first, count, id=tx.id if tx is not None else "")
            self.judge.commit(count)
            self.outcome.committed += count
        else:
            self.history.note("aborted", first, count)
            self.outcome.aborted += 1
        self._under_way = 0

    def _settle(self, qm: onceq.QueueManager, transaction: str) -> str:
        """Ask until somebody answers what became of a commit."""
        while True:
            try:
                said = qm.outcome(transaction)
            except GONE:
                continue
            if said not in ("committed", "aborted"):
                raise AssertionError(f"nobody knows what became of {transaction}: {said}")
            if qm.outcome(transaction) != said:
                raise AssertionError(f"two different outcomes of {transaction}")
            return said

    def _receive(self) -> None:
        """One transaction that takes what is there."""
        wanted = self._random["receive"].choice(RECEIVE_SIZES)
        numbers: list[int] = []
        try:
            tx = self._beta.transaction()
            try:
                batch = tx.receive_many(QUEUE, wanted, timeout=0.2)
            except ReceiveTimeout:
                tx.abort()
                return
            numbers = [int(body.split(b" ", 1)[0]) for body in batch.bodies()]
            if self._random["receive"].random() < 0.05:
                tx.abort()
                self.outcome.given_back += len(numbers)
                return
            tx.commit()
        except InDoubt as error:
            self.outcome.receives_in_doubt += 1
            try:
                said = self._settle(self._beta, error.transaction)
            except GONE:
                return
            if said != "committed":
                self.outcome.given_back += len(numbers)
                return
        except GONE:
            self.outcome.given_back += len(numbers)
            return
        self.outcome.receives += 1
        self.history.note("received", numbers[0], len(numbers))
        self.judge.receive(numbers, unsure=self._under_way)
        self.outcome.received += len(numbers)

    def drain(self) -> None:
        """Send nothing more, and wait until everything has come."""
        self.sender.stopping.set()
        self.sender.join(SETTLE_S_MAX)
        last, since = self.judge.received, time.monotonic()
        while self.judge.waiting and self.receiver.is_alive():
            pause(0.05)
            if self.judge.received != last:
                last, since = self.judge.received, time.monotonic()
            elif time.monotonic() - since > SETTLE_S_MAX:
                break
        pause(0.5)  # whatever would come twice has time to come
        self.receiver.stopping.set()
        self.receiver.join(SETTLE_S_MAX)
        self.judge.end()

    def leftovers(self) -> None:
        """Nothing may stand anywhere any more."""
        until = time.monotonic() + 30
        while time.monotonic() < until and self._alpha.status().outgoing_messages:
            pause(0.05)
        for qm, name in ((self._alpha, "ALPHA"), (self._beta, "BETA")):
            status = qm.status()
            for what in ("messages", "outgoing_messages", "transactional_dead_letters"):
                if status[what]:
                    self.judge.violations.append(f"{name} still has {status[what]} {what}")

    def close(self) -> None:
        """Leave."""
        self._alpha.close()
        self._beta.close()
        self.history.close()


def run(
    *, kills: int, seed: int, folder: Path, say: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Do it all in a folder; both daemons are gone when this returns or raises."""
    ports = free_port(), free_port()
    alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]}, settings=SETTINGS)
    beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]}, settings=SETTINGS)
    nodes = {"ALPHA": alpha, "BETA": beta}
    driver: Driver | None = None
    try:
        for node in nodes.values():
            node.start()
        driver = Driver(folder, alpha, beta, seed)
        driver.sender.start()
        driver.receiver.start()
        _kill_again_and_again(nodes, driver, kills, random.Random(f"{seed} kill"), say)
        driver.drain()
        if not driver.judge.violations:
            driver.leftovers()
    finally:
        if driver is not None:
            driver.sender.stopping.set()
            driver.receiver.stopping.set()
        codes = [node.kill(signal.SIGTERM) for node in nodes.values() if node.process is not None]
        if driver is not None:
            driver.close()
    outcome = driver.outcome
    outcome.kills = {name: node.kills for name, node in nodes.items()}
    outcome.restart_s_median = round(statistics.median(alpha.start_s + beta.start_s), 3)
    outcome.violations = driver.judge.violations
    outcome.violations += [f"a daemon ended with exit code {code}" for code in codes if code]
    for node in nodes.values():
        problem = data_directory.check(str(node.path))["problem"]
        if problem:
            outcome.violations.append(f"{node.name}: {problem}")
    return outcome


def _kill_again_and_again(
    nodes: dict[str, Node], driver: Driver, kills: int, chance: random.Random,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    done = 0
    while done < kills and not driver.judge.violations:
        pause(chance.uniform(*PAUSE_S))
        victims = [nodes[chance.choice(("ALPHA", "BETA"))]]
        if done + 2 <= kills and chance.random() < 0.1:
            victims = list(nodes.values())
        for node in victims:
            node.kill()
        done += len(victims)
        pause(chance.choice((0.0, 0.0, 0.2)))
        for node in victims:
            node.start()
        say(
            f"killed {' and '.join(n.name for n in victims)} ({done} of {kills}); "
            f"{driver.judge.committed:,} committed, {driver.judge.received:,} received"
        )


def table(outcome: Outcome) -> str:
    """The result for people."""
    rows = [
        ("seed", outcome.seed),
        ("SIGKILLs", ", ".join(f"{name} {count}" for name, count in outcome.kills.items())),
        ("start, median", f"{outcome.restart_s_median} s"),
        ("transactions sent", f"{outcome.transactions:,}"),
        ("messages committed", f"{outcome.committed:,}"),
        ("commits in doubt", f"{outcome.in_doubt} ({outcome.in_doubt_committed} had happened)"),
        ("commits aborted", outcome.aborted),
        ("receives committed", f"{outcome.receives:,}"),
        ("messages received", f"{outcome.received:,}"),
        ("receives in doubt", outcome.receives_in_doubt),
        ("messages given back", f"{outcome.given_back:,}"),
        ("lost, repeated, out of order", len(outcome.violations)),
    ]
    return "\n".join(f"{name:30} {value}" for name, value in rows)


def main() -> int:
    """The command."""
    return command(
        "kill", __doc__ or "", lambda **given: (run(**given), {}), lambda found, _: table(found),
        count=50, what="both queue managers",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
