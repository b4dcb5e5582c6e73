"""A run of ``make liar``: the honest at work, everybody who lies meanwhile, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import onceq
from onceq.errors import OnceqError, ReceiveTimeout
from proof.torture.liar.account import LocalAccount
from proof.torture.liar.backup import BackupWriter
from proof.torture.liar.door import Counts
from proof.torture.liar.honest import OPEN, Honest
from proof.torture.liar.judge import (
    FOR_LIARS,
    judge_bounds,
    judge_log,
    judge_queues,
    judge_trails,
    memory_of,
)
from proof.torture.liar.lies import Liar, Stranger
from proof.torture.liar.looks import LOOK_S_MAX, Looks
from proof.torture.liar.member import Member
from proof.torture.liar.pages import WebPages
from proof.torture.liar.plain import PlainHost
from proof.torture.liar.rogue import Rogue, Tally
from proof.torture.liar.takeover import Impostor, Takeovers
from proof.torture.liar.tenant import Tenant

BATCH: Final = 20
DRAIN_S_MAX: Final = 60.0
MORE_S_MAX: Final = 240.0
"""A short run goes on for so long until every lie was told."""
LIARS: Final = 4
ROGUES: Final[tuple[type[Rogue], ...]] = (BackupWriter, LocalAccount, PlainHost, Tenant, WebPages)
"""Kinds that attack queue managers with and without identities."""
MEMBERS: Final[tuple[type[Rogue], ...]] = (Member,)
"""Those that are there only where the honest have identities."""


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
        kinds: How many kinds there are.
        answered: How often each status was the answer to a lie over HTTP; 0: none came.
        figures: What was measured, beside its bounds.
        strangers: How many lies of each kind were told in each way of strangers.
        tallies: Of everybody else who lied.
        parsed: What came as far as the parser of sessions.
        takeovers, given: How often the impostor took DELTA's place, and how many messages it was
            given.
    """

    sent: int = 0
    received: int = 0
    lies: Counter[str] = field(default_factory=Counter)
    kinds: int = 0
    answered: Counter[int] = field(default_factory=Counter)
    strangers: Counter[str] = field(default_factory=Counter)
    tallies: list[Tally] = field(default_factory=list)
    parsed: Counts = field(default_factory=Counts)
    violations: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    takeovers: int = 0
    given: int = 0
    acknowledged: int = 0


class Scene:
    """The honest, the liars, and what is under way between them."""

    def __init__(
        self, folder: Path, seed: int, *, pin: bool, tls: bool, look_s_max: float = LOOK_S_MAX,
        only: Sequence[type[Rogue]] = (),
    ) -> None:  # fmt: skip
        """Args:
        look_s_max: Longest time that a look of an administrator may take.
        only: Those who lie, if not everybody shall.
        """
        self.look_s_max, self.only = look_s_max, only
        self.outcome = Outcome()
        self.pin, self.seed, self.tls = pin, seed, tls
        self.honest = Honest(folder, pin=pin, tls=tls)
        web = f"{self.honest.scheme.upper()}://beta:{self.honest.http['BETA']}/msmq/private$/web"
        self.flows = {
            "stock": Flow(r"DIRECT=OS:BETA\private$\stock", r"private$\stock", BATCH),
            "web": Flow(f"DIRECT={web}", r"private$\web", 5),
            "delta": Flow(r"DIRECT=OS:DELTA\private$\goods", r"private$\goods", 5),
        }
        self.before: dict[str, int] = {}
        self.liars: list[Liar] = []
        self.stranger: Stranger | None = None
        self.rogues: list[Rogue] = []

    def run(self, seconds: float) -> Outcome:
        """Let them work for so long among lies."""
        honest, outcome = self.honest, self.outcome
        try:
            honest.start()
            self._work(seconds)
        finally:
            for rogue in filter(Rogue.is_alive, self.rogues):
                rogue.over.set()
                rogue.join()
            honest.kill()
        for node in honest.nodes.values():
            outcome.parsed.add(Counts.of(node.path))
        if self.tls and (outcome.parsed.unproven_sessions or outcome.parsed.unproven_bytes):
            self._unheard()
        outcome.sent = sum(flow.sent for flow in self.flows.values())
        outcome.received = sum(flow.received for flow in self.flows.values())
        return outcome

    def _work(self, seconds: float) -> None:
        honest, flows = self.honest, self.flows
        alpha, beta, delta = (onceq.connect(str(node.path)) for node in honest.nodes.values())
        with alpha, beta:
            honest.furnish()
            for name in ("stock", "web"):
                beta.create_queue(flows[name].queue, transactional=True)
            with delta:
                delta.create_queue(flows["delta"].queue, transactional=True)
            self.before = {name: memory_of(node.pid) for name, node in honest.nodes.items()}
            if not self.only:
                self.liars = [Liar(honest, self.seed * LIARS + n) for n in range(LIARS)]
                self.stranger = Stranger(honest, self.seed) if self.tls else None
            kinds = self.only or (*ROGUES, *(MEMBERS if self.tls else ()))
            self.rogues = [kind(honest, self.seed) for kind in kinds]
            impostor = Impostor(
                honest.ports["DELTA"], honest.guids["ALPHA"], self.seed,
                plays=honest.guids["DELTA"], ways=honest.ways,
            )  # fmt: skip
            self._among(Takeovers(honest.nodes["DELTA"], impostor), alpha, beta, seconds)
            self._drained(alpha, beta, impostor)
            self._judge(impostor)

    def _among(self, takeovers: Takeovers, alpha: Any, beta: Any, seconds: float) -> None:
        speakers = [*self.liars, *([self.stranger] if self.stranger is not None else [])]
        looks = Looks(*(str(self.honest.nodes[name].path) for name in OPEN))
        threads: list[Liar | Takeovers | Rogue] = [*speakers, *self.rogues]
        if not self.only:
            threads.append(takeovers)
        self._send(alpha)
        self._learn(alpha, speakers)
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        last = end + MORE_S_MAX
        while time.monotonic() < end or (
            time.monotonic() < last and not self._everything(takeovers)
        ):
            self._send(alpha)
            self._learn(alpha, speakers)
            self._receive(beta, "stock", 0.05)
            self._receive(beta, "web", 0.0)
        for thread in threads:
            thread.over.set()
        for thread in threads:
            thread.join()
        outcome = self.outcome
        looks.end()
        outcome.figures.append(looks.judge(outcome.violations, self.look_s_max))
        for rogue in self.rogues:
            rogue.judged()
            outcome.tallies.append(rogue.tally)
        for liar in self.liars:
            outcome.kinds = len(liar.kinds())
            outcome.lies += liar.told
            outcome.answered += liar.answered
        if self.stranger is not None:
            outcome.strangers = self.stranger.told
        outcome.takeovers = takeovers.done
        for thread in threads:
            outcome.violations += thread.failures
        if not self._everything(takeovers):
            outcome.violations.append("a lie was not told, or DELTA's place was not taken")

    def _everything(self, takeovers: Takeovers) -> bool:
        """Whether every lie was told, and DELTA's place was taken."""
        if not all(rogue.all_told for rogue in self.rogues):
            return False
        if self.only:
            return True
        told = set().union(*(liar.told for liar in self.liars))
        if takeovers.done < 1 + self.tls or len(told) < len(self.liars[0].kinds()):
            return False
        return self.stranger is None or len(self.stranger.told) == len(self.stranger.pairs())

    def _send(self, alpha: Any) -> None:
        with alpha.transaction() as tx:
            for flow in self.flows.values():
                for number in range(flow.sent, flow.sent + flow.each):
                    tx.send(flow.destination, b"%d" % number)
        for flow in self.flows.values():
            flow.sent += flow.each

    def _learn(self, alpha: Any, liars: Sequence[Liar]) -> None:
        """Liars are well informed."""
        for name in ("stock", "web"):
            view = alpha.admin.outgoing_queue(self.flows[name].destination)
            for liar in liars:
                place = getattr(liar, name)
                place.stream, place.number = view.stream, view.next_number

    def _receive(self, manager: Any, name: str, wait_s: float) -> None:
        flow, wrong = self.flows[name], self.outcome.violations
        try:
            with manager.transaction() as tx:
                for message in tx.receive_many(flow.queue, 1000, timeout=wait_s):
                    if not message.body.isdigit():
                        wrong.append(f"{name}: a liar has sent {message.body[:40]!r}")
                        continue
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
        if (self.pin or self.tls) and impostor.given:
            outcome.violations.append(f"the impostor was given {len(impostor.given)} messages")
        with self.honest.admin("DELTA") as delta:
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
                    f"{alpha.admin.why(flow.destination)}"
                )

    def _unheard(self) -> None:
        """Without proof nobody comes as far as the parser."""
        parsed = self.outcome.parsed
        self.outcome.violations.append(
            f"{parsed.unproven_bytes} bytes in {parsed.unproven_sessions} sessions of strangers"
        )

    def _judge(self, impostor: Impostor) -> None:
        honest, outcome, wrong = self.honest, self.outcome, self.outcome.violations
        outcome.figures += judge_bounds(honest, self.before, wrong)
        liars = impostor.used.union(
            *(liar.used for liar in self.liars), *(rogue.used for rogue in self.rogues)
        )
        told = (outcome.lies + outcome.strangers).total()
        told += sum(tally.tried.total() for tally in outcome.tallies)
        if not self.only:
            taken = bool(outcome.takeovers)
            outcome.figures.append(judge_log(honest, liars, told, wrong, taken=taken))
        outcome.figures.append(judge_trails(honest, wrong))
        received = {flow.queue for flow in self.flows.values()}
        outcome.figures.append(judge_queues(honest, received | FOR_LIARS, wrong))
