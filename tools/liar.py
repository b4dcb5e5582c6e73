"""``make liar``: two honest queue managers at work, and a peer that says what is not so.

ALPHA sends numbered messages to BETA, one transaction after another. Meanwhile a liar connects to
both, under its own identity and under theirs, and sends well-formed lies of every kind of packet:
acknowledgments of what it does not have, answers about doubts, messages of others, streams of the
future, messages that must be refused, administration queues of its choice. At the end nothing is
lost, repeated or out of order, memory, disk and descriptors have stayed bounded, and the log says
from where the lies came.

Watches: I1, I4, I5, I10, I24.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onceq
from nodes import Node, free_port
from onceq.errors import OnceqError, ReceiveTimeout
from onceq.model.identity import guid_bytes
from onceq.model.limits import Settings
from onceq.testing import lies
from onceq.wire.mqqb.session import Session

QUEUE = r"private$\stock"
DESTINATION = r"DIRECT=OS:BETA\private$\stock"
TO_STOCK, TO_NONE, TO_PLAIN = (rf"OS:BETA\private$\{name}" for name in ("stock", "none", "plain"))
SETTINGS = """
connect_retry_s = 0.2
resend_first_s = 0.5
resend_second_s = 1.0
resend_third_s = 1.0
resend_last_s = 1.0
order_ack_delay_s = 0.05
order_ack_delay_s_max = 0.2
computer_quota_bytes = 67108864
"""
BATCH = 20
DRAIN_S_MAX = 60.0
MEMORY_BYTES_MAX = 256 << 20
"""Most that a daemon may grow by."""
DESCRIPTORS_MAX = 200
DISK_BYTES_MAX = 1 << 30
TALK_S = 0.2
LIARS = 4


@dataclass
class Outcome:
    """What came of a run."""

    sent: int = 0
    received: int = 0
    lies: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class Liar(threading.Thread):
    """Connects again and again, and lies each time."""

    def __init__(self, ports: dict[str, int], guids: dict[str, bytes], seed: int) -> None:
        super().__init__(daemon=True)
        self.ports, self.guids, self.rng = ports, guids, random.Random(seed)
        self.stream = self.number = 0
        self.told: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        """See Thread."""
        kinds: list[Callable[[], tuple[str, bytes, bytes, int]]] = [
            self._order_ack, self._final_ack, self._settlement, self._inquiry, self._foreign,
            self._future, self._refused, self._graves, self._admin,
        ]  # fmt: skip
        while not self.over.is_set():
            lie = self.rng.choice(kinds)
            to, guid, packet, recoverable = lie()
            with contextlib.suppress(OSError):
                self._talk(to, guid, packet, recoverable)
                self.told[lie.__name__.strip("_")] += 1

    def _talk(self, to: str, guid: bytes, packet: bytes, recoverable: int) -> None:
        began = time.monotonic()
        session = Session(
            initiator=True, own_id=guid, settings=Settings(), now_us=time.monotonic_ns() // 1000
        )
        session.start()
        with socket.create_connection(("127.0.0.1", self.ports[to]), timeout=2.0) as line:
            line.settimeout(0.05)
            said = False
            while time.monotonic() - began < TALK_S and not session.closed:
                if session.opened and not said:
                    now_us = time.monotonic_ns() // 1000
                    session.send(packet, count=1, recoverable=recoverable, now_us=now_us)
                    said = True
                output = b"".join(map(bytes, session.take_output()))
                if output:
                    line.sendall(output)
                with contextlib.suppress(TimeoutError):
                    data = line.recv(1 << 16)
                    if not data:
                        return
                    session.receive(data, time.monotonic_ns() // 1000)

    # ---- lies: to whom, as whom, what --------------------------------------------------------

    def _own(self) -> bytes:
        return b"liar" + self.rng.randbytes(12)

    def _number(self) -> int:
        return self.rng.choice([max(self.number, 1), max(self.number - 1, 1), 4_000_000_000])

    def _order_ack(self) -> tuple[str, bytes, bytes, int]:
        own = self._own()
        acker = self.rng.choice([own, self.guids["BETA"]])
        said = lies.acknowledged(
            acker, self.guids["ALPHA"], self.stream, self._number(), sent_s=_now()
        )
        return "ALPHA", own, said, 0

    def _final_ack(self) -> tuple[str, bytes, bytes, int]:
        own = self._own()
        said = lies.ended(own, self.guids["ALPHA"], self.stream, self._number(), sent_s=_now())
        return "ALPHA", own, said, 1

    def _settlement(self) -> tuple[str, bytes, bytes, int]:
        own = self._own()
        said = lies.settled(own, self.guids["ALPHA"], self.stream, self._number(), sent_s=_now())
        return "ALPHA", own, said, 0

    def _inquiry(self) -> tuple[str, bytes, bytes, int]:
        alpha = self.guids["ALPHA"]
        future = (1 << 31) - 1 << 32
        said = lies.asked(alpha, self.guids["BETA"], TO_STOCK, future, 9, sent_s=_now())
        return "BETA", alpha, said, 0

    def _foreign(self) -> tuple[str, bytes, bytes, int]:
        said = lies.messages(
            self.guids["ALPHA"], TO_STOCK, [b"lie"], stream=self.stream + 1, sent_s=_now()
        )
        return "BETA", self._own(), said, 1

    def _future(self) -> tuple[str, bytes, bytes, int]:
        stream = (_now() + self.rng.choice([3, 300]) * 86_400) << 32
        said = lies.messages(self.guids["ALPHA"], TO_STOCK, [b"lie"], stream=stream, sent_s=_now())
        return "BETA", self.guids["ALPHA"], said, 1

    def _refused(self) -> tuple[str, bytes, bytes, int]:
        own = self._own()
        return (
            "BETA",
            own,
            lies.messages(own, TO_NONE, [b"x"], stream=_now() << 32, sent_s=_now()),
            1,
        )

    def _graves(self) -> tuple[str, bytes, bytes, int]:
        own, body = self._own(), bytes(60_000)
        said = lies.messages(own, TO_PLAIN, [body], stream=_now() << 32, sent_s=_now())
        return "BETA", own, said, 1

    def _admin(self) -> tuple[str, bytes, bytes, int]:
        own = self._own()
        admin = rf"TCP:127.0.0.1\private$\acks{self.rng.randrange(1 << 30)}"
        said = lies.messages(own, TO_NONE, [b"x"], stream=_now() << 32, sent_s=_now(), admin=admin)
        return "BETA", own, said, 1


def _now() -> int:
    return int(time.time())


def run(*, seconds: float, seed: int, folder: Path) -> Outcome:
    """Let them work for so long among lies."""
    ports = {"ALPHA": free_port(), "BETA": free_port()}
    nodes = {
        name: Node(folder, name, ports[name], {n: p for n, p in ports.items() if n != name},
                   settings=SETTINGS)
        for name in ports
    }  # fmt: skip
    outcome = Outcome()
    try:
        for node in nodes.values():
            node.start()
        _work(nodes, ports, seconds, seed, outcome)
    finally:
        for node in nodes.values():
            if node.process is not None:
                node.kill()
    log = "".join((node.path / "log.txt").read_text() for node in nodes.values())
    for words in ("does not count", "refused: their sender", "from the future"):
        if words not in log:
            outcome.violations.append(f"the log does not say {words!r}")
    if log.count("\n") > 200 + 20 * sum(outcome.lies.values()):
        outcome.violations.append(f"{log.count(chr(10))} lines of log")
    return outcome


def _work(
    nodes: dict[str, Node], ports: dict[str, int], seconds: float, seed: int, outcome: Outcome
) -> None:
    alpha, beta = (onceq.connect(str(nodes[name].path)) for name in ("ALPHA", "BETA"))
    with alpha, beta:
        beta.create_queue(QUEUE, transactional=True)
        beta.create_queue(r"private$\plain", transactional=False)
        guids = {"ALPHA": guid_bytes(alpha.status()["id"]), "BETA": guid_bytes(beta.status()["id"])}
        before = {name: _memory(node.pid) for name, node in nodes.items()}
        liars = [Liar(ports, guids, seed * LIARS + one) for one in range(LIARS)]
        for liar in liars:
            liar.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with alpha.transaction() as tx:
                for number in range(outcome.sent, outcome.sent + BATCH):
                    tx.send(DESTINATION, b"%d" % number)
            outcome.sent += BATCH
            view = alpha.outgoing_queue(DESTINATION)
            for liar in liars:
                liar.stream, liar.number = view["stream"], view["next_number"]
            _receive(beta, outcome, 0.05)
        for liar in liars:
            liar.over.set()
        for liar in liars:
            liar.join()
            outcome.lies += liar.told
        last = time.monotonic() + DRAIN_S_MAX
        while outcome.received < outcome.sent and time.monotonic() < last:
            _receive(beta, outcome, 0.5)
        if outcome.received < outcome.sent:
            outcome.violations.append(
                f"{outcome.sent - outcome.received} messages lost: {alpha.why(DESTINATION)}"
            )
        _bounded(nodes, before, outcome)


def _receive(beta: Any, outcome: Outcome, wait_s: float) -> None:
    try:
        with beta.transaction() as tx:
            for message in tx.receive_many(QUEUE, 1000, timeout=wait_s):
                if message.body != b"%d" % outcome.received:
                    outcome.violations.append(
                        f"{message.body!r} came in the place of {outcome.received}"
                    )
                outcome.received += 1
    except ReceiveTimeout:
        pass
    except OnceqError as error:
        outcome.violations.append(f"receiving failed: {error}")


def _memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def _bounded(nodes: dict[str, Node], before: dict[str, int], outcome: Outcome) -> None:
    for name, node in nodes.items():
        grown = _memory(node.pid) - before[name]
        held = len(os.listdir(f"/proc/{node.pid}/fd"))
        disk = sum(path.stat().st_blocks * 512 for path in node.path.rglob("*") if path.is_file())
        for what, value, most in (
            ("bytes of memory more", grown, MEMORY_BYTES_MAX),
            ("descriptors", held, DESCRIPTORS_MAX),
            ("bytes on disk", disk, DISK_BYTES_MAX),
        ):
            if value > most:
                outcome.violations.append(f"{name} has {value:,} {what}; at most {most:,}")


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make liar", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="onceq-liar-"))
    outcome = run(seconds=given.seconds, seed=given.seed, folder=folder)
    print(f"{outcome.sent:,} messages sent, {outcome.received:,} received, among lies:")
    for what, count in sorted(outcome.lies.items()):
        print(f"  {count:6,}  {what}")
    for violation in outcome.violations:
        print(f"WRONG: {violation}")
    if outcome.violations:
        print(f"kept: {folder}; again: make liar ARGS='--seed {given.seed}'")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
