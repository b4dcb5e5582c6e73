"""The judge's books of who works on queues: who holds messages, who waits, and who has gone.

They are kept at the door of each manager, of all requests and answers there (``Witness`` in
``base/packet_faults.py``). A unit of work surely holds a message from the moment when it was handed
out until the unit's end is asked for, its connection is lost, or nobody has used it for so long
that it may have been undone. A branch that has promised holds it from its promise until somebody
decides it, over every crash. Between a request and its answer both may be so.

Watches: I17 (a consumer that has gone holds nothing and waits for nothing), I19 (a view lists those
who hold messages, and how many), I20 (a branch that has promised still has what it took).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.errors import OnceqError
from onceq.model.branches import ONCEQ_FORMAT, Vote
from onceq.model.requests import (
    Abort,
    Begin,
    CancelReceive,
    Commit,
    CommitBranch,
    CommitGroup,
    EndBranch,
    Enlist,
    PrepareBranch,
    Receive,
    Request,
    RollbackBranch,
    RollbackGroup,
    Send,
    StartBranch,
)
from onceq.model.views.queues import ConsumerView
from onceq.packet.arrived import Batch
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import IDLE_US, MINUTE
from proof.sim.judge.books import Place

NEVER: Final = 1 << 62
HARMLESS: Final = (Begin, Send, Receive, Enlist, StartBranch)
"""Requests of a unit of work after which it holds what it held."""
UNDECIDED_US: Final = 30 * MINUTE
"""So long a promise that the manager itself has to decide stands for sure (``undecided_s``)."""


@dataclass(slots=True)
class Taking:
    """What one unit of work takes; queues by their names, folded.

    Attributes:
        taken: Messages that it was handed out.
        wanted: The most that receives may bring that were not answered yet.
        sure: Whether it certainly holds what was taken.
        vague: It takes by other requests than receives, too.
        used_us: When something was asked in it last.
        over_us: Since when it is certainly over.
    """

    owner: int
    xid: str = ""
    taken: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)
    sure: bool = True
    vague: bool = False
    used_us: int = 0
    over_us: int = NEVER


@dataclass(slots=True)
class Promised:
    """What a prepared branch holds; ``life`` of the process that it was prepared in."""

    taken: Counter[str]
    life: int
    until_us: int


@dataclass(slots=True)
class Life:
    """One process of a manager.

    Attributes:
        asked: What was not answered yet, by connection and number of the request.
        gone: Connections that are lost.
    """

    units: dict[tuple[int, int], Taking] = field(default_factory=dict)
    asked: dict[tuple[int, int], Request] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Sight:
    """What is certain of a queue at the moment at which somebody asks who works on it."""

    asked_us: int
    gone: frozenset[int]
    held: list[tuple[Taking, int]]
    promised: dict[str, Promised]
    waits: frozenset[tuple[int, int]]

    @property
    def busy(self) -> bool:
        """Whether anybody certainly works on it."""
        return bool(self.held or self.promised or self.waits)


class Consumers:
    """See the module."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._lives: dict[int, Life] = {}
        self._promised: dict[int, dict[str, Promised]] = {}
        self._decided: dict[tuple[int, str], int] = {}
        """By manager and branch: since when it is certainly over."""

    def begins(self, node: Node) -> None:
        """A process of a manager begins: of what was not promised nothing is left."""
        self._lives[node.index] = Life()
        self._promised.setdefault(node.index, {})

    # ---- at the door ------------------------------------------------------------------------

    def asked(self, node: Node, item: Request) -> None:
        """Somebody asks a manager for something: it may count already."""
        life = self._lives[node.index]
        if item.request:
            life.asked[item.owner, item.request] = item
        number = getattr(item, "transaction", 0)
        if number:
            self._used(life, item, number)
        if isinstance(item, (CommitBranch, RollbackBranch)):
            self._promised[node.index].pop(str(item.xid), None)
        elif isinstance(item, PrepareBranch):
            for unit in _of(life, str(item.xid)):
                unit.sure = False
        elif isinstance(item, (CommitGroup, RollbackGroup)):
            self._promised[node.index].clear()
        elif isinstance(item, CancelReceive):
            for key in [key for key in life.asked if key[0] == item.owner]:
                del life.asked[key]

    def _used(self, life: Life, item: Request, number: int) -> None:
        key = item.owner, number
        if isinstance(item, (Begin, StartBranch)) or key not in life.units:
            life.units[key] = Taking(item.owner)
        unit = life.units[key]
        unit.used_us = self.kernel.now
        if isinstance(item, StartBranch):
            unit.xid = str(item.xid)
        elif isinstance(item, Receive):
            unit.wanted[item.queue.casefold()] += item.count_max
        elif not isinstance(item, HARMLESS):
            unit.sure = False
            unit.vague |= not isinstance(item, (Commit, Abort, EndBranch, PrepareBranch))

    def gone(self, node: Node, owner: int) -> None:
        """A connection is lost, with what it did not promise."""
        life = self._lives[node.index]
        life.gone.add(owner)
        for unit in life.units.values():
            if unit.owner == owner:
                unit.sure = False
        for key in [key for key in life.asked if key[0] == owner]:
            del life.asked[key]

    def answered(self, node: Node, owner: int, request: int, result: object) -> None:
        """Somebody hears what became of a request."""
        life = self._lives[node.index]
        item = life.asked.pop((owner, request), None)
        if item is None:
            return
        unit = life.units.get((owner, getattr(item, "transaction", 0)))
        refused = isinstance(result, OnceqError)
        if isinstance(item, Receive) and unit is not None:
            name = item.queue.casefold()
            unit.wanted[name] -= item.count_max
            unit.taken[name] += len(result) if isinstance(result, Batch) else 0
        elif isinstance(item, (Commit, Abort, EndBranch)) and unit is not None and not refused:
            unit.over_us = self.kernel.now
        elif isinstance(item, PrepareBranch) and result is Vote.PREPARED:
            self._promises(node, life, item)
        elif isinstance(item, (CommitBranch, RollbackBranch)) and not refused:
            self._decided[node.index, str(item.xid)] = self.kernel.now

    def _promises(self, node: Node, life: Life, item: PrepareBranch) -> None:
        units = list(_of(life, str(item.xid)))
        for unit in units:
            unit.over_us = min(unit.over_us, self.kernel.now)
        if units and not any(unit.vague for unit in units):
            taken = sum((unit.taken for unit in units), Counter[str]())
            ours = item.xid.format_id == ONCEQ_FORMAT
            until_us = self.kernel.now + UNDECIDED_US if ours else NEVER
            self._promised[node.index][str(item.xid)] = Promised(taken, node.life, until_us)

    # ---- what a view lists ------------------------------------------------------------------

    def looking(self, node: Node, place: Place) -> Sight:
        """Somebody asks who works on a queue."""
        life, name, now = self._lives[node.index], place.name.casefold(), self.kernel.now
        waits = [
            key for key, item in life.asked.items()
            if isinstance(item, Receive) and item.wait_until_us and item.queue.casefold() == name
        ]  # fmt: skip
        return Sight(
            now,
            frozenset(life.gone),
            [
                (unit, unit.taken[name])
                for unit in life.units.values()
                if unit.sure and unit.taken[name] and now < unit.used_us + IDLE_US // 2
            ],
            {
                xid: promised
                for xid, promised in self._promised[node.index].items()
                if promised.taken[name] and now < promised.until_us
            },
            frozenset(waits),
        )

    def check(self, node: Node, place: Place, sight: Sight, views: Sequence[ConsumerView]) -> None:
        """Check the views that were the answer."""
        ranks = [0 if view.holds else 1 if view.waiting else 2 for view in views]
        if ranks != sorted(ranks):
            self.kernel.wrong(f"I19: {place}: who holds messages is not told of first: {views}")
        told = Counter[int]()
        for view in views:
            if view.connection in sight.gone:
                self.kernel.wrong(f"I17: {place}: {view} has gone")
            told[view.connection] += view.holds
        self._check_held(place, sight, told)
        self._check_most(node, place, sight, told)
        self._check_branches(node, place, sight, views)
        waiting = {view.connection for view in views if view.waiting}
        for key in sight.waits & self._lives[node.index].asked.keys():
            if key[0] not in waiting:
                self.kernel.wrong(f"I19: {place}: connection {key[0]} waits, and is not told of")
            self.kernel.marks[marks.CONSUMER_WAITS] += 1

    def _check_held(self, place: Place, sight: Sight, told: Counter[int]) -> None:
        """Check that the views list every holder of messages, with no fewer than those."""
        least = Counter[int]()
        for unit, count in sight.held:
            least[unit.owner] += count if unit.sure else 0
        for owner, count in least.items():
            if told[owner] < count:
                self.kernel.wrong(
                    f"I19: {place}: connection {owner} holds {count} messages, and {told[owner]} "
                    "are listed"
                )
            self.kernel.marks[marks.CONSUMER_HOLDS] += count > 0

    def _check_most(self, node: Node, place: Place, sight: Sight, told: Counter[int]) -> None:
        """Check that the views list nobody with more than that consumer may have taken."""
        units, name = self._lives[node.index].units.values(), place.name.casefold()
        for owner, count in told.items():
            own = [unit for unit in units if unit.owner == owner and unit.over_us > sight.asked_us]
            most = sum(unit.taken[name] + unit.wanted[name] for unit in own)
            if owner and count > most and not any(unit.vague for unit in own):
                self.kernel.wrong(
                    f"I19: {place}: connection {owner} is told to hold {count} messages, and has "
                    f"taken {most}"
                )

    def _check_branches(
        self, node: Node, place: Place, sight: Sight, views: Sequence[ConsumerView]
    ) -> None:
        """Check that the views list promises, and no branch that was decided."""
        rest = Counter[str]()
        for view in views:
            if view.connection == 0:
                rest[view.branch] += view.holds
        for xid in rest:
            if self._decided.get((node.index, xid), NEVER) <= sight.asked_us:
                self.kernel.wrong(f"I17: {place}: branch {xid} holds messages, and was decided")
        for xid, promised in sight.promised.items():
            if self._promised[node.index].get(xid) is not promised:
                continue
            count = promised.taken[place.name.casefold()]
            if rest[xid] != count:
                self.kernel.wrong(
                    f"I20: {place}: branch {xid} has promised to decide on {count} messages, and "
                    f"{rest[xid]} are listed"
                )
            self.kernel.marks[marks.CONSUMER_PROMISED] += 1
            self.kernel.marks[marks.CONSUMER_KEPT] += promised.life != node.life


def _of(life: Life, xid: str) -> Iterator[Taking]:
    """The units of work in a branch."""
    return (unit for unit in life.units.values() if unit.xid == xid)
