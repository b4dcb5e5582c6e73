"""A connection between a simulated queue manager and a liar, who speaks the real protocol.

The liar's end is the product's own session, which believes everybody and claims any identity that
the liar wants. Bytes go through it, late and sometimes cut, as between honest computers
(``base/network.py``); only packet faults leave it alone, because a packet that they keep comes
again as if it were true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from onceq.model.identification import ITSELF, Identification
from onceq.model.run import Buffer
from onceq.service.engine import Engine
from onceq.wire.mqqb.session import Event, Session
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MS
from proof.sim.base.packet_faults import PacketFaultEngine

CUT = "the liar has gone"


class Hearer(Protocol):
    """The liar at the other end."""

    def take_events(self, line: Line, events: Sequence[Event]) -> None:
        """Take the events of a connection."""

    def over(self, line: Line) -> None:
        """The manager has ended a connection."""


class Line:
    """See the module; for the engine of the manager it is a ``service.links.Connection``.

    Attributes:
        claims: The GUID that the liar says it has.
        number: The manager's number for the session; 0: there is none yet.
    """

    def __init__(
        self, kernel: Kernel, rng: Random, node: Node, claims: bytes, liar: Hearer, *, calls: bool
    ) -> None:
        """Prepare; ``call`` or ``answer`` connects.

        Args:
            calls: Whether the liar connects; False: the manager does.
        """
        self.kernel, self.rng, self.node, self.claims = kernel, rng, node, claims
        self.number, self.life = 0, node.life
        self.closed = False
        self.session = Session(
            initiator=calls, own_id=claims, who=ITSELF, settings=kernel.options.settings,
            now_us=kernel.now,
        )  # fmt: skip
        self._liar = liar
        self._last_us = [0, 0]

    # ---- connecting ---------------------------------------------------------------------

    def call(self, address: str, who: Identification) -> None:
        """The liar has connected to the manager."""
        self._begin(lambda engine: engine.sessions.accepted(self, address, who))
        self.session.start()
        self.flush()

    def answer(self, outgoing: int, address: str, who: Identification) -> None:
        """The manager has connected to the liar."""
        self._begin(lambda engine: engine.sessions.connected(outgoing, self, address, who))

    def _begin(self, begin: Callable[[Engine], int]) -> None:
        def work(engine: Engine) -> None:
            self.number = begin(engine)
            assert isinstance(engine, PacketFaultEngine), "worlds have no other engines"
            engine.untouched.add(self.number)

        self.node.run(work)

    @property
    def alive(self) -> bool:
        """Whether both ends are there."""
        return not self.closed and self.node.engine is not None and self.node.life == self.life

    # ---- the manager's end -----------------------------------------------------------------

    def write(self, pieces: Sequence[Buffer]) -> None:
        """See Connection."""
        self.node.step("write to a peer")
        if not self.closed:
            self.kernel.at(self._due(0), self._hear, b"".join(pieces))

    def close(self) -> None:
        """See Connection."""
        if not self.closed:
            self.closed = True
            self.kernel.at(self._due(0), self._liar.over, self)

    @property
    def writable(self) -> bool:
        """See Connection."""
        return True

    # ---- the liar's end ---------------------------------------------------------------------

    def say(self, packet: bytes, *, recoverable: bool) -> None:
        """Send a packet, if there is a session."""
        if self.alive and self.session.opened:
            self.session.send(
                packet, count=1, recoverable=recoverable, now_us=self.kernel.now
            )  # fmt: skip
            self.flush()

    def flush(self) -> None:
        """Let what the liar's session says go to the manager."""
        data = b"".join(self.session.take_output())
        if not (data and self.alive):
            return
        if self.kernel.faulty and self.rng.random() < self.kernel.options.loss * 0.2:
            self.hang_up()
            return
        self._later(lambda engine: engine.sessions.data(self.number, data))

    def hang_up(self) -> None:
        """The liar goes; the manager hears of it."""
        if self.alive:
            self._later(lambda engine: engine.sessions.gone(self.number, CUT))
            self.closed = True

    def _hear(self, data: bytes) -> None:
        self._liar.take_events(self, self.session.receive(data, self.kernel.now))
        self.flush()

    def _later(self, work: Callable[[Engine], object]) -> None:
        self.node.later(self._due(1) - self.kernel.now, self.node.run, work)

    def _due(self, way: int) -> int:
        """When what is said now arrives: never before what was said before."""
        options = self.kernel.options
        delay = options.latency_us + int(self.rng.expovariate(1 / (options.latency_us + MS)))
        self._last_us[way] = max(self._last_us[way] + 1, self.kernel.now + delay)
        return self._last_us[way]
