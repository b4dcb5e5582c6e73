"""``make liar``: honest queue managers at work, and peers that say what is not so.

ALPHA sends numbered messages to BETA, over sessions and over HTTP, and to DELTA, one transaction
after another. Meanwhile liars connect to ALPHA and BETA, under their own identities and under
theirs, and send well-formed lies of every kind of packet: acknowledgments of what they do not have,
refusals, answers about doubts, announced streams, second lives, messages of others, streams of the
future, messages that must be refused, administration queues and addresses of their choice. And
DELTA is stopped again and again, and an impostor answers under its name, in one half of the time
with ``pin_peers``, in the other without. At the end nothing is lost, repeated or out of order
between the honest (without ``pin_peers``: but for what the impostor was given and has
acknowledged), memory, disk and descriptors have stayed within the bounds that are printed, and the
log names those who lied, and nobody else.

With ``--tls`` the honest have identities. The liars are neighbours then, who have a certificate for
their own GUIDs and every right, so that the same rules have to hold; whoever they say that they are
beside that is not believed. What they post in the clear is nobody's. And a stranger tells the same
lies in each way in which one can come without the right certificate. What comes as far as the
parser of sessions is counted before it is parsed: of strangers, not a byte.

Watches: I1, I4, I5, I10, I24.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onceq
from liar_door import Counts
from liar_lies import Liar, Stranger
from liar_takeover import Impostor, Takeovers
from liar_ways import Ways
from nodes import Node, acquaint, free_port
from onceq.errors import OnceqError, ReceiveTimeout
from onceq.model.identity import guid_bytes, guid_text

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
MORE_S_MAX = 60.0
"""A short run goes on for so long until every lie was told."""
LIARS = 4
MIB = 1 << 20
MEMORY_MAX = 64 * MIB
"""Most that a daemon may grow by."""
DISK_MAX = 256 * MIB
"""Most that its directory may take: the quota, what is given back later, and checkpoints."""
DESCRIPTORS_MAX = 100
LINES_MAX = 500
"""Most lines of log, beside one for every ten lies: what comes often is told as a rate."""
OVER_HTTP = "an acknowledgment does not count: nothing was transmitted under its number"
"""Said of answers to posts, which nobody makes in the clear who has an identity."""
PROOFS = (
    "an acknowledgment does not count: it is not from the manager that has the messages",
    OVER_HTTP,
    "messages of another manager refused",
    "a second process with this identity does not count: a stranger tells of it",
    "a message stream from the future refused",
)
"""What the log must say at least."""
NEIGHBOURS = (("send", "*"), ("forward", ""))
"""Rights of everybody with a certificate, with TLS: without it they are not asked for either."""


@dataclass
class Flow:
    """Numbered messages from ALPHA to one queue.

    Attributes:
        each: How many one transaction sends.
        missing: Numbers that need not arrive.
    """

    destination: str
    queue: str
    each: int
    sent: int = 0
    received: int = 0
    last: int = -1
    missing: set[int] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether everything has arrived that must."""
        return self.received >= self.sent - len(self.missing)


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        lies: How many of each kind.
        figures: What was measured, beside its bounds.
        strangers: How many lies of each kind were told in each way of strangers.
        parsed: What came as far as the parser of sessions.
        takeovers, given: How often the impostor took DELTA's place, and how many messages he was
            given.
    """

    sent: int = 0
    received: int = 0
    lies: Counter[str] = field(default_factory=Counter)
    strangers: Counter[str] = field(default_factory=Counter)
    parsed: Counts = field(default_factory=Counts)
    violations: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    takeovers: int = 0
    given: int = 0
    acknowledged: int = 0


class Scene:
    """The honest, the liars, and what is under way between them."""

    def __init__(self, folder: Path, seed: int, *, pin: bool, tls: bool) -> None:
        self.outcome = Outcome()
        self.pin, self.seed, self.tls = pin, seed, tls
        names = ("ALPHA", "BETA", "DELTA")
        self.ports = {name: free_port() for name in names}
        self.http = {name: free_port() for name in names}
        settings = SETTINGS + ("pin_peers = true\n" if pin else "")
        peers = {f"http://{n.lower()}:{port}": port for n, port in self.http.items()}
        known = dict(self.ports)
        self.nodes = {
            name: Node(folder, name, self.ports[name], peers | known, settings=settings)
            for name in names
        }
        for name, node in self.nodes.items():
            file = node.path / "onceq.toml"
            listen = f'http_listen = "127.0.0.1:{self.http[name]}"\n'
            file.write_text(listen + file.read_text())
            node.program = [str(Path(__file__).with_name("liar_door.py"))]
        self.flows = {
            "stock": Flow(r"DIRECT=OS:BETA\private$\stock", r"private$\stock", BATCH),
            "web": Flow(
                f"DIRECT=HTTP://beta:{self.http['BETA']}/msmq/private$/web",
                r"private$\web", 5,
            ),
            "delta": Flow(r"DIRECT=OS:DELTA\private$\goods", r"private$\goods", 5),
        }  # fmt: skip
        if tls:
            # With an identity a post in the clear is nobody's, also on this computer.
            del self.flows["web"]
        self.before: dict[str, int] = {}
        self.guids: dict[str, bytes] = {}
        self.stranger: Stranger | None = None

    def run(self, seconds: float) -> Outcome:
        """Let them work for so long among lies."""
        try:
            if self.tls:
                acquaint(*self.nodes.values())
            for node in self.nodes.values():
                if node.process is None:
                    node.start()
            self._work(seconds)
        finally:
            for node in self.nodes.values():
                if node.process is not None:
                    node.kill()
        for node in self.nodes.values():
            self.outcome.parsed.add(Counts.of(node.path))
        self._unheard()
        self.outcome.sent = sum(flow.sent for flow in self.flows.values())
        self.outcome.received = sum(flow.received for flow in self.flows.values())
        return self.outcome

    def _work(self, seconds: float) -> None:
        nodes, flows = self.nodes, self.flows
        alpha, beta, delta = (onceq.connect(str(node.path)) for node in nodes.values())
        with alpha, beta:
            for queue in (flows["stock"].queue, r"private$\web", r"private$\bait"):
                beta.create_queue(queue, transactional=True)
            beta.create_queue(r"private$\plain", transactional=False)
            with delta:
                delta.create_queue(flows["delta"].queue, transactional=True)
                self.guids = {
                    name: guid_bytes(manager.status().id)
                    for name, manager in zip(nodes, (alpha, beta, delta), strict=True)
                }
                for manager in (alpha, beta, delta) if self.tls else ():
                    for right, where in NEIGHBOURS:
                        manager.grant("peer:*", right, where)
            self.before = {name: _memory(node.pid) for name, node in nodes.items()}
            ways = Ways(nodes["ALPHA"].path) if self.tls else None
            liars = [
                Liar(self.ports, self.http, self.guids, self.seed * LIARS + n, ways=ways)
                for n in range(LIARS)
            ]
            if ways is not None:
                self.stranger = Stranger(self.ports, {}, self.guids, self.seed, ways=ways)
            impostor = Impostor(
                self.ports["DELTA"], self.guids["ALPHA"], self.seed,
                plays=self.guids["DELTA"], ways=ways,
            )  # fmt: skip
            self._among(liars, Takeovers(nodes["DELTA"], impostor), alpha, beta, seconds)
            self._drained(alpha, beta, impostor)
            self._bounded()
            self._logged(set().union(impostor.used, *(liar.used for liar in liars)))

    def _among(
        self, liars: list[Liar], takeovers: Takeovers, alpha: Any, beta: Any, seconds: float
    ) -> None:
        speakers = [*liars, *([self.stranger] if self.stranger is not None else [])]
        threads: list[Liar | Takeovers] = [*speakers, takeovers]
        self._send(alpha)
        self._learn(alpha, speakers)
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        kinds = {tell.__name__ for tell in liars[0].kinds()}
        last = end + MORE_S_MAX
        while time.monotonic() < end or (
            time.monotonic() < last and not self._everything(liars, kinds, takeovers)
        ):
            self._send(alpha)
            self._learn(alpha, speakers)
            self._receive(beta, "stock", 0.05)
            if "web" in self.flows:
                self._receive(beta, "web", 0.0)
        for thread in threads:
            thread.over.set()
        for thread in threads:
            thread.join()
            self.outcome.violations += thread.failures
        for liar in liars:
            self.outcome.lies += liar.told
        if self.stranger is not None:
            self.outcome.strangers = self.stranger.told
        self.outcome.takeovers = takeovers.done

    def _everything(self, liars: list[Liar], kinds: set[str], takeovers: Takeovers) -> bool:
        """Whether every lie was told, and DELTA's place was taken."""
        told = set().union(*(liar.told for liar in liars))
        if takeovers.done < 1 + self.tls or len(told) < len(kinds):
            return False
        return self.stranger is None or len(self.stranger.told) == len(self.stranger.pairs())

    def _send(self, alpha: Any) -> None:
        with alpha.transaction() as tx:
            for flow in self.flows.values():
                for number in range(flow.sent, flow.sent + flow.each):
                    tx.send(flow.destination, b"%d" % number)
        for flow in self.flows.values():
            flow.sent += flow.each

    def _learn(self, alpha: Any, liars: list[Liar]) -> None:
        """Liars are well informed."""
        for name in {"stock", "web"} & self.flows.keys():
            view = alpha.outgoing_queue(self.flows[name].destination)
            for liar in liars:
                place = getattr(liar, name)
                place.stream, place.number = view.stream, view.next_number

    def _receive(self, manager: Any, name: str, wait_s: float) -> None:
        flow, wrong = self.flows[name], self.outcome.violations
        try:
            with manager.transaction() as tx:
                for message in tx.receive_many(flow.queue, 1000, timeout=wait_s):
                    number = int(message.body)
                    passed = range(flow.last + 1, number)
                    if number <= flow.last or not flow.missing.issuperset(passed):
                        wrong.append(f"{name}: {number} came behind {flow.last}")
                    flow.last = number
                    flow.received += number not in flow.missing
        except ReceiveTimeout:
            pass
        except OnceqError as error:
            wrong.append(f"{name}: receiving failed: {error}")

    def _drained(self, alpha: Any, beta: Any, impostor: Impostor) -> None:
        goods, outcome = self.flows["delta"], self.outcome
        outcome.given, outcome.acknowledged = len(impostor.given), len(impostor.acknowledged)
        if impostor.to_strangers:
            outcome.violations.append(f"a stranger was given {impostor.to_strangers} messages")
        if self.pin and impostor.given:
            outcome.violations.append(f"the impostor was given {len(impostor.given)} messages")
        with onceq.connect(str(self.nodes["DELTA"].path)) as delta:
            try:
                there = {int(m.body) for m in delta.peek_many(goods.queue, 10_000)}
            except ReceiveTimeout:
                there = set()
            goods.missing = impostor.acknowledged - there
            end = time.monotonic() + DRAIN_S_MAX
            while time.monotonic() < end:
                for name in self.flows:
                    self._receive(delta if name == "delta" else beta, name, 0.2)
                if all(flow.complete for flow in self.flows.values()):
                    break
        for name, flow in self.flows.items():
            if not flow.complete:
                outcome.violations.append(
                    f"{name}: {flow.sent - len(flow.missing) - flow.received} messages lost: "
                    f"{alpha.why(flow.destination)}"
                )

    def _unheard(self) -> None:
        """Without proof nobody comes as far as the parser."""
        parsed = self.outcome.parsed
        if self.tls and (parsed.unproven_sessions or parsed.unproven_bytes):
            self.outcome.violations.append(
                f"{parsed.unproven_bytes} bytes in {parsed.unproven_sessions} sessions of strangers"
            )

    # ---- bounds, and what the log says ---------------------------------------------------------

    def _bounded(self) -> None:
        for name, node in self.nodes.items():
            grown = _memory(node.pid) - self.before[name]
            disk = sum(p.stat().st_blocks * 512 for p in node.path.rglob("*") if p.is_file())
            said = []
            for what, value, most in (
                ("MiB of memory more", grown / MIB, MEMORY_MAX / MIB),
                ("MiB on disk", disk / MIB, DISK_MAX / MIB),
                ("descriptors", len(os.listdir(f"/proc/{node.pid}/fd")), DESCRIPTORS_MAX),
            ):
                said.append(f"{value:,.0f} {what} (at most {most:,.0f})")
                if value > most:
                    self.outcome.violations.append(f"{name} has {said[-1]}")
            self.outcome.figures.append(f"{name}: {', '.join(said)}")

    def _logged(self, liars: set[str]) -> None:
        """The log says what was not believed, and of whom; nobody honest is accused."""
        wrong = self.outcome.violations
        log = "".join((node.path / "log.txt").read_text() for node in self.nodes.values())
        proofs = list(PROOFS)
        if self.tls:
            proofs.append("and its certificate is for")
            proofs.remove(OVER_HTTP)
        if self.outcome.takeovers:
            proofs.append("another queue manager answers under a known name")
        for words in proofs:
            if words not in log:
                wrong.append(f"the log does not say {words!r}")
        named = set()
        for line in log.splitlines():
            if any(words in line for words in PROOFS[:-1]):
                named |= set(re.findall(r"peer=\"?([0-9a-f-]{36})", line))
        honest = set(map(guid_text, self.guids.values())) & named
        if honest:
            wrong.append(f"the log accuses {honest}")
        if not named & liars:
            wrong.append("the log does not name who lied")
        lines, most = (
            log.count("\n"),
            LINES_MAX + ((self.outcome.lies + self.outcome.strangers).total() // 10),
        )
        self.outcome.figures.append(
            f"log: {lines:,} lines (at most {most:,}), {len(named & liars)} liars named"
        )
        if lines > most:
            wrong.append(f"{lines:,} lines of log")


def _memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def run(*, seconds: float, seed: int, folder: Path, pin: bool, tls: bool = False) -> Outcome:
    """Let them work for so long among lies."""
    return Scene(folder, seed, pin=pin, tls=tls).run(seconds)


def report(outcome: Outcome, *, pin: bool, tls: bool) -> None:
    """Print what came of one run."""
    print(f"{outcome.sent:,} messages sent, {outcome.received:,} received, "
          f"{'with' if pin else 'without'} pin_peers, {'with' if tls else 'without'} TLS, "
          "among lies:")  # fmt: skip
    for what, count in sorted(outcome.lies.items()):
        print(f"  {count:6,}  {what}")
    print(f"  {outcome.takeovers:6,}  takeover of a name: {outcome.given:,} messages given to the "
          f"impostor, {outcome.acknowledged:,} acknowledged by him")  # fmt: skip
    ways: dict[str, list[int]] = {}
    for what, count in sorted(outcome.strangers.items()):
        ways.setdefault(what.partition(":")[0], []).append(count)
    for way, counts in ways.items():
        print(f"  {sum(counts):6,}  lies of strangers, {way}: {len(counts)} kinds")
    for who in ("proven", "unproven"):
        sessions, size = (
            getattr(outcome.parsed, f"{who}_{what}") for what in ("sessions", "bytes")
        )
        print(f"  {size:,} bytes of the {who} came to the parser, in {sessions:,} sessions")
    for line in (*outcome.figures, *(f"WRONG: {each}" for each in outcome.violations)):
        print(line)


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make liar", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true", help="the honest have identities")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="onceq-liar-"))
    wrong = 0
    for pin in (False, True):
        place = folder / ("pinned" if pin else "unpinned")
        outcome = run(
            seconds=given.seconds / 2, seed=given.seed, folder=place, pin=pin, tls=given.tls
        )
        report(outcome, pin=pin, tls=given.tls)
        wrong += len(outcome.violations)
    if wrong:
        more = " --tls" if given.tls else ""
        print(f"kept: {folder}; again: make liar ARGS='--seed {given.seed}{more}'")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
