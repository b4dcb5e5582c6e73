"""``make backup``: two daemons under load and kills, backed up while they work, and put back.

ALPHA and BETA send each other numbered messages in transactions, and are killed now and then; a
hot backup of one or the other is made again and again. Then one of them, or both, are put back to
backups chosen at random, and go on. What is committed after that must arrive once and in order,
nothing of it lost; what came before may be missing where a restore has undone it, but never comes
out of order, nor twice in one life of its receiver. A backup that was interrupted must not be taken
for one, and a manager that was put back must say so.

Watches: I1, I4, I5, I7, I22, I23.
"""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onceq
from onceq.embedded import data_directory
from onceq.errors import (
    BackupOver,
    InDoubt,
    InsufficientResources,
    NotABackup,
    ReceiveTimeout,
    ServiceNotAvailable,
)
from proof.nodes import Node, free_port
from proof.torture.backup_judge import Mark, Passage
from proof.torture.command import command
from proof.torture.kill import SETTINGS
from proof.torture.kill_load import GONE, SETTLE_S_MAX

QUEUE = r"private$\stock"
SEND_SIZES = (1, 1, 2, 7, 30, 100, 400)
RECEIVE_SIZES = (1, 5, 50, 300, 1000)
ERA_MESSAGES = 10_000
"""Messages of each direction between two restores, at most."""
KILLS_AFTER = 2
"""How often at most somebody is killed in the time after a restore."""
KEPT = 20
"""Backups that are kept for restores; one at random makes room for another."""
INTERRUPTED = (ServiceNotAvailable, BackupOver)
"""How a backup ends whose queue manager was killed."""


@dataclass
class Outcome:
    """What a run has seen; ``violations`` is empty if all is well."""

    seed: int = 0
    messages: int = 0
    kills: int = 0
    backups: int = 0
    interrupted: int = 0
    restores: int = 0
    both: int = 0
    undone: int = 0
    violations: list[str] = field(default_factory=list)


class Flow:
    """One direction: a sender, a receiver, and the judge of what passes."""

    def __init__(self, here: Node, there: Node, seed: int, outcome: Outcome) -> None:
        self.here, self.there = here, there
        self.passage = Passage()
        self._destination = rf"DIRECT=OS:{there.name}\{QUEUE}"
        self._from = onceq.connect(str(here.path))
        self._to = onceq.connect(str(there.path))
        self._to.create_queue(QUEUE, transactional=True)
        self._random = {n: random.Random(f"{seed} {here.name} {n}") for n in ("send", "receive")}
        self._outcome = outcome
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, wanted: int) -> None:
        """Send ``wanted`` messages of the present era, and receive until ``stop``."""
        self._stopping.clear()
        self._threads = [
            threading.Thread(target=self._work, args=(work,), daemon=True)
            for work in (lambda: self._send(wanted), self._receive)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let everything that is under way come to its end."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(SETTLE_S_MAX)
        self._threads = []

    def close(self) -> None:
        """Leave."""
        self._from.close()
        self._to.close()

    def _work(self, work: Callable[[], bool]) -> None:
        try:
            while not self._stopping.is_set() and work():
                pass
        except Exception as error:  # noqa: BLE001 - any error fails the run
            self._outcome.violations.append(
                f"{self.here.name} to {self.there.name}: {type(error).__name__}: {error}"
            )

    def _send(self, wanted: int) -> bool:
        passage = self.passage
        count = min(self._random["send"].choice(SEND_SIZES), wanted - passage.committed)
        if count <= 0:
            return False
        bodies = [passage.body(passage.committed + n) for n in range(count)]
        try:
            with self._from.transaction() as tx:
                tx.send_many(self._destination, bodies)
            done = True
        except InDoubt as error:
            done = self._settle(self._from, error.transaction)
        except GONE:
            done = False
        if done:
            passage.commit(count)
            self._outcome.messages += count
        return True

    def _settle(self, qm: onceq.QueueManager, transaction: str) -> bool:
        while True:
            try:
                return qm.outcome(transaction) == "committed"
            except GONE:
                continue

    def _receive(self) -> bool:
        wanted = self._random["receive"].choice(RECEIVE_SIZES)
        found: list[bytes] = []
        try:
            with self._to.transaction() as tx:
                found = tx.receive_many(QUEUE, wanted, timeout=0.2).bodies()
        except ReceiveTimeout:
            return True
        except InDoubt as error:
            if not self._settle(self._to, error.transaction):
                return True
        except GONE:
            return True
        self.passage.receive(found)
        return True


@dataclass(frozen=True)
class Kept:
    """A backup that can be put back."""

    node: Node
    report: onceq.BackupReport
    mark: Mark
    """What had been received here when it was begun."""


class Run:
    """Two managers, their flows, and the backups of both."""

    def __init__(self, folder: Path, seed: int, every_s: float, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._every_s = every_s
        self._chance = random.Random(f"{seed} restore")
        self.outcome = Outcome(seed=seed)
        ports = free_port(), free_port()
        self._alpha = Node(folder, "ALPHA", ports[0], {"BETA": ports[1]}, settings=SETTINGS)
        self._beta = Node(folder, "BETA", ports[1], {"ALPHA": ports[0]}, settings=SETTINGS)
        self.nodes = (self._alpha, self._beta)
        self._backups: list[Kept] = []
        self._flows: list[Flow] = []
        self._count = 0
        self._seed = seed

    def start(self) -> None:
        """Start both, and connect."""
        for node in self.nodes:
            node.start()
        self._flows = [
            Flow(here, there, self._seed, self.outcome)
            for here, there in (self.nodes, self.nodes[::-1])
        ]

    def era(self, wanted: int, *, kills: int, backups: int, drain: bool) -> None:
        """Exchange messages while backups are made and managers killed.

        Args:
            wanted: Messages of each direction.
            drain: Wait until all of them have come; else stop in the middle.
        """
        begun = [flow.passage.era for flow in self._flows]
        chance = random.Random(f"{self._seed} era {begun}")
        over = threading.Event()
        maker = threading.Thread(target=self._make, args=(over, backups, chance), daemon=True)
        for flow in self._flows:
            flow.start(wanted)
        maker.start()
        try:
            for number in range(kills):
                share = wanted * 2 * (number + 1) // (kills + 2)
                self._until(partial(self._has_sent, share))
                self._kill(chance)
            if drain:
                self._until(lambda: all(flow.passage.complete(wanted) for flow in self._flows))
            else:
                self._until(partial(self._has_sent, wanted))
        finally:
            over.set()
            maker.join(SETTLE_S_MAX)
            for flow in self._flows:
                flow.stop()
        for flow in self._flows:
            self.outcome.violations += flow.passage.judge(wanted if drain else 0)

    def _has_sent(self, count: int) -> bool:
        return sum(flow.passage.committed for flow in self._flows) >= count

    def _until(self, true: Callable[[], bool]) -> None:
        """Wait for something; not longer than anything at all goes on."""
        last, since = self._moved(), time.monotonic()
        while not true() and not self.outcome.violations:
            time.sleep(0.02)
            if (now := self._moved()) != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > SETTLE_S_MAX:
                self.outcome.violations.append(f"nothing moves any more: {last}")

    def _moved(self) -> tuple[int, ...]:
        return tuple(n for f in self._flows for n in (f.passage.committed, f.passage.received))

    def _kill(self, chance: random.Random) -> None:
        victims = [chance.choice(self.nodes)] if chance.random() < 0.8 else list(self.nodes)
        for node in victims:
            node.kill()
        self.outcome.kills += len(victims)
        for node in victims:
            node.start()

    # ---- backups --------------------------------------------------------------------------

    def _make(self, over: threading.Event, most: int, chance: random.Random) -> None:
        for _ in range(most):
            try:
                self._make_one(chance.choice(self.nodes), chance)
            except Exception as error:  # noqa: BLE001 - any error fails the run
                self.outcome.violations.append(f"a backup: {type(error).__name__}: {error}")
                return
            if over.wait(self._every_s):
                return

    def _make_one(self, node: Node, chance: random.Random) -> None:
        self._count += 1
        path = self._folder / f"backup-{self._count}"
        (mark,) = [flow.passage.mark() for flow in self._flows if flow.there is node]
        try:
            with onceq.connect(str(node.path)) as qm:
                report = qm.admin.backup(str(path))
        except InsufficientResources:
            return  # a connection that was killed is not known to be gone yet
        except INTERRUPTED:
            self.outcome.interrupted += 1
            if path.exists():
                try:
                    onceq.restore(
                        str(path), str(self._folder / "nowhere"), dry_run=True, unsigned=True
                    )
                    self.outcome.violations.append(f"{path} was interrupted, and is a backup")
                except NotABackup:
                    pass
                shutil.rmtree(path)
            return
        self.outcome.backups += 1
        self._backups.append(Kept(node, report, mark))
        if len(self._backups) > KEPT:
            gone = self._backups.pop(chance.randrange(len(self._backups)))
            shutil.rmtree(gone.report.path)

    def put_back(self) -> None:
        """Put one manager back, or both, and let them start."""
        chance = self._chance
        nodes = [chance.choice(self.nodes)] if chance.random() < 0.7 else list(self.nodes)
        chosen = {
            kept.node.name: kept for node in nodes if (kept := self._one_of(node)) is not None
        }
        for node in self.nodes:
            if node.name in chosen:
                node.kill(chance.choice((signal.SIGKILL, signal.SIGTERM)))
        for name, kept in chosen.items():
            done = onceq.restore(kept.report.path, str(kept.node.path), replace=True, unsigned=True)
            shutil.rmtree(done.replaced)
            self._say(f"{name} was put back to log position {done.position}")
            problem = data_directory.check(str(kept.node.path)).problem
            if problem:
                self.outcome.violations.append(f"{name}: {problem}")
        for kept in chosen.values():
            kept.node.start()
            self._is_told(kept)
        self.outcome.restores += len(chosen)
        self.outcome.both += len(chosen) == 2
        for flow in self._flows:
            receiver = chosen.get(flow.there.name)
            flow.passage.begin(
                sender_put_back=flow.here.name in chosen,
                receiver=receiver.mark if receiver is not None else None,
            )

    def _one_of(self, node: Node) -> Kept | None:
        mine = [kept for kept in self._backups if kept.node is node]
        return self._chance.choice(mine) if mine else None

    def _is_told(self, kept: Kept) -> None:
        with onceq.connect(str(kept.node.path)) as qm:
            told = qm.admin.status().restored
        if not told or told.position != kept.report.position:
            self.outcome.violations.append(f"{kept.node.name} does not say that it was put back")

    def end(self) -> None:
        """Stop both in order; nothing may be wrong with their stores."""
        for flow in self._flows:
            flow.stop()
            flow.close()
            self.outcome.undone += flow.passage.undone
        codes = [n.kill(signal.SIGTERM) for n in self.nodes if n.process is not None]
        self.outcome.violations += [f"a daemon ended with {code}" for code in codes if code]
        for node in self.nodes:
            problem = data_directory.check(str(node.path)).problem
            if problem:
                self.outcome.violations.append(f"{node.name}: {problem}")


def run(
    *, messages: int, seed: int, folder: Path, every_s: float = 1.0,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:  # fmt: skip
    """Do it all in a folder; both daemons are gone when this returns or raises."""
    whole = Run(folder, seed, every_s, say)
    chance = random.Random(f"{seed} run")
    wanted = max(min(ERA_MESSAGES, messages // 12), 10)
    outcome = whole.outcome
    try:
        whole.start()
        whole.era(wanted, kills=1, backups=1_000, drain=True)
        while outcome.messages < messages and not outcome.violations:
            # What comes now may be undone, wholly or in part, wherever it is then.
            whole.era(chance.randrange(1, wanted), kills=0, backups=1_000, drain=False)
            whole.put_back()
            whole.era(wanted, kills=chance.randint(0, KILLS_AFTER), backups=1_000, drain=True)
            say(
                f"{outcome.messages:,} messages, {outcome.kills} kills, {outcome.backups} backups, "
                f"{outcome.restores} put back"
            )
    finally:
        whole.end()
    return outcome


def table(outcome: Outcome) -> str:
    """The result for people."""
    rows = [
        ("seed", outcome.seed),
        ("messages committed", f"{outcome.messages:,}"),
        ("SIGKILLs", outcome.kills),
        ("backups", f"{outcome.backups} ({outcome.interrupted} more were interrupted)"),
        ("managers put back", f"{outcome.restores} ({outcome.both} times both at once)"),
        ("messages that this has undone", f"{outcome.undone:,}"),
        ("violations", len(outcome.violations)),
    ]
    return "\n".join(f"{name:32} {value}" for name, value in rows)


def main(arguments: list[str]) -> int:
    """The command."""
    return command(
        arguments, "backup", __doc__ or "", lambda **given: (run(**given), {}),
        lambda found, _: table(found),
        count=100_000, unit="messages", what="both queue managers",
    )  # fmt: skip
