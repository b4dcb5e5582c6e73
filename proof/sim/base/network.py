"""A network between simulated managers: delays, cuts at any byte, partitions, half-open ends.

What goes through are the bytes of the real session protocol. As with TCP, the bytes of one
connection keep their order and are not repeated; but a connection may break at any byte, stall
while a partition lasts, and one end may learn of its end long after the other, or never. Loss,
repetition and reordering of whole packets come from ``packet_faults.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.model.addresses import leads_home
from onceq.model.identification import ON_THIS_COMPUTER, Identification
from onceq.model.run import Buffer
from onceq.service.engine import Engine
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND
from proof.sim.base.pair import Pair

HIGH_WATER = 64 << 10
"""Bytes under way on a connection above which it is not writable."""
CONNECT_TIMEOUT_US = 21 * SECOND
UNKNOWN_US = 2 * MINUTE
"""How long a resolver looks for a computer that does not exist. Without it half of what happens in
a world is that somebody tries, every five seconds, to reach nobody."""


@dataclass(frozen=True, slots=True)
class Call:
    """A manager wants a connection; see ``core/decision.Connect``."""

    node: Node
    outgoing: int
    protocol: str
    host: str
    peer: bytes
    homes: tuple[str, ...] | None


class End:
    """One end of a connection, as the engine sees it (``service.sessions.Connection``)."""

    __slots__ = (
        "_busy",
        "_under_way",
        "broken",
        "closed",
        "home",
        "last_us",
        "life",
        "network",
        "other",
        "queue",
        "session", "streams",
    )  # fmt: skip

    def __init__(self, network: SimNetwork, home: Node) -> None:
        self.network = network
        self.home = home
        self.life = home.life
        self.other: End = self
        self.session = 0
        self.closed = False
        self.broken = False
        """What is written goes nowhere, but this end does not know yet."""
        self.streams: set[int] = set()
        """Message streams of which something was written to this end."""
        self.queue: deque[tuple[int, bytes | None]] = deque()
        """Due time and bytes on their way to this end; None: the other end has closed."""
        self.last_us = 0
        self._under_way = 0
        self._busy = False

    # ---- for the engine -----------------------------------------------------------------

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes."""
        self.home.step("write to a peer")
        self.network.watch(self, pieces)
        if not self.closed:
            self.network.carry(self, b"".join(pieces))

    def close(self) -> None:
        """Send what was written, then close."""
        if not self.closed:
            self.closed = True
            self.other.arrive(self.network.kernel.now + MS, None)

    @property
    def writable(self) -> bool:
        """Whether little enough is on its way."""
        return self.other._under_way < HIGH_WATER

    # ---- for the network ----------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the process that this end belongs to still runs."""
        return not self.closed and self.home.engine is not None and self.home.life == self.life

    def arrive(self, due_us: int, data: bytes | None) -> None:
        """Bytes will come to this end, not before what is on its way already."""
        self.last_us = due = max(due_us, self.last_us)
        self.queue.append((due, data))
        self._under_way += len(data) if data else 0
        self._plan()

    def wait_until(self, due_us: int, work: Callable[[], None]) -> None:
        """Do something then; nothing comes to this end before."""
        self.last_us = due_us
        self.network.kernel.at(due_us, work)

    def _plan(self) -> None:
        if self.queue and not self._busy:
            self._busy = True
            self.network.kernel.at(max(self.queue[0][0], self.network.kernel.now), self._deliver)

    def _deliver(self) -> None:
        """The first bytes on their way come, unless something is between."""
        self._busy = False
        network, kernel = self.network, self.network.kernel
        if not self.queue:
            return
        until = max(network.blocked_until(self.other.home, self.home), self.home.paused_us)
        if until > kernel.now:
            self._busy = True
            kernel.at(until + network.delay_us(), self._deliver)
            return
        _, data = self.queue.popleft()
        if data is not None:
            self._under_way -= len(data)
        if self.alive and self.session:
            if data is None:
                self.closed = True
                kernel.note("closed", self.home.name, self.session)
                self.home.run(lambda e: e.sessions.gone(self.session, "the peer has closed"))
            else:
                kernel.note("data", self.home.name, self.session, len(data))
                self.home.run(lambda e: e.sessions.data(self.session, data))
        if self.other.alive and self.other.session and self._under_way < HIGH_WATER // 2:
            other = self.other
            other.home.run(lambda e: e.sessions.writable(other.session))
        self._plan()

    def drop(self) -> None:
        """Lose all that is on its way to this end."""
        self.queue.clear()
        self._under_way = 0


class SimNetwork:
    """Everything between the managers of one world."""

    def __init__(self, kernel: Kernel, nodes: list[Node], pair: Pair) -> None:
        self.kernel, self.nodes, self.pair = kernel, nodes, pair
        self.watch: Callable[[End, Sequence[Buffer]], None] = lambda end, pieces: None
        """Sees what leaves an end."""
        self.connected: Callable[[Node, Node], None] = lambda node, target: None
        """Told that two computers have a connection."""
        self.astray: Callable[[Call, Node | None], bool] = lambda call, found: False
        """Told of each call and whom it is for; whether somebody else answers it."""
        self.rng = kernel.stream("network")
        self.ends: list[End] = []
        self._blocked: dict[tuple[int, int], int] = {}

    # ---- connecting ---------------------------------------------------------------------

    def connect(
        self, node: Node, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        """A manager wants a connection."""
        found = self._find(protocol, host, peer)
        if self.astray(Call(node, outgoing, protocol, host, peer, homes), found):
            return
        if found is not None and not leads_home(homes, found.ip):
            found = None
        target = None if node is self.pair.ended else self.pair.reached(found, host.casefold())
        after = self.delay_us()
        if target is None:
            retry_us = round(self.kernel.options.settings.connect_retry_s * SECOND)
            after += max(UNKNOWN_US, 2 * retry_us)
        node.later(after, self._connect, node, outgoing, target)

    def is_home(self, outgoing: OutgoingQueue) -> bool:
        """Whether the computer that an outgoing queue is for may be connected to for answers."""
        host = outgoing.name.host.casefold()
        found = next((node for node in self.nodes if node.name.casefold() == host), None)
        return found is None or leads_home(outgoing.homes, found.ip)

    def _find(self, protocol: str, host: str, peer: bytes) -> Node | None:
        for node in self.nodes:
            known = (
                node.guid == peer
                if not host
                else host.casefold() in (node.name.casefold(), node.ip)
            )
            if known:
                return node
        return None

    def _connect(self, node: Node, outgoing: int, target: Node | None) -> None:
        kernel = self.kernel
        if target is None or target.engine is None:
            kernel.note("refused", node.name, outgoing)
            node.run(lambda e: e.sessions.connect_failed(outgoing, "nobody answers there"))
            return
        if max(self.blocked_until(node, target), self.blocked_until(target, node),
               target.paused_us) > kernel.now:  # fmt: skip
            kernel.note("unreachable", node.name, outgoing)
            node.later(CONNECT_TIMEOUT_US, self._timed_out, node, outgoing)
            return
        seen, shown = self._met(node, target), self._met(target, node)
        if isinstance(seen, str) or isinstance(shown, str):
            reason = seen if isinstance(seen, str) else str(shown)
            node.run(lambda e: e.sessions.connect_failed(outgoing, reason))
            return
        here, there = End(self, node), End(self, target)
        here.other, there.other = there, here
        self.ends = [end for end in self.ends if end.alive] + [here, there]
        kernel.note("connect", node.name, target.name, outgoing)
        self.connected(node, target)

        def accepted(engine: Engine) -> None:
            there.session = engine.sessions.accepted(there, node.ip, shown)

        def connected(engine: Engine) -> None:
            here.session = engine.sessions.connected(outgoing, here, target.ip, seen)

        def accept() -> None:
            if there.alive:
                target.run(accepted)

        there.wait_until(kernel.now + self.delay_us(), accept)
        node.run(connected)

    @staticmethod
    def _met(node: Node, other: Node) -> Identification | str:
        """Who another one is to a manager; or why it cannot stay."""
        return ON_THIS_COMPUTER if node.door is None else node.door.who(other)

    def _timed_out(self, node: Node, outgoing: int) -> None:
        node.run(lambda e: e.sessions.connect_failed(outgoing, "the connection timed out"))

    # ---- carrying -----------------------------------------------------------------------

    def delay_us(self) -> int:
        """How long something takes now."""
        options = self.kernel.options
        delay = options.latency_us
        if options.jitter and self.kernel.faulty:
            delay += int(self.rng.expovariate(1 / (options.jitter * options.latency_us + 1)))
        return delay

    def carry(self, end: End, data: bytes) -> None:
        """Bytes leave an end."""
        if end.broken:
            return
        other, rng, now = end.other, self.rng, self.kernel.now
        due = now + self.delay_us()
        if self.kernel.faulty and rng.random() < self.kernel.options.loss * 0.2:
            kept = rng.randrange(len(data) + 1)
            if kept:
                other.arrive(due, data[:kept])
            self.kernel.note("cut", end.home.name, kept, len(data))
            other.wait_until(max(due, other.last_us), lambda: self.cut(end))
            return
        if self.kernel.faulty and len(data) > 1 and rng.random() < 0.1:
            at = rng.randrange(1, len(data))
            other.arrive(due, data[:at])
            other.arrive(due + self.delay_us(), data[at:])
            return
        other.arrive(due, data)

    def cut(self, end: End) -> None:
        """A connection breaks; each end learns of it some time, or by its own timers."""
        for side in (end, end.other):
            # Also where an end is gone meanwhile: what left it after the cut never comes.
            side.broken = True
            side.drop()
            self._tell(side)

    def _tell(self, end: End) -> None:
        """An end learns, sooner or later, that its connection is over."""
        if end.alive:
            silent = self.kernel.faulty and self.rng.random() < 0.3
            after = self.rng.randrange(SECOND, 5 * MINUTE) if silent else self.delay_us()
            end.arrive(self.kernel.now + after, None)

    def gone(self, node: Node) -> None:
        """The process of a node is over: all its connections break."""
        for end in self.ends:
            if end.home is node and not end.closed:
                end.closed = True
                end.drop()
                end.other.broken = True
                self._tell(end.other)

    # ---- partitions ---------------------------------------------------------------------

    def block(self, source: Node, target: Node, until_us: int) -> None:
        """Nothing goes from one node to another for a while."""
        self._blocked[source.index, target.index] = until_us

    def blocked_until(self, source: Node, target: Node) -> int:
        """When something can go that way again."""
        return self._blocked.get((source.index, target.index), 0)

    def heal(self) -> None:
        """Nothing stands between any two of them."""
        self._blocked.clear()
