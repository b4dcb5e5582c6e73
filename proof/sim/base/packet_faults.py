"""A hostile link between the sessions and the core: whole packets lost, repeated, reordered, late.

TCP never does this, but routers, restored images and the other protocols do, and the core must
stand it. Packets are taken out of, and put into, the stream of ``Arrived`` inputs, so the sessions'
own counts stay right: what was dropped is never reported as persisted, and what was put in is not
counted at all.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from onceq.core.decision import Notice, Persisted
from onceq.core.inputs import Arrived, Input, OwnerGone, SessionOpened
from onceq.core.manager import Manager
from onceq.model.requests import Request
from onceq.model.rights import Actor
from onceq.model.run import LENGTH_TYPE
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, SETTLING, ArrivedRun, cut
from onceq.service.committer import AnswerTo, Takes
from onceq.service.engine import Engine
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND

OLD_PACKETS_MAX = 400
"""Old packets kept to be put in again."""


class Watch(Protocol):
    """Hears what comes to the managers of a world."""

    def opened(self, node: Node, item: SessionOpened) -> None:
        """A session is open."""

    def spoke(self, node: Node, session: int) -> None:
        """Something has come on a session."""

    def aware(self, node: Node, manager: Manager) -> None:
        """A manager has told its operator something, and that is durable."""

    def unheard(self, node: Node, packet: bytes) -> None:
        """A final acknowledgment was taken out of a session that goes on: what was sent behind it
        comes first."""


class Witness(Protocol):
    """Hears what applications ask the managers of a world, and the answers."""

    def asked(self, node: Node, item: Request) -> None:
        """A request goes into the inbox."""

    def gone(self, node: Node, owner: int) -> None:
        """A connection is lost; that goes into the inbox."""

    def answered(self, node: Node, owner: int, request: int, result: object) -> None:
        """A request is answered."""


class PacketFaultEngine(Engine):
    """The engine, unchanged, with a bad link before its inbox."""

    def __init__(self, node: Node, old_packets: OldPackets, watch: Watch, **parts: Any) -> None:
        self.node, self.old_packets, self.watch = node, old_packets, watch
        self._genuine: dict[int, deque[bool]] = {}
        self._withheld: set[int] = set()
        self.worked: Callable[[], None] = lambda: None
        """Told when everything that has come was worked on."""
        self.witness: Witness | None = None
        self.unasked: set[bytes] = set()
        """Managers of whom the next packet about doubts is lost."""
        self.untouched: set[int] = set()
        """Sessions with liars: what would be kept of them comes again as if it were true."""
        super().__init__(**parts)
        self._perform[Persisted] = self._persisted
        self._perform[Notice] = self._notice

    def submit(self, item: Input) -> None:
        """Let an input through; what a peer sent may suffer."""
        if isinstance(item, Arrived):
            self.watch.spoke(self.node, item.session)
            self._arrived(item)
        else:
            if isinstance(item, SessionOpened):
                self.watch.opened(self.node, item)
            elif self.witness is not None:
                if isinstance(item, Request):
                    self.witness.asked(self.node, item)
                elif isinstance(item, OwnerGone):
                    self.witness.gone(self.node, item.owner)
            super().submit(item)

    def owner(
        self, answer: AnswerTo, takes: Takes | None = None, *, actor: Actor | None = None,
        where: str = "",
    ) -> int:  # fmt: skip
        """Register an application; what it hears may have a witness."""

        def pass_answer(request: int, result: object) -> None:
            if self.witness is not None:
                self.witness.answered(self.node, owner, request, result)
            answer(request, result)

        owner = super().owner(pass_answer, takes, actor=actor, where=where)
        return owner

    def pump(self, *, portion: bool = True) -> bool:
        """Work on what has come."""
        more = super().pump(portion=portion)
        self.worked()
        return more

    def _notice(self, action: Notice) -> None:
        """An operator is told; what was noticed is durable."""
        super()._notice(action)
        self.watch.aware(self.node, self.manager)

    def _arrived(self, item: Arrived) -> None:
        if item.session in self.untouched:
            self._pass(item, genuine=True)
            return
        kernel = self.node.kernel
        self.old_packets.remember(self.node, item.run)
        options, rng = kernel.options, kernel.stream("network")
        if item.run.kind == SETTLING and item.run.source in self.unasked:
            self.unasked.discard(item.run.source)
            kernel.note("unasked", self.node.name)
            if item.run.recoverable:
                self._withheld.add(item.session)
            return
        if not kernel.faulty or rng.random() >= options.hostile:
            self._pass(item, genuine=True)
            return
        packets = [bytes(packet) for packet in item.run.packets]
        kept, late = packets, []
        kind = rng.randrange(4)
        if kind == 0:
            kept = [p for p in packets if rng.random() < 0.5]
        elif kind == 1:
            late = [p for p in packets if rng.random() < 0.5]
        elif kind == 2 and item.run.transactional:
            late = [p for p in packets if rng.random() < 0.3]
            kept = [p for p in packets if p not in late]
        elif kind == 3 and item.run.transactional:
            rng.shuffle(packets)
        kernel.note("hostile", self.node.name, kind, len(kept), len(late))
        if item.run.recoverable and len(kept) < len(item.run.packets):
            self._withheld.add(item.session)
        if item.run.kind == FINAL_ACK and kept is not packets:
            for packet in packets:
                if packet not in kept:
                    self.watch.unheard(self.node, packet)
        if kept is packets and kind != 3:
            self._pass(item, genuine=True)
        else:
            for run in runs_of(kept):
                self._pass(Arrived(item.session, run), genuine=True)
        if late:
            delay = rng.choice([MS, SECOND, 5 * MINUTE])
            if kind == 1 and not item.run.transactional:
                delay = MS
            self.node.later(delay, self.put_in, item.run.source, late)

    def _pass(self, item: Arrived, *, genuine: bool) -> None:
        if item.run.recoverable:
            self._genuine.setdefault(item.session, deque()).append(genuine)
        super().submit(item)

    def put_in(self, source: bytes, packets: list[bytes]) -> None:
        """Let packets of a manager come (again), on any session with it."""
        sessions = self.manager._step.sessions.of.get(source)
        if sessions and not self.stopped:
            for run in runs_of(packets):
                self._pass(Arrived(min(sessions), run), genuine=False)

    def _persisted(self, action: Persisted) -> None:
        waiting = self._genuine.get(action.session)
        genuine = waiting.popleft() if waiting else False
        if genuine and action.session not in self._withheld:
            self.sessions.persisted(action)


def runs_of(packets: list[bytes]) -> list[ArrivedRun]:
    """Packets as the runs in which they arrive."""
    if not packets:
        return []
    return cut(b"".join(packets), array(LENGTH_TYPE, map(len, packets)))


class OldPackets:
    """Old packets of every link, for coming again up to two days late."""

    def __init__(self) -> None:
        self._kept: deque[tuple[Node, bytes, bytes]] = deque(maxlen=OLD_PACKETS_MAX)

    def remember(self, node: Node, run: ArrivedRun) -> None:
        """Keep a copy of one packet of a run, if the core must be able to stand it late."""
        if run.transactional or run.kind in (ORDER_ACK, FINAL_ACK):
            packet = next(iter(run.packets))
            self._kept.append((node, run.source, bytes(packet)))

    def pick(self, place: int) -> tuple[Node, bytes, bytes] | None:
        """One of them."""
        return self._kept[place % len(self._kept)] if self._kept else None
