"""Measuring: the disk's own rate, and what a queue manager does beside it.

Every body begins with its number, and what is received is compared with what must come next: a
measurement that loses, repeats or reorders messages fails instead of giving a figure. Making the
bodies and comparing them is part of the time, as it is in an application.
"""

from __future__ import annotations

import os
import statistics
import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager

BLOCK_BYTES = 4096
YARD_FILE_BYTES = 4 << 20
NUMBER_BYTES = 8
RECEIVE_WAIT_S = 60.0


class WrongMessages(Exception):
    """Messages came back lost, repeated or out of order: a fault of ours, not of the caller."""


def sync_rate(folder: str, seconds: float) -> float:
    """The yardstick: 4 KiB overwrites, each with fdatasync, a second, in a preallocated file."""
    name = os.path.join(folder, "yardstick")
    descriptor = os.open(name, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, bytes(YARD_FILE_BYTES))
        os.fsync(descriptor)
        block = os.urandom(BLOCK_BYTES)
        count, at = 0, 0
        start = time.perf_counter()
        while True:
            os.pwrite(descriptor, block, at)
            os.fdatasync(descriptor)
            count += 1
            at = (at + BLOCK_BYTES) % YARD_FILE_BYTES
            spent = time.perf_counter() - start
            if spent >= seconds:
                return count / spent
    finally:
        os.close(descriptor)
        os.unlink(name)


class Bodies:
    """Makes numbered bodies of one size, and checks those that come back."""

    def __init__(self, size: int, *, first: int = 0) -> None:
        if size < NUMBER_BYTES:
            raise ValueError(f"a body needs {NUMBER_BYTES} bytes for its number")
        self.size = size
        self.made = first
        self.seen = first
        self._tails = [os.urandom(size - NUMBER_BYTES) for _ in range(16)]

    def make(self, count: int) -> list[bytes]:
        """The next so many."""
        first, tails = self.made, self._tails
        self.made += count
        if count == 1:
            return [first.to_bytes(NUMBER_BYTES, "little") + tails[first & 15]]
        heads = array("Q", range(first, self.made)).tobytes()
        return [heads[8 * i : 8 * i + 8] + tails[(first + i) & 15] for i in range(count)]

    def check(self, bodies: list[bytes]) -> None:
        """These must be the next ones; raises WrongMessages."""
        count = len(bodies)
        first = self.seen
        wanted = array("Q", range(first, first + count)).tobytes()
        if b"".join([body[:NUMBER_BYTES] for body in bodies]) != wanted:
            numbers = [int.from_bytes(body[:NUMBER_BYTES], "little") for body in bodies]
            at = next(i for i, number in enumerate(numbers) if number != first + i)
            raise WrongMessages(f"message {numbers[at]} came where {first + at} was due")
        if sum(map(len, bodies)) != count * self.size:
            raise WrongMessages(f"a body near message {first} has lost its size")
        self.seen += count


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages in a length of time."""

    messages: int
    commits: int
    seconds: float

    @property
    def messages_s(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def commits_s(self) -> float:
        """Commits a second."""
        return self.commits / self.seconds


def send(
    qm: QueueManager, destination: str, bodies: Bodies, *, per_commit: int, seconds: float,
    messages_max: int,
) -> Rate:  # fmt: skip
    """Send transactions of so many messages, one after another, for a length of time."""
    count, commits = 0, 0
    start = time.perf_counter()
    while True:
        with qm.transaction() as tx:
            tx.send_many(destination, bodies.make(per_commit))
        commits += 1
        count += per_commit
        spent = time.perf_counter() - start
        if spent >= seconds or count >= messages_max:
            return Rate(count, commits, spent)


def receive(
    qm: QueueManager, queue: str, bodies: Bodies, *, per_commit: int, messages: int
) -> Rate:
    """Receive so many messages in transactions, checking each."""
    count, commits = 0, 0
    start = time.perf_counter()
    while count < messages:
        with qm.transaction() as tx:
            batch = tx.receive_many(
                queue, min(per_commit, messages - count), timeout=RECEIVE_WAIT_S
            )
            bodies.check(batch.bodies())
        count += len(batch)
        commits += 1
    return Rate(count, commits, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Latency:
    """How long single messages took, in milliseconds."""

    commit_p50: float
    commit_p99: float
    whole_p50: float
    whole_p99: float


def latency(
    sender: QueueManager, destination: str, receiver: QueueManager, queue: str, bodies: Bodies,
    *, rounds: int,
) -> Latency:  # fmt: skip
    """Send single messages and wait for each at the other end, in transactions of one."""
    commits, wholes = [], []
    for _ in range(rounds):
        body = bodies.make(1)[0]
        start = time.perf_counter()
        sender.send(destination, body, transactional=True)
        committed = time.perf_counter()
        with receiver.transaction() as tx:
            bodies.check([tx.receive(queue, timeout=RECEIVE_WAIT_S).body])
        wholes.append((time.perf_counter() - start) * 1e3)
        commits.append((committed - start) * 1e3)
    return Latency(
        percentile(commits, 0.5), percentile(commits, 0.99),
        percentile(wholes, 0.5), percentile(wholes, 0.99),
    )  # fmt: skip


_Number = TypeVar("_Number", int, float)


def percentile(values: list[_Number], share: float) -> _Number:
    """The value below which this share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def median(values: list[float]) -> float:
    """The middle one."""
    return statistics.median(values)
