"""Queue managers with their real core, store, protocol and engine, on a clock and links in hand.

As section 15 of the semantics wants it: several managers with separate stores and identities, an
injectable clock, a link controllable per direction and packet kind, kill at any moment, timers in
milliseconds.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onceq.client.results import Batch
from onceq.core import inputs
from onceq.core.decision import Sent
from onceq.core.manager import Manager
from onceq.core.state import Identity
from onceq.errors import OnceqError
from onceq.model.identity import TransactionId
from onceq.model.limits import Settings
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Buffer, Run
from onceq.model.time import Now
from onceq.service.engine import Delivered, Engine
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from onceq.testing.relay import Passing, Relay, faithful

START_S = 1_700_000_000
LATENCY_US = 100
FAST = Settings(connect_retry_s=1.0)


@dataclass
class Link:
    """Both directions between two managers: what happens to each packet, and what was seen."""

    policy: Callable[[Passing], list[tuple[int, Passing]]] = faithful
    up: bool = True
    seen: list[Passing] = field(default_factory=list)
    relays: list[Relay] = field(default_factory=list)

    def decide(self, passing: Passing) -> list[tuple[int, Passing]]:
        self.seen.append(passing)
        return self.policy(passing)

    def data(self) -> list[Passing]:
        return [p for p in self.seen if p.kind == 0 and p.transactional]

    def order_acks(self) -> list[Passing]:
        return [p for p in self.seen if p.kind == 1]


class _End:
    """A connection's end, as an engine sees it."""

    def __init__(self, wire: _Wire, side: int) -> None:
        self.wire = wire
        self.side = side

    @property
    def writable(self) -> bool:
        return not self.wire.cut

    def write(self, pieces: Sequence[Buffer]) -> None:
        self.wire.sent(self.side, b"".join(pieces))

    def close(self) -> None:
        self.wire.break_("closed by the other side")


class _Wire:
    """One TCP connection with a relay in its middle."""

    def __init__(self, world: World, nodes: tuple[Node, Node], link: Link, outgoing: int) -> None:
        self.world, self.nodes, self.link = world, nodes, link
        self.cut = False
        self.relay = Relay(
            initiator_id=nodes[0].identity.guid,
            acceptor_id=nodes[1].identity.guid,
            settings=world.settings,
            policy=link.decide,
            now_us=world.now_us,
        )
        link.relays.append(self.relay)
        self.lives = tuple(node.life for node in nodes)
        self.sessions = [0, 0]
        assert nodes[0].engine is not None
        self.sessions[0] = nodes[0].engine.connected(outgoing, _End(self, 0), nodes[1].address)
        assert nodes[1].engine is not None
        self.sessions[1] = nodes[1].engine.accepted(_End(self, 1), nodes[0].address)
        self.move()

    def sent(self, side: int, data: bytes) -> None:
        def arrive() -> None:
            if not self.cut:
                self.relay.receive(side, data, self.world.now_us)
                self.move()

        self.world.after(LATENCY_US, arrive)

    def move(self) -> None:
        """Hand on what the relay has, and see to its timers."""
        if self.cut:
            return
        self.relay.tick(self.world.now_us)
        for side in (0, 1):
            data = self.relay.take_output(side)
            if data:
                self.world.after(LATENCY_US, self._deliverer(side, data))
        if self.relay.closed:
            self.break_(self.relay.closed)
            return
        due = self.relay.next_timer()
        if due is not None:
            self.world.at(max(due, self.world.now_us + 1), self.move)

    def _deliverer(self, side: int, data: bytes) -> Callable[[], None]:
        def deliver() -> None:
            node = self.nodes[side]
            if not self.cut and node.engine is not None and node.life == self.lives[side]:
                node.engine.data(self.sessions[side], data)
                node.pump()

        return deliver

    def break_(self, reason: str) -> None:
        if self.cut:
            return
        self.cut = True
        if self.relay in self.link.relays:
            self.link.relays.remove(self.relay)
        for side, node in enumerate(self.nodes):
            if node.engine is not None and node.life == self.lives[side]:
                session = self.sessions[side]

                def gone(node: Node = node, session: int = session, life: int = node.life) -> None:
                    if node.engine is not None and node.life == life:
                        node.engine.closed(session, reason)
                        node.pump()

                self.world.after(1, gone)


class Node:
    """One queue manager and its disk."""

    def __init__(self, world: World, name: str, settings: Settings) -> None:
        self.world = world
        self.identity = Identity(name.encode().ljust(16, b"\1"), name, START_S - 1000)
        self.address = f"10.0.0.{len(world.nodes) + 1}"
        self.settings = settings
        self.files = SimFiles()
        self.routes: dict[bytes, str] = {}
        self.engine: Engine | None = None
        self.life = 0
        self.answers: dict[int, object] = {}
        self.numbers = itertools.count(1)
        self.commits = itertools.count(1)
        self.failure: BaseException | None = None
        LogStore.create(
            "/store", self.files, store_id=b"S" * 16, identity=self.identity.pack(),
            segment_bytes=1 << 16,
        ).close()  # fmt: skip
        self.start()

    # ---- life ------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.engine is None
        self.life += 1
        store = LogStore.open("/store", self.files, segment_bytes=1 << 16)
        self.engine = Engine(
            manager=Manager(self.identity, self.settings, routes=self.routes),
            store=store,
            clock=self,
            network=self,
            settings=self.settings,
            wake=lambda: None,
            fatal=self._fatal,
        )
        self.engine.start()
        self.owner = self.engine.owner(self.answers.__setitem__)
        self.pump()

    def _fatal(self, error: BaseException) -> None:
        self.failure = error

    def kill(self) -> None:
        """SIGKILL: what was written is still there."""
        self._die()
        self.files = self.files.kill()

    def power_cut(self) -> None:
        """Only what was synced is there."""
        self._die()
        self.files = next(iter(self.files.images()))

    def _die(self) -> None:
        self.engine = None
        for wire in list(self.world.wires):
            if self in wire.nodes:
                wire.break_("the computer is gone")

    def read(self) -> Now:
        return self.world.now()

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        life = self.life
        target = self.world.find(host, peer)

        def attempt() -> None:
            if self.engine is None or self.life != life:
                return
            link = self.world.link(self.identity.name, target.identity.name) if target else None
            if target is None or target.engine is None or link is None or not link.up:
                self.engine.connect_failed(outgoing, f"{host or peer.hex()}: no answer")
            else:
                self.world.wires.append(_Wire(self.world, (self, target), link, outgoing))
                target.pump()
            self.pump()

        self.world.after(LATENCY_US, attempt)

    def pump(self) -> None:
        if self.engine is None or self.engine.stopped:
            return
        while self.engine.pump():
            pass
        due = self.engine.next_timer()
        if due is not None:
            self.world.at(max(due, self.world.now_us + 1), self._ring)

    def _ring(self) -> None:
        if self.engine is None or self.engine.stopped:
            return
        due = self.engine.next_timer()
        if due is not None and due <= self.world.now_us:
            self.engine.tick()
            self.pump()

    # ---- what an application does -------------------------------------------------------------

    def ask(self, make: Callable[[int, int], inputs.Input], *, run: bool = True) -> Any:
        """One request and its answer; errors are raised. Lets the world run until it comes."""
        assert self.engine is not None
        number = next(self.numbers)
        self.engine.submit(make(self.owner, number))
        self.pump()
        while number not in self.answers and self.world.step():
            pass
        result = self.answers.pop(number)
        if isinstance(result, OnceqError):
            raise result
        if isinstance(result, Delivered):
            return Batch(result.run, result.lookups, result.arrived, result.aborts)
        return result

    def create(self, name: str, *, transactional: bool = True, **more: Any) -> None:
        properties = QueueProperties(name, transactional=transactional, **more)
        self.ask(lambda o, r: inputs.CreateQueue(o, r, properties, b"Q" * 16))

    def begin(self) -> int:
        number = next(self.numbers)
        self.ask(lambda o, r: inputs.Begin(o, r, number))
        return number

    def send(self, tx: int, destination: str, *bodies: bytes, **properties: Any) -> Any:
        items = (item(destination, *bodies, **properties),)
        return self.ask(lambda o, r: inputs.Send(o, r, tx, items))

    def commit(self, tx: int, id: TransactionId | None = None) -> Sent:
        result = self.ask(lambda o, r: inputs.Commit(o, r, tx, (), id))
        assert isinstance(result, Sent)
        return result

    def abort(self, tx: int) -> None:
        self.ask(lambda o, r: inputs.Abort(o, r, tx))

    def once(self, destination: str, *bodies: bytes, **properties: Any) -> Sent:
        """One transaction that sends these."""
        items = (item(destination, *bodies, **properties),)
        result = self.ask(lambda o, r: inputs.Commit(o, r, 0, items))
        assert isinstance(result, Sent)
        return result

    def receive(self, queue: str, *, tx: int = 0, count: int = 1, wait_s: float = 0) -> Batch:
        until = self.world.now_us + int(wait_s * 1e6) if wait_s else 0
        result = self.ask(lambda o, r: inputs.Receive(o, r, queue, tx, count, 1 << 25, until))
        assert isinstance(result, Batch)
        return result

    def bodies(self, queue: str) -> list[bytes]:
        """What is in a queue, by peeking."""
        try:
            batch = self.ask(lambda o, r: inputs.Receive(o, r, queue, 0, 10_000, 1 << 25, 0, True))
        except TimeoutError:
            return []
        assert isinstance(batch, Batch)
        return batch.bodies()

    def messages(self, queue: str) -> Batch:
        result = self.ask(lambda o, r: inputs.Receive(o, r, queue, 0, 10_000, 1 << 25, 0, True))
        assert isinstance(result, Batch)
        return result

    def look(self, what: str, name: str = "") -> Any:
        return self.ask(lambda o, r: inputs.Look(o, r, what, name))

    def steer(self, destination: str, action: str) -> None:
        self.ask(lambda o, r: inputs.SteerOutgoing(o, r, destination, inputs.Steer(action)))


class World:
    """Several queue managers, one clock."""

    def __init__(self, *names: str, settings: Settings = FAST) -> None:
        self.now_us = 1_000_000
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.links: dict[frozenset[str], Link] = {}
        self.wires: list[_Wire] = []
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = itertools.count()
        for name in names:
            self.nodes[name] = Node(self, name, settings)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def now(self) -> Now:
        return Now(START_S * 1_000_000 + self.now_us, self.now_us)

    def link(self, one: str, other: str) -> Link:
        return self.links.setdefault(frozenset((one, other)), Link())

    def find(self, host: str, peer: bytes) -> Node | None:
        for node in self.nodes.values():
            if node.identity.guid == peer or node.identity.name == host.upper():
                return node
            if node.address == host:
                return node
        return None

    def at(self, when_us: int, work: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when_us, next(self.count), work))

    def after(self, us: int, work: Callable[[], None]) -> None:
        self.at(self.now_us + us, work)

    def step(self) -> bool:
        if not self.events:
            return False
        when, _, work = heapq.heappop(self.events)
        self.now_us = max(self.now_us, when)
        work()
        return True

    def run(self, seconds: float) -> None:
        end = self.now_us + int(seconds * 1e6)
        while self.events and self.events[0][0] <= end:
            self.step()
        self.now_us = end

    def cut(self, one: str, other: str) -> None:
        """Take the link down and break what runs over it."""
        self.link(one, other).up = False
        for wire in list(self.wires):
            if {node.identity.name for node in wire.nodes} == {one, other}:
                wire.break_("cable pulled")

    def mend(self, one: str, other: str) -> None:
        self.link(one, other).up = True


def item(destination: str, *bodies: bytes, **properties: Any) -> inputs.SendItem:
    return inputs.SendItem(destination, Properties(**properties), Run.of(bodies))


def lookups(batch: Batch) -> array[int]:
    return batch.lookup_ids


def fast(**changes: Any) -> Settings:
    return replace(FAST, **changes)
