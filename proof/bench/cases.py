"""What ``make bench`` measures: each case a function that gives figures for one round."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onceq
from onceq.cli.bench import Bodies, WrongMessages, latency, receive, send
from onceq.client.stopping import pause
from proof.bench.client import SENDER_SHIFT, Client, together
from proof.nodes import Node, acquaint, allow, free_port

QUEUE = r"private$\bench"
DESTINATION = r"DIRECT=OS:BETA\private$\bench"
SIZES = (1, 10, 100, 1000)
CLIENTS = 16
PROCESSES = 4
"""Processes; the sixteen clients are their threads."""
SETTLE_S = 20.0


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    seconds: float = 0.8
    messages_max: int = 150_000
    body: int = 1024
    rounds: int = 3
    latency_rounds: int = 1_000
    depth: int = 1_000_000
    slices: int = 25
    slice_commits: int = 20
    cold: tuple[tuple[int, int], ...] = ((10, 20), (100, 10), (1000, 2))
    """Messages a transaction, and transactions of a slice, when messages are read from the disk."""
    forward: tuple[int, ...] = (1_500, 12_000, 80_000, 150_000)
    """Messages stored and forwarded, for each of SIZES."""


QUICK = Scale(
    seconds=0.03, messages_max=3_000, rounds=1, latency_rounds=20, depth=5_000, slices=2,
    slice_commits=3, cold=((10, 2), (100, 1), (1000, 1)), forward=(20, 100, 500, 1_000),
)  # fmt: skip

Figures = dict[str, float]


class Bench:
    """Managers to measure, made once; and the cases."""

    def __init__(self, folder: Path, scale: Scale, *, tls: bool = False) -> None:
        """Args:
        tls: Whether the daemons have identities, and speak TLS with each other.
        """
        self.scale = scale
        self._tls = tls
        self.folder = folder
        ports = free_port(), free_port()
        self.alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]})
        self.beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]})
        self._senders = 0
        self.sent = 0
        """Messages of the last case with one client."""
        self._open: list[onceq.QueueManager] = []
        self._deep_bodies = Bodies(scale.body)

    def start(self) -> None:
        """Start the daemons and make the queues."""
        guids = acquaint(self.alpha, self.beta) if self._tls else {}
        for node in (self.alpha, self.beta):
            if node.process is None:
                node.start()
            qm = onceq.connect(str(node.path))
            qm.create_queue(QUEUE, transactional=True)
            self._open.append(qm)
        if guids:
            allow(self.beta, guids["ALPHA"], queue=QUEUE)
        embedded = onceq.open(str(self.folder / "embedded"), name="GAMMA", create=True)
        self._open.append(embedded)
        embedded.create_queue(QUEUE, transactional=True)

    def stop(self) -> None:
        """Stop everything."""
        for qm in self._open:
            qm.close()
        for node in (self.alpha, self.beta):
            if node.process is not None:
                node.kill(signal.SIGTERM)

    def _bodies(self) -> Bodies:
        """Numbers that no other sender has."""
        self._senders += 1
        return Bodies(self.scale.body, first=self._senders << SENDER_SHIFT)

    # ---- one client -----------------------------------------------------------------------

    def embedded(self, per_commit: int) -> Figures:
        """Inside this process, one thread."""
        return self._one(self._open[2], per_commit)

    def daemon(self, per_commit: int) -> Figures:
        """Through a socket, one client."""
        return self._one(self._open[0], per_commit)

    def _one(self, qm: onceq.QueueManager, per_commit: int) -> Figures:
        scale, bodies = self.scale, self._bodies()
        sent = send(
            qm, QUEUE, bodies, per_commit=per_commit, seconds=scale.seconds,
            messages_max=scale.messages_max,
        )  # fmt: skip
        self.sent = sent.messages
        got = receive(qm, QUEUE, bodies, per_commit=per_commit, messages=sent.messages)
        return {"send": sent.messages_s, "receive": got.messages_s}

    # ---- sixteen --------------------------------------------------------------------------

    def embedded_sixteen(self, per_commit: int) -> Figures:
        """Inside this process, sixteen threads that send."""
        qm = self._open[2]
        makers = [self._bodies() for _ in range(CLIENTS)]
        found: list[int] = []

        def work(bodies: Bodies) -> None:
            rate = send(
                qm, QUEUE, bodies, per_commit=per_commit, seconds=self.scale.seconds,
                messages_max=self.scale.messages_max // CLIENTS,
            )  # fmt: skip
            found.append(rate.messages)

        threads = [threading.Thread(target=work, args=(bodies,)) for bodies in makers]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        span = time.monotonic() - began
        if len(found) != CLIENTS:
            raise RuntimeError("a sending thread has failed")
        check_senders(qm, sum(found), self.scale.body)
        return {"send": sum(found) / span}

    def daemon_sixteen(self, per_commit: int) -> Figures:
        """Sixteen clients with a connection each, threads of four processes."""
        threads = CLIENTS // PROCESSES
        clients = []
        for _ in range(PROCESSES):
            clients.append(
                Client(
                    "send", where=str(self.alpha.path), destination=QUEUE, threads=threads,
                    first=self._senders + 1, size=self.scale.body, per_commit=per_commit,
                    seconds=self.scale.seconds,
                    messages=self.scale.messages_max // CLIENTS,
                )
            )  # fmt: skip
            self._senders += threads
        rate = together(clients)
        count = self._open[0].queue(QUEUE).messages
        check_senders(self._open[0], count, self.scale.body)
        return {"send": rate}

    # ---- two managers ---------------------------------------------------------------------

    def forward(self, per_commit: int) -> Figures:
        """Client, manager, manager, client: all at work at once."""
        count = self.scale.forward[SIZES.index(per_commit)]
        self._senders += 1
        sender = Client(
            "send", where=str(self.alpha.path), destination=DESTINATION, threads=1,
            first=self._senders, size=self.scale.body, per_commit=per_commit, seconds=600.0,
            messages=count,
        )  # fmt: skip
        receiver = Client(
            "receive", where=str(self.beta.path), queue=QUEUE, first=self._senders,
            size=self.scale.body, per_commit=per_commit, messages=count,
        )  # fmt: skip
        receiver.go()
        sender.go()
        sent, got = sender.result(), receiver.result()
        return {"through": count / (got["ended"] - sent["began"])}

    def single(self) -> Figures:
        """One message at a time, in one manager and over two."""
        alpha, beta = self._open[0], self._open[1]
        rounds = self.scale.latency_rounds
        local = latency(alpha, QUEUE, alpha, QUEUE, self._bodies(), rounds=rounds)
        far = latency(alpha, DESTINATION, beta, QUEUE, self._bodies(), rounds=rounds)
        return {
            "commit_p50": local.commit_p50, "commit_p99": local.commit_p99,
            "whole_p50": local.whole_p50, "whole_p99": local.whole_p99,
            "far_p50": far.whole_p50, "far_p99": far.whole_p99,
        }  # fmt: skip

    # ---- depth ----------------------------------------------------------------------------

    def depth(self) -> Figures:
        """A deep manager beside a shallow one; then killed, opened again, drained."""
        deep, shallow = (Node(self.folder, n, free_port(), {}) for n in ("DEEP", "SHALLOW"))
        try:
            for node in (deep, shallow):
                node.start()
            found = self._beside(deep, shallow)
            deep.kill()
            deep.start()
            found["reopen_s"] = deep.start_s[-1]
            deep.kill(signal.SIGTERM)
            deep.start()
            found["reopen_checkpointed_s"] = deep.start_s[-1]
            with onceq.connect(str(deep.path)) as qm:
                rate = receive(
                    qm, QUEUE, self._deep_bodies, per_commit=1000, messages=self.scale.depth
                )
            found["drain"] = rate.messages_s
            found["disk_mib"] = settled_disk_bytes(deep.path) / (1 << 20)
        finally:
            for node in (deep, shallow):
                if node.process is not None:
                    node.kill(signal.SIGTERM)
        return {**found, "start_empty_s": shallow.start_s[0]}

    def _beside(self, deep: Node, shallow: Node) -> Figures:
        """Slices of the same work in turn, so that both have the same disk and neighbours."""
        with onceq.connect(str(deep.path)) as deep_qm, onceq.connect(str(shallow.path)) as qm:
            bodies, few = self._bodies(), self._bodies()
            self._deep_bodies = bodies
            deep_qm.create_queue(QUEUE, transactional=True)
            qm.create_queue(QUEUE, transactional=True)
            _fill(qm, few, min(1_000, self.scale.depth // 2))
            _fill(deep_qm, bodies, self.scale.depth // 100)
            memory = resident_bytes(deep.pid)
            count = self.scale.depth - self.scale.depth // 100
            _fill(deep_qm, bodies, count)
            memory = resident_bytes(deep.pid) - memory
            times: list[float] = []
            processor = dict.fromkeys((deep.pid, shallow.pid), 0.0)
            for _ in range(self.scale.slices):
                pair = []
                for link, numbers, pid in ((qm, few, shallow.pid), (deep_qm, bodies, deep.pid)):
                    before = processor_s(pid)
                    pair.append(_turnover(link, numbers, self.scale.slice_commits))
                    processor[pid] += processor_s(pid) - before
                times.append(pair[1] / pair[0])
        return {
            "depth_ratio": statistics.median(times),
            "depth_processor_ratio": processor[deep.pid] / max(processor[shallow.pid], 0.01),
            "memory_bytes": memory / count,
        }  # fmt: skip

    # ---- cold reads -----------------------------------------------------------------------

    def cold(self) -> Figures:
        """What it costs to verify messages that are read from the log after a restart: beside a
        queue manager that does not, in turn."""
        verified, bare = (Node(self.folder, n, free_port(), {}) for n in ("VERIFIED", "BARE"))
        bare.program = ["-m", "proof.bench.unverified"]
        count = sum(per * commits for per, commits in self.scale.cold) * self.scale.slices
        bodies = {}
        try:
            for node in (verified, bare):
                node.start()
                bodies[node.name] = self._bodies()
                with onceq.connect(str(node.path)) as qm:
                    qm.create_queue(QUEUE, transactional=True)
                    _fill(qm, bodies[node.name], count)
                node.kill(signal.SIGTERM)
                node.start()
            return self._in_turn(verified, bare, bodies)
        finally:
            for node in (verified, bare):
                if node.process is not None:
                    node.kill(signal.SIGTERM)

    def _in_turn(self, verified: Node, bare: Node, bodies: dict[str, Bodies]) -> Figures:
        found: Figures = {}
        with onceq.connect(str(verified.path)) as one, onceq.connect(str(bare.path)) as other:
            both = ((one, verified), (other, bare))
            for per, commits in self.scale.cold:
                ratios = []
                processor = dict.fromkeys((verified.name, bare.name), 0.0)
                for number in range(self.scale.slices):
                    spans = {}
                    # Who comes second finds the processor's caches full of the other's messages.
                    for qm, node in both if number % 2 else both[::-1]:
                        before = processor_s(node.pid)
                        spans[node.name] = _taken(qm, bodies[node.name], per, commits)
                        processor[node.name] += processor_s(node.pid) - before
                    ratios.append(spans[verified.name] / spans[bare.name])
                found[f"time {per}"] = statistics.median(ratios)
                used = processor[verified.name] / max(processor[bare.name], 0.01)
                found[f"processor {per}"] = used
        return found


def _taken(qm: onceq.QueueManager, bodies: Bodies, per_commit: int, commits: int) -> float:
    """Return the seconds to receive messages in order, in ``commits`` transactions."""
    began = time.monotonic()
    for _ in range(commits):
        with qm.transaction() as tx:
            bodies.check(tx.receive_many(QUEUE, per_commit, timeout=SETTLE_S).bodies())
    return time.monotonic() - began


def _turnover(qm: onceq.QueueManager, bodies: Bodies, commits: int) -> float:
    """Seconds for as many messages to come as go, 100 in a transaction."""
    began = time.monotonic()
    for _ in range(commits):
        with qm.transaction() as tx:
            tx.send_many(QUEUE, bodies.make(100))
        with qm.transaction() as tx:
            bodies.check(tx.receive_many(QUEUE, 100, timeout=SETTLE_S).bodies())
    return time.monotonic() - began


def _fill(qm: onceq.QueueManager, bodies: Bodies, count: int) -> None:
    while count:
        some = min(count, 5_000)
        with qm.transaction() as tx:
            tx.send_many(QUEUE, bodies.make(some))
        count -= some


def check_senders(qm: onceq.QueueManager, count: int, size: int) -> None:
    """Drain a queue that many senders filled: each one's messages must all come, in order."""
    next_of: dict[int, int] = {}
    left = count
    while left:
        with qm.transaction() as tx:
            batch = tx.receive_many(QUEUE, min(left, 5_000), timeout=SETTLE_S)
            for body in batch.bodies():
                number = int.from_bytes(body[:8], "little")
                sender, at = number >> SENDER_SHIFT, number & ((1 << SENDER_SHIFT) - 1)
                if at != next_of.get(sender, 0) or len(body) != size:
                    raise WrongMessages(f"sender {sender}: {at} where {next_of.get(sender, 0)} was")
                next_of[sender] = at + 1
        left -= len(batch)
    if qm.queue(QUEUE).messages:
        raise WrongMessages("more messages came than were sent")


def processor_s(pid: int) -> float:
    """Processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        values = file.read().rsplit(")", 1)[1].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(path: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(file.stat().st_blocks * 512 for file in _files(path))


def _files(path: Path) -> Iterator[Path]:
    for file in path.iterdir():
        if file.is_file():
            yield file


def settled_disk_bytes(path: Path) -> int:
    """What the store takes once it has given back what it can, or after SETTLE_S."""
    until = time.monotonic() + SETTLE_S
    seen: array[int] = array("q")
    while time.monotonic() < until:
        try:
            seen.append(disk_bytes(path))
        except FileNotFoundError:
            continue
        if len(seen) > 8 and len(set(seen[-8:])) == 1:
            break
        pause(0.5)
    return seen[-1]


@contextmanager
def benching(folder: Path, scale: Scale, *, tls: bool = False) -> Iterator[Bench]:
    """Managers for as long as the block lasts."""
    bench = Bench(folder, scale, tls=tls)
    try:
        bench.start()
        yield bench
    finally:
        bench.stop()
