"""``onceq bench``: what this machine and this queue manager do, in a few seconds.

The figures are for comparing machines and settings. All of them stand beside the disk's own rate
of syncs, measured in the same run, because that is what a durable commit cannot beat.

Every body begins with its number, and each received one is compared with the expected one: a
measurement that loses, repeats or reorders messages fails instead of giving a figure.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from onceq.cli import out
from onceq.cli.common import TOP, Json, Option, dumped, manager
from onceq.errors import ConfigurationError

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager

MESSAGES_MAX = 200_000


def bench(
    seconds: Annotated[
        float, Option(
            "--seconds", metavar="S", min=0.01, max=60.0, help="For each size of transaction."
        ),
    ] = 1.0,
    size: Annotated[
        int, Option("--size", metavar="N", min=8, max=1 << 20, help="Bytes of a body.")
    ] = 1024,
    sizes: Annotated[
        str, Option("--tx", metavar="N,N...", help="Messages of a transaction.")
    ] = "1,10,100,1000",
    qm: Annotated[
        str | None,
        Option(
            "--qm", "-q", metavar="WHERE", show_default=False,
            help="A running queue manager; without, one inside this process is measured.",
        ),
    ] = None,
    folder: Annotated[
        str,
        Option(
            "--folder", metavar="DIR", show_default=False,
            help="On the disk to measure [the directory for temporary files].",
        ),
    ] = "",
    json: Json = False,
) -> None:  # fmt: skip
    """Measure durable transactional send and receive against the disk's own rate of syncs.

    It uses a queue of its own, and removes it.
    """
    commits = _sizes(sizes)
    where = folder or tempfile.gettempdir()
    if not os.path.isdir(where):
        raise ConfigurationError(f"--folder {where} is not a directory")
    with (
        tempfile.TemporaryDirectory(prefix="onceq-bench-", dir=where) as scratch,
        _measured(qm or TOP.qm, scratch) as (connection, queue),
    ):
        rows = [
            _one(connection, queue, scratch, per_commit, size=size, seconds=seconds)
            for per_commit in commits
        ]
        rounds = max(int(seconds * 500), 20)
        times = latency(connection, queue, connection, queue, Bodies(size), rounds=rounds)
    single = {
        "commit_p50_ms": round(times.commit_p50, 3), "commit_p99_ms": round(times.commit_p99, 3),
        "whole_p50_ms": round(times.whole_p50, 3), "whole_p99_ms": round(times.whole_p99, 3),
    }  # fmt: skip
    if dumped({"body_bytes": size, "rates": rows, "latency": single}, json):
        return
    out.table(
        ("messages a transaction", "disk syncs/s", "sent/s", "commits/disk", "received/s"),
        [
            (r["per_commit"], round(r["syncs_s"]), round(r["sent_s"]),
             round(r["commits_s"] / r["syncs_s"], 2), round(r["received_s"]))
            for r in rows
        ],
    )  # fmt: skip
    out.line(
        f"one message: committed in {single['commit_p50_ms']} ms (p99 {single['commit_p99_ms']}), "
        f"sent and received in {single['whole_p50_ms']} ms (p99 {single['whole_p99_ms']})"
    )


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(1 <= size <= 10_000 for size in sizes):
        raise ConfigurationError(f"--tx {text!r}: write numbers from 1 to 10000, such as 1,10,100")
    return sizes


@contextmanager
def _measured(where: str | None, scratch: str) -> Iterator[tuple[QueueManager, str]]:
    """The queue manager to measure, with a queue for it."""
    queue = f"private$\\onceq-bench-{os.getpid()}"
    if where is None:
        from onceq.embedded.opening import open as open_embedded

        with open_embedded(os.path.join(scratch, "qm"), name="BENCH", create=True) as qm:
            qm.create_queue(queue, transactional=True)
            yield qm, queue
        return
    with manager(where) as qm:
        qm.create_queue(queue, transactional=True)
        try:
            yield qm, queue
        finally:
            qm.delete_queue(queue)


def _one(
    qm: QueueManager, queue: str, scratch: str, per_commit: int, *, size: int, seconds: float
) -> dict[str, Any]:
    bodies = Bodies(size)
    syncs = sync_rate(scratch, min(seconds, 0.4))
    sent = send(
        qm, queue, bodies, per_commit=per_commit, seconds=seconds, messages_max=MESSAGES_MAX
    )
    got = receive(qm, queue, bodies, per_commit=per_commit, messages=sent.messages)
    return {
        "per_commit": per_commit, "syncs_s": round(syncs, 1), "sent_s": round(sent.messages_s, 1),
        "commits_s": round(sent.commits_s, 1), "received_s": round(got.messages_s, 1),
    }  # fmt: skip


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
        """The next bodies."""
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
    """Send transactions of equal size, one after another, for a length of time."""
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
    """Receive a number of messages in transactions, checking each."""
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
