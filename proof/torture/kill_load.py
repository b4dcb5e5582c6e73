"""The load of the tools that kill: a sender and a receiver that know for certain what they did.

Each is a thread of its own. The tool writes every commit into a history of its own, and syncs it,
before the next one begins; a commit whose answer was lost is settled by asking for its outcome.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import onceq
from onceq.client.stopping import pause
from onceq.errors import (
    InDoubt,
    OperationCancelled,
    ReceiveTimeout,
    ServiceNotAvailable,
    TransactionOver,
)
from proof.nodes import Node
from proof.torture.kill_judge import History, Outcome

SEND_SIZES = (1, 1, 2, 7, 30, 100, 400, 1500)
RECEIVE_SIZES = (1, 5, 50, 300, 1000)
WAITING_MAX = 40_000
"""Messages on their way at one time; the sender pauses above."""
SETTLE_S_MAX = 120.0
"""Without any progress for so long, what is missing counts as lost."""
GONE = (ServiceNotAvailable, TransactionOver, OperationCancelled)
"""The connection was lost before a commit was asked for: nothing has happened."""


class Counting(Protocol):
    """Counts commits, and says how far the other end has come."""

    @property
    def violations(self) -> list[str]:
        """What went wrong; loads add what they died of."""

    @property
    def committed(self) -> int:
        """How many; the number of the next one."""

    @property
    def waiting(self) -> int:
        """Messages on their way."""

    def commit(self, count: int) -> None:
        """Count more committed messages."""


class Judging(Protocol):
    """Who compares what came with what was committed."""

    @property
    def violations(self) -> list[str]:
        """What is wrong."""

    @property
    def committed(self) -> int:
        """How many were sent."""

    @property
    def received(self) -> int:
        """How many came."""

    @property
    def waiting(self) -> int:
        """Messages on their way."""

    def end(self) -> None:
        """Nothing more will come."""


class Load(threading.Thread):
    """A thread that works until it is told to stop; what it raises is a violation."""

    def __init__(self, violations: list[str], work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self._violations = violations
        self._work = work

    def run(self) -> None:
        """See Thread."""
        try:
            while not self.stopping.is_set():
                self._work()
        except Exception as error:  # noqa: BLE001 - any error fails the run
            self._violations.append(f"{type(error).__name__}: {error}")


def settled(qm: onceq.QueueManager, transaction: str) -> str:
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


class Sender(Load):
    """Numbered messages, in transactions of mixed sizes."""

    def __init__(
        self, qm: onceq.QueueManager, destination: str, judge: Counting, outcome: Outcome,
        history: History, *, chance: random.Random, body: Callable[[int], bytes],
        waiting_max: int = WAITING_MAX,
    ) -> None:  # fmt: skip
        super().__init__(judge.violations, self._send)
        self._qm, self._destination, self._judge = qm, destination, judge
        self._outcome, self._history = outcome, history
        self._chance, self._body, self._waiting_max = chance, body, waiting_max
        self.under_way = 0
        """Messages of a commit that nobody has answered yet; they may count already."""

    def _send(self) -> None:
        """One transaction, until it is known to be committed or aborted."""
        if self._judge.waiting > self._waiting_max:
            self.stopping.wait(0.02)
            return
        outcome = self._outcome
        count = self._chance.choice(SEND_SIZES)
        first = self._judge.committed
        bodies = [self._body(number) for number in range(first, first + count)]
        outcome.transactions += 1
        tx = None
        self.under_way = count
        try:
            tx = self._qm.transaction()
            tx.send_many(self._destination, bodies)
            tx.commit()
            done = "committed"
        except InDoubt as error:
            outcome.in_doubt += 1
            done = settled(self._qm, error.transaction)
            outcome.in_doubt_committed += done == "committed"
        except GONE:
            done = "aborted"
        if done == "committed":
            self._history.note("sent", first, count, id=tx.id if tx is not None else "")
            self._judge.commit(count)
            outcome.committed += count
        else:
            self._history.note("aborted", first, count)
            outcome.aborted += 1
        self.under_way = 0


class Receiver(Load):
    """Takes what is there, in transactions of which a few are given up."""

    def __init__(
        self, qm: onceq.QueueManager, queue: str, violations: list[str], outcome: Outcome, *,
        chance: random.Random, received: Callable[[list[bytes]], None],
    ) -> None:  # fmt: skip
        """Args:
        received: Gets the bodies of each transaction that is known to be committed.
        """
        super().__init__(violations, self._receive)
        self._qm, self._queue, self._outcome = qm, queue, outcome
        self._chance, self._received = chance, received

    def _receive(self) -> None:
        """One transaction that takes what is there."""
        wanted = self._chance.choice(RECEIVE_SIZES)
        outcome = self._outcome
        bodies: list[bytes] = []
        try:
            tx = self._qm.transaction()
            try:
                bodies = list(tx.receive_many(self._queue, wanted, timeout=0.2).bodies())
            except ReceiveTimeout:
                tx.abort()
                return
            if self._chance.random() < 0.05:
                tx.abort()
                outcome.given_back += len(bodies)
                return
            tx.commit()
        except InDoubt as error:
            outcome.receives_in_doubt += 1
            try:
                said = settled(self._qm, error.transaction)
            except GONE:
                return
            if said != "committed":
                outcome.given_back += len(bodies)
                return
        except GONE:
            outcome.given_back += len(bodies)
            return
        outcome.receives += 1
        self._received(bodies)
        outcome.received += len(bodies)


class Traffic:
    """Senders and receivers at some queue managers, with one history and one judge."""

    def __init__(self, judge: Judging, seed: int, folder: Path, *nodes: Node) -> None:
        self.judge = judge
        self.outcome = Outcome(seed=seed)
        self.history = History(folder / "history.jsonl")
        self._names = [node.name for node in nodes]
        self.managers = [onceq.connect(str(node.path)) for node in nodes]
        """Connections to the nodes."""
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.parts: list[Outcome] = []
        """Of loads that count for themselves."""

    def start(self) -> None:
        """Let all of them work."""
        for load in (*self.senders, *self.receivers):
            load.start()

    def stop(self) -> None:
        """Let none of them begin another transaction."""
        for load in (*self.senders, *self.receivers):
            load.stopping.set()

    def drain(self) -> None:
        """Send nothing more, and wait until everything has come."""
        for sender in self.senders:
            sender.stopping.set()
        for sender in self.senders:
            sender.join(SETTLE_S_MAX)
        last, since = self.judge.received, time.monotonic()
        while self.judge.waiting and all(receiver.is_alive() for receiver in self.receivers):
            pause(0.05)
            if self.judge.received != last:
                last, since = self.judge.received, time.monotonic()
            elif time.monotonic() - since > SETTLE_S_MAX:
                break
        pause(0.5)  # a repetition has time to come
        for receiver in self.receivers:
            receiver.stopping.set()
        for receiver in self.receivers:
            receiver.join(SETTLE_S_MAX)
        self.judge.end()

    def leftovers(self) -> None:
        """Nothing may stand anywhere any more."""
        until = time.monotonic() + 30
        while time.monotonic() < until and any(
            qm.admin.status().outgoing_messages for qm in self.managers
        ):
            pause(0.05)
        for qm, name in zip(self.managers, self._names, strict=True):
            status = qm.admin.status()
            for what in ("messages", "outgoing_messages", "transactional_dead_letters"):
                if status[what]:
                    self.judge.violations.append(f"{name} still has {status[what]} {what}")

    def close(self) -> None:
        """Leave, and count what all have done."""
        for part in self.parts:
            self.outcome.add(part)
        for qm in self.managers:
            qm.close()
        self.history.close()
