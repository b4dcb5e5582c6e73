"""A foreign peer: the real session protocol, and packets of the test's choice behind it.

It connects to a queue manager from an address of its own, or answers under a name in the place of
the manager that it belongs to (``World.foreigners``), and claims any identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceq.model.run import Buffer
from onceq.packet.arrived import ArrivedRun
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Opened, Session
from tests.conformance.world import Node, World

STRANGER = b"stranger".ljust(16, b"\7")


class _Line:
    """One connection with a queue manager, as its engine sees it."""

    writable = True

    def __init__(self, foreign: Foreign, node: Node, outgoing: int = 0) -> None:
        self.foreign, self.node, self.life = foreign, node, node.life
        self.outgoing = outgoing
        assert node.engine is not None
        if outgoing:
            self.session = node.engine.sessions.connected(outgoing, self, foreign.address)
        else:
            self.session = node.engine.sessions.accepted(self, foreign.address)

    def write(self, pieces: Sequence[Buffer]) -> None:
        data = b"".join(map(bytes, pieces))
        self.foreign.world.after(
            self.foreign.world.turn.latency_us, lambda: self.foreign.heard(self, data)
        )

    def close(self) -> None:
        self.foreign.closed.append("closed by the queue manager")

    def bring(self, data: bytes) -> None:
        engine = self.node.engine
        if engine is not None and self.node.life == self.life and data:
            engine.sessions.data(self.session, data)
            self.node.pump()

    def hang_up(self) -> None:
        engine = self.node.engine
        if engine is not None and self.node.life == self.life:
            engine.sessions.gone(self.session, "the stranger has gone")
            self.node.pump()


class Foreign:
    """See the module.

    Attributes:
        runs: What the queue manager has sent here.
        closed: Why lines ended.
    """

    def __init__(
        self, world: World, guid: bytes = STRANGER, *, address: str = "10.9.9.9",
        takes: bool = True,
    ) -> None:  # fmt: skip
        """Nobody yet: ``call`` connects.

        Args:
            takes: Whether it says that what was sent here is durable.
        """
        self.world, self.guid, self.address, self.takes = world, guid, address, takes
        self.runs: list[ArrivedRun] = []
        self.closed: list[str] = []
        self.lines: dict[_Line, Session] = {}

    def call(self, node: Node) -> Foreign:
        """Connect to a queue manager, and wait until the session is there."""
        line = _Line(self, node)
        session = self._session(line, initiator=True)
        session.start()
        self._say(line)
        self.world.run(self._moment_s)
        return self

    @property
    def _moment_s(self) -> float:
        """By then what was said is answered, and that too, in whatever world."""
        return max(0.01, 10 * self.world.turn.latency_us / 1e6)

    def answer(self, node: Node, outgoing: int) -> None:
        """Be what a queue manager finds where it has connected to."""
        line = _Line(self, node, outgoing)
        self._session(line, initiator=False)
        self._say(line)

    def _session(self, line: _Line, *, initiator: bool) -> Session:
        session = self.lines[line] = Session(
            initiator=initiator, own_id=self.guid, settings=self.world.settings,
            now_us=self.world.now_us,
        )  # fmt: skip
        return session

    def _say(self, line: _Line) -> None:
        line.bring(b"".join(map(bytes, self.lines[line].take_output())))

    def heard(self, line: _Line, data: bytes) -> None:
        """The queue manager has written this."""
        session = self.lines.get(line)
        if session is None:
            return
        now_us = self.world.now_us
        for event in session.receive(data, now_us):
            if isinstance(event, Arrived):
                self.runs += event.runs
                if self.takes and event.recoverable:
                    session.persisted(event.recoverable, now_us)
            elif isinstance(event, Closed):
                self.closed.append(event.reason)
                del self.lines[line]
                return
            else:
                assert isinstance(event, Opened | Acked)
        self._say(line)
        due = session.next_timer()
        if due is not None:
            self.world.at(max(due, now_us + 1), lambda: self._ring(line))

    def _ring(self, line: _Line) -> None:
        session = self.lines.get(line)
        due = session.next_timer() if session is not None else None
        if session is not None and due is not None and due <= self.world.now_us:
            session.tick(self.world.now_us)
            self._say(line)

    def say(self, packet: bytes, *, count: int = 1, recoverable: int = 0) -> None:
        """Send packets on the newest line, and let the queue manager think about them."""
        (*_, line) = self.lines
        session = self.lines[line]
        session.send(packet, count=count, recoverable=recoverable, now_us=self.world.now_us)
        self._say(line)
        self.world.run(self._moment_s)

    def gone(self) -> None:
        """Hang up."""
        for line in list(self.lines):
            del self.lines[line]
            line.hang_up()

    def bodies(self) -> list[Any]:
        """Transactional packets that came."""
        return [bytes(p) for run in self.runs if run.transactional for p in run.packets]
