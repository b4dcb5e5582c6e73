"""Queue managers with their real core, store, protocol and engine, on clocks and links in hand.

As the conformance cases want it: several managers with separate stores and identities, an
injectable clock, a link controllable per direction and packet kind, kill at any moment, timers in
milliseconds.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from msgspec import structs

from onceq.core.manager import Manager
from onceq.directory import Directory, MemoryDirectory
from onceq.errors import OnceqError, SyncFailed
from onceq.model.http import ORDER_QUEUE_PATH, HttpNames
from onceq.model.identity import Identity, guid_text
from onceq.model.requests import Request
from onceq.model.run import Buffer
from onceq.model.settings import KEEP_ASKED, Settings
from onceq.packet.arrived import Batch
from onceq.service.committer import History
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.testing.disk import PointedStore, Points, SimFiles
from tests.conformance.applications import AnswerLost, Applications, item
from tests.conformance.clocks import START_S, HostClock
from tests.conformance.link import Link, Wire
from tests.conformance.strangers import InsideStranger
from tests.conformance.turns import Turn, chosen

__all__ = ["AnswerLost", "Link", "Node", "World", "Worlds", "fast", "item", "lookups"]

FAST = Settings(connect_retry_s=1.0, xact_dead_letter=KEEP_ASKED)
"""As MSMQ has it; what onceq keeps besides is asked for by name."""
SEGMENT_BYTES = 1 << 16
"""Small, so that tests see segments begin and end."""


class _Died(BaseException):
    """A point to die at was reached."""


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


class _Wire(Wire):
    """Between two engines."""

    def __init__(self, world: World, nodes: tuple[Node, Node], link: Link, outgoing: int) -> None:
        one, other = (node.identity for node in nodes)
        super().__init__(world, (one.name, other.name), (one.guid, other.guid), link)
        self.nodes = nodes
        self.lives = tuple(node.life for node in nodes)
        self.sessions = [0, 0]
        assert nodes[0].engine is not None
        self.sessions[0] = nodes[0].engine.sessions.connected(
            outgoing, _End(self, 0), nodes[1].address, world.turn.shown(nodes[1])
        )
        assert nodes[1].engine is not None
        self.sessions[1] = nodes[1].engine.sessions.accepted(
            _End(self, 1), nodes[0].address, world.turn.shown(nodes[0])
        )
        self.move()

    def _engine(self, side: int) -> Engine | None:
        node = self.nodes[side]
        return node.engine if node.life == self.lives[side] else None

    def deliver(self, side: int, data: bytes) -> None:
        engine = self._engine(side)
        if engine is not None:
            engine.sessions.data(self.sessions[side], data)
            self.nodes[side].pump()

    def lost(self, side: int, reason: str) -> None:
        def gone() -> None:
            engine = self._engine(side)
            if engine is not None:
                engine.sessions.gone(self.sessions[side], reason)
                self.nodes[side].pump()

        self.world.after(1, gone)


class _HttpWire:
    """An HTTP connection between two engines; what passed over it is kept for tests."""

    def __init__(self, world: World, nodes: tuple[Node, Node], outgoing: int) -> None:
        self.world, self.nodes, self.cut = world, nodes, False
        self.names = tuple(node.identity.name for node in nodes)
        self.lives = tuple(node.life for node in nodes)
        self.said = (bytearray(), bytearray())
        world.http.append(self)
        self.sessions = [0, 0]
        one, other = (node.engine for node in nodes)
        assert one is not None
        assert other is not None
        self.sessions[1] = other.sessions.accepted_http(_HttpEnd(self, 1), nodes[0].address)
        self.sessions[0] = one.sessions.connected(outgoing, _HttpEnd(self, 0), nodes[1].address)

    def _engine(self, side: int) -> Engine | None:
        node = self.nodes[side]
        return node.engine if node.life == self.lives[side] else None

    def sent(self, side: int, data: bytes) -> None:
        self.said[side].extend(data)

        def arrive() -> None:
            engine = self._engine(1 - side)
            if engine is not None and not self.cut:
                engine.sessions.data(self.sessions[1 - side], data)
                self.nodes[1 - side].pump()

        self.world.after(self.world.turn.latency_us, arrive)

    def break_(self, reason: str) -> None:
        if self.cut:
            return
        self.cut = True
        self.world.wires.remove(self)
        for side in (0, 1):
            self.world.after(1, self._loser(side, reason))

    def _loser(self, side: int, reason: str) -> Callable[[], None]:
        def lose() -> None:
            engine = self._engine(side)
            if engine is not None:
                engine.sessions.gone(self.sessions[side], reason)
                self.nodes[side].pump()

        return lose


class _HttpEnd:
    """An end of it, as an engine sees it."""

    def __init__(self, wire: _HttpWire, side: int) -> None:
        self.wire = wire
        self.side = side

    @property
    def writable(self) -> bool:
        return not self.wire.cut

    def write(self, pieces: Sequence[Buffer]) -> None:
        if not self.wire.cut:
            self.wire.sent(self.side, b"".join(pieces))

    def close(self) -> None:
        self.wire.break_("closed by the other side")


class Node(Applications):
    """One queue manager and its disk."""

    def __init__(self, world: World, name: str, settings: Settings) -> None:
        super().__init__()
        self.world = world
        self.identity = Identity(name.encode().ljust(16, b"\1"), name, START_S - 1000)
        self.address = f"10.0.0.{len(world.nodes) + 1}"
        self.settings = settings
        self.clock = HostClock(world)
        self.files = SimFiles()
        self.routes: dict[bytes, str] = {}
        self.also: frozenset[str] = frozenset()
        """More names of its computer, from the next start on."""
        host = name.lower()
        self.http = HttpNames(frozenset((host,)), f"http://{host}{ORDER_QUEUE_PATH}")
        self.engine: Engine | None = None
        self.life = 0
        self.answers: dict[int, object] = {}
        self.failure: BaseException | None = None
        LogStore.create(
            "/store", self.files, store_id=b"S" * 16, identity=self.identity.pack(),
            segment_bytes=SEGMENT_BYTES,
        ).close()  # fmt: skip
        self.start()

    # ---- life ------------------------------------------------------------------------------

    kind: type[Manager] = Manager
    """Of its manager, from the next start on."""

    @property
    def running(self) -> Engine:
        """Its engine, which runs."""
        assert self.engine is not None
        return self.engine

    def start(self) -> None:
        assert self.engine is None
        if self.life:
            self.world.turn.starts(self)
        self.life += 1
        store = PointedStore.open("/store", self.files, segment_bytes=SEGMENT_BYTES)
        assert isinstance(store, PointedStore)
        store.points = self.points = Points(self._reached)
        self.failure = None
        self.engine = Engine(
            manager=self.kind(
                self.identity,
                self.settings,
                routes=self.routes,
                addresses=self.also | frozenset((self.address,) if self.world.directory else ()),
            ),
            store=store,
            clock=self.clock,
            network=self,
            settings=self.settings,
            wake=lambda: None,
            fatal=self._fatal,
            directory=self.world.directory,
            http=self.http,
            history=self.world.keep(store, self.files, self.settings),
            entropy=self.world.entropy,
        )
        self.engine.start()
        self.owner = self.engine.owner(self.answers.__setitem__)
        self.pump()
        self.world.turn.started(self)

    def _fatal(self, error: BaseException) -> None:
        self.failure = error

    def kill(self) -> None:
        """SIGKILL: what was written is still there."""
        self.world.turn.dies(self)
        self._killed()

    def _killed(self) -> None:
        self._die()
        self.files = self.files.kill()

    def power_cut(self) -> None:
        """Only what was synced is there."""
        self.world.turn.dies(self)
        self._die()
        self.files = next(iter(self.files.images()))

    crash = power_cut
    """The worst end that this kind of queue manager can come to."""

    def die_at(self, point: str, count: int = 1) -> None:
        """SIGKILL at that point (``onceq.testing.disk``)."""
        self.points.arm(point, count)

    def _reached(self) -> None:
        raise _Died

    def fail_disk(self) -> None:
        """The next sync fails."""
        self.files.fail = lambda kind, _: SyncFailed("planted") if kind == "sync" else None

    @property
    def dead(self) -> bool:
        """Whether it came to its end."""
        return self.engine is None

    def forget_streams(self) -> None:
        """It loses its table of streams (never allowed; the one hole of EOD-25)."""
        assert self.engine is not None
        self.engine.manager.state.progress.clear()

    def _die(self) -> None:
        self.engine = None
        for wire in list(self.world.wires):
            if self.identity.name in wire.names:
                wire.break_("the computer is gone")

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        life = self.life
        if protocol.startswith("HTTP"):
            self._connect_http(outgoing, host)
            return
        target = self.world.find(host, peer)

        def attempt() -> None:
            if self.engine is None or self.life != life:
                return
            name = host if host or target is None else target.identity.name
            foreign = self.world.foreigners.get(name.casefold())
            if foreign is not None:
                foreign.answer(self, outgoing)
                self.pump()
                return
            link = self.world.link(self.identity.name, target.identity.name) if target else None
            if target is None or target.engine is None or link is None or not link.up:
                self.engine.sessions.connect_failed(outgoing, f"{host or peer.hex()}: no answer")
            else:
                self.world.wires.append(_Wire(self.world, (self, target), link, outgoing))
                target.pump()
            self.pump()

        self.world.after(self.world.turn.latency_us, attempt)

    def _connect_http(self, outgoing: int, host: str) -> None:
        life, world = self.life, self.world

        def attempt() -> None:
            if self.engine is None or self.life != life:
                return
            dark = (self.identity.name, host.casefold()) in world.http_dark
            target = world.nodes.get(world.gateways.get(host.casefold(), host).upper())
            if dark or target is None or target.engine is None:
                self.engine.sessions.connect_failed(outgoing, f"{host}: no answer")
            else:
                world.wires.append(_HttpWire(world, (self, target), outgoing))
                target.pump()
            self.pump()

        world.after(world.turn.latency_us, attempt)

    def pump(self) -> None:
        if self.engine is None or self.engine.stopped:
            return
        try:
            while self.engine.pump():
                pass
        except _Died:
            self._killed()
            return
        if self.failure is not None:
            self._killed()  # as the process would end
            return
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

    def ask(self, request: Request) -> Any:
        """See Applications."""
        return self.ask_as(self.owner, next(self.numbers), self.answers, request)

    def stranger(self) -> InsideStranger:
        """Another application of this queue manager."""
        return InsideStranger(self)

    def ask_as(
        self, owner: int, number: int, answers: dict[int, object],
        request: Request,
    ) -> Any:  # fmt: skip
        """What an application asks; its answers come where it wants them."""
        engine = self.engine
        assert engine is not None
        request = self.world.turn.request(self, request)
        engine.submit(structs.replace(request, owner=owner, request=number))
        self.pump()
        while number not in answers and self.engine is engine and self.world.step():
            pass
        if self.engine is not engine:
            raise AnswerLost(f"{self.identity.name} died")
        result = answers.pop(number)
        if isinstance(result, OnceqError):
            raise result
        return self.world.turn.answered(self, request, result)


class World:
    """Several queue managers; one time, and a clock for each of them."""

    processes = False
    """Whether each of them is a process."""

    def __init__(self, *names: str, settings: Settings = FAST, directory: bool = False) -> None:
        """Make them.

        Args:
            directory: Whether they share a directory.
        """
        self.turn = (Turn if self.processes else chosen())(self)
        """What is turned in it (``turns.py``)."""
        directory = self.turn.with_directory(directory)
        self.directory = self.make_directory() if directory else None
        self.now_us = 1_000_000
        self.entropy = Random(1).randbytes
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.links: dict[frozenset[str], Link] = {}
        self.wires: list[Any] = []
        self.http: list[_HttpWire] = []
        """Every HTTP connection that there was."""
        self.foreigners: dict[str, Any] = {}
        """Hosts where somebody else answers now (``tests/conformance/foreign.py``)."""
        self.leads: dict[str, str] = {}
        """Names of managers under which another one answers now."""
        self.guids_known = True
        """Whether anybody says where a manager is that is named by its GUID."""
        self.gateways: dict[str, str] = {}
        """Hosts in front of managers: what is posted there goes to these."""
        self.http_dark: set[tuple[str, str]] = set()
        """Names of managers and hosts that they do not reach."""
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = itertools.count()
        self.populate(names)

    def make_directory(self) -> Directory:
        """An empty directory for all of them."""
        return MemoryDirectory()

    def directory_online(self, reachable: bool) -> None:
        """Let the directory be out of reach, or within it again; everybody notices."""
        assert isinstance(self.directory, MemoryDirectory)
        self.directory.online(reachable)
        self.run(2)

    def keep(self, store: LogStore, files: SimFiles, settings: Settings) -> History | None:
        """What writes the history of a manager; here nothing does."""
        return None

    def populate(self, names: tuple[str, ...]) -> None:
        """Make the queue managers, and start them."""
        for name in names:
            self.nodes[name] = Node(self, name, self.settings)

    def close(self) -> None:
        """Nothing more is wanted of it."""

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def link(self, one: str, other: str) -> Link:
        return self.links.setdefault(frozenset((one, other)), Link())

    def lead(self, name: str, to: str) -> None:
        """Another computer has the name of a manager from now on."""
        self.leads[name] = to

    def find(self, host: str, peer: bytes) -> Node | None:
        host = self.leads.get(host.upper(), host)
        for node in self.nodes.values():
            if not host and node.identity.guid == peer and self.guids_known:
                return node
            if host and host.upper() in (node.identity.name, node.address):
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
            if set(wire.names) == {one, other}:
                wire.break_("cable pulled")

    def mend(self, one: str, other: str) -> None:
        self.link(one, other).up = True


Worlds = Callable[..., World]
"""Makes a world of queue managers with these names; takes ``settings``
and ``directory``."""


def lookups(batch: Batch) -> array[int]:
    return batch.lookup_ids


def fast(**changes: Any) -> Settings:
    return replace(FAST, **changes)


def routed(worlds: Worlds, **changes: Any) -> tuple[World, str]:
    """A and B reach each other by R alone; and the name of a queue of B that is led through it.

    Args:
        changes: Of the settings of all three.
    """
    world = worlds("A", "R", "B", settings=fast(forward_messages=True, **changes))
    a, b = world["A"], world["B"]
    b.create("q")
    (queue,) = [q for q in b.look("queues") if q.name == "q"]
    for node, other in ((a, b), (b, a)):
        node.kill()
        node.routes[other.identity.guid] = "R"
        node.start()
    return world, f"PRIVATE={guid_text(b.identity.guid)}\\{queue.number:08x}"
