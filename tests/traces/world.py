"""The queue managers of a trace, the sessions between them, and the packets under way.

Nothing travels by itself: what a manager transmits stands in the link until a command delivers,
drops or doubles it. So a trace says everything that happens. The order between records and actions
is the core's: whatever a step decides is on record before any action of it is performed.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from onceq.core import inputs
from onceq.core.decision import (
    CloseSession,
    Connect,
    Decision,
    Declined,
    Persisted,
    Ready,
    Transmit,
)
from onceq.core.inputs import PutBack
from onceq.model.identity import NO_GUID, Identity
from onceq.model.run import LENGTH_TYPE
from onceq.model.settings import Settings
from onceq.packet.address import packet_size
from onceq.packet.arrived import ORDER_ACK, SETTLING, cut
from onceq.packet.decode import set_places, set_previous
from tests.traces import telling
from tests.traces.http_link import HttpLink
from tests.traces.names import Names
from tests.traces.node import Node
from tests.unit.core.alone import WALL_S

ROOM = 1_000
"""Messages that a session takes: flow control is not the core's."""
ROOM_BYTES = 1 << 20
Link = tuple[str, str]


@dataclass
class UnderWay:
    """A packet of a session, or (``packet`` empty) the counts of a session acknowledgment.

    Over HTTP ``data`` is the request that has the packet, or the answer to one.
    """

    session: int
    packet: bytes = b""
    messages: int = 0
    recoverable: int = 0
    data: bytes = b""


class World:
    """See the module. ``lines`` takes what there is to be told."""

    def __init__(self) -> None:
        self.names = Names()
        self.nodes: dict[str, Node] = {}
        self.under_way: dict[Link, list[UnderWay]] = defaultdict(list)
        self.now_us = 1_000_000
        self.lines: list[str] = []
        self.numbers = itertools.count(1)
        self.http: dict[int, HttpLink] = {}
        self.attempts: dict[tuple[str, str], bytes] = {}
        """Identifiers of branches of groups, by manager and name."""
        self.saved: dict[str, tuple[list[Any], list[int], int]] = {}

    def say(self, text: str) -> None:
        """A line of the trace."""
        self.lines.append(self.names.short(text))

    def add(self, name: str, settings: dict[str, Any]) -> Node:
        """A queue manager that was never started."""
        guid = name.encode().ljust(16, b"\1")
        node = Node(
            name,
            self.names,
            Settings(history=True, **settings),
            Identity(guid, name, WALL_S - 1_000),
        )
        self.nodes[name] = node
        self.names.managers[guid] = name
        self.names.addresses[self.address(name)] = name
        return node

    def address(self, name: str) -> str:
        """The address of a manager's computer."""
        return f"10.0.0.{list(self.nodes).index(name) + 1}"

    # ---- steps ----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start the process of a manager."""
        node = self.nodes[name]
        node.now_us = self.now_us
        self.tell(node, node.start())
        self.settle(node)

    def happen(self, name: str, item: inputs.Input) -> None:
        """Something happens to a manager, and what follows from that at once."""
        node = self.nodes[name]
        if not node.alive:
            raise ValueError(f"{name} does not run")
        self.tell(node, node.decide(item))
        self.settle(node)

    def settle(self, node: Node) -> None:
        """Acknowledgments that are owed are made, as the engine does at the end of a pump."""
        while (owed := node.owed()) is not None:
            self.tell(node, node.decide(owed))

    def tell(self, node: Node, decision: Decision) -> None:
        """Write down a decision, and perform its actions."""
        for record in decision.records:
            head, *parts = telling.records(node, self.names, record.payload, record.position)
            self.say(f"{node.name} records {head}" + ("" if record.forced else ", not forced"))
            for part in parts:
                self.say(f"    {part}")
        node.look()
        rooms = []
        for action in decision.actions:
            line = telling.action(node, self.names, action)
            if line:
                self.say(f"{node.name} {line}")
            if isinstance(action, Ready):
                rooms.append(action.session)
            else:
                self.perform(node, action)
        for session in rooms:
            if session in node.sessions:
                self.tell(node, node.decide(inputs.Room(session, ROOM, ROOM_BYTES)))

    def perform(self, node: Node, action: object) -> None:
        """What the engine would do."""
        if isinstance(action, Connect):
            node.urls[action.outgoing] = action.url
            node.wanted[(action.host or self.names.manager(action.peer)).upper()] = action.outgoing
        elif isinstance(action, Persisted):
            node.durable[action.session] += action.recoverable
            if action.session in self.http:
                self.http[action.session].taking.persisted(action.recoverable, self.now_us)
        elif isinstance(action, Declined):
            self.http[action.session].taking.declined(action.status, action.reason)
        elif isinstance(action, Transmit):
            self.transmit(node, action)
        elif isinstance(action, CloseSession):
            self.end(action.session, action.reason)

    def transmit(self, node: Node, action: Transmit) -> None:
        """Packets leave, with the previous numbers that hold now."""
        data = bytearray(node.bytes_of_pieces(action.pieces))
        for at, previous in action.relink:
            set_previous(data, at, packet_size(data, at), previous)
        for at, count, stream, number, previous in action.renumber:
            set_places(data, at, count, stream, number, previous)
        at, link = 0, (node.name, node.peer(action.session))
        while at < len(data):
            packet = bytes(data[at : at + packet_size(data, at)])
            at += len(packet)
            if action.session in self.http:
                self.http[action.session].send(packet)
                self._posted(self.http[action.session])
                continue
            self.under_way[link].append(UnderWay(action.session, packet))
            self.say(f"{node.name} transmits to {link[1]}: {self.names.packet(packet)}")

    # ---- links ----------------------------------------------------------------------------

    def connect(self, one: str, other: str, *, extended: bool = True) -> None:
        """Open a session, for the outgoing queue that asked for one if there is such a queue."""
        number = next(self.numbers)
        nodes = (self.nodes[one], self.nodes[other])
        for node, peer in (nodes, nodes[::-1]):
            node.sessions[number] = peer.name
            node.received[number] = node.durable[number] = 0
        wanted = nodes[0].wanted.pop(nodes[1].identity.name, 0)
        if url := nodes[0].urls.pop(wanted, ""):
            self.http[number] = HttpLink(number, *nodes, url)
            address = self.address(other)
            self.happen(one, inputs.SessionOpened(number, NO_GUID, address, wanted, http=True))
            return
        for node, peer, outgoing in ((*nodes, wanted), (*nodes[::-1], 0)):
            life, stamp, *_ = peer.manager.life
            if number in node.sessions:
                self.happen(
                    node.name,
                    inputs.SessionOpened(
                        number, peer.identity.guid, self.address(peer.name), outgoing, extended,
                        life=life if extended else b"", stamp=stamp if extended else 0,
                    ),
                )  # fmt: skip

    def end(self, session: int, reason: str, *, told: bool = True) -> None:
        """A session is over at both ends; what was under way on it is lost."""
        ends = [node for node in self.nodes.values() if session in node.sessions]
        for packets in self.under_way.values():
            packets[:] = [one for one in packets if one.session != session]
        for node in ends:
            del node.sessions[session]
        for node in ends:
            if node.alive and told:
                self.happen(node.name, inputs.SessionClosed(session, reason))

    def sessions(self, one: str, other: str) -> list[int]:
        """The sessions between two managers."""
        return [number for number, peer in self.nodes[one].sessions.items() if peer == other]

    def deliver(self, link: Link, count: int) -> None:
        """What is under way arrives: consecutive packets of one session as one run."""
        waiting = self.under_way[link]
        arriving, waiting[:] = waiting[:count], waiting[count:]
        if not arriving:
            raise ValueError(f"nothing is under way from {link[0]} to {link[1]}")
        for session, group in itertools.groupby(arriving, key=lambda one: one.session):
            if session in self.http:
                for one in group:
                    self._http(link, self.http[session], one.data)
            else:
                self._arrive(link, session, list(group))

    def _http(self, way: Link, link: HttpLink, data: bytes) -> None:
        """A request or an answer arrives; what is to be answered, or comes next, is under way."""
        for item in link.inputs(way[1], data, self.address(way[0])):
            self.happen(way[1], item)
        answer = link.answered()
        if answer:
            self.under_way[way[1], way[0]].append(UnderWay(link.number, data=answer))
            status = answer.split(b" ", 2)[1].decode()
            self.say(f"{way[1]} transmits to {way[0]}: answer {status}")
        self._posted(link)

    def _posted(self, link: HttpLink) -> None:
        """The next request of a connection is under way, if its turn has come."""
        found = link.posted()
        if found is not None:
            one, other = link.one.name, link.other.name
            self.under_way[one, other].append(UnderWay(link.number, found[0], data=found[1]))
            self.say(f"{one} posts to {other}: {self.names.packet(found[0])}")

    def _arrive(self, link: Link, session: int, group: list[UnderWay]) -> None:
        node = self.nodes[link[1]]
        plain = False
        for counts, part in itertools.groupby(group, key=lambda one: not one.packet):
            if counts:
                for one in part:
                    acked = inputs.SessionAcked(session, one.messages, one.recoverable)
                    self.happen(node.name, acked)
                continue
            packets = [one.packet for one in part]
            for run in cut(b"".join(packets), array(LENGTH_TYPE, map(len, packets))):
                node.received[session] += len(run.packets)
                plain = plain or not (run.transactional or run.kind in (ORDER_ACK, SETTLING))
                self.happen(node.name, inputs.Arrived(session, run))
        if plain and session in node.sessions:
            back = (link[1], link[0])
            counted = UnderWay(
                session, b"", node.received[session], min(node.durable[session], 1 << 30)
            )
            self.under_way[back].append(counted)
            self.say(
                f"{node.name} transmits to {link[0]}: session acknowledgment, "
                f"{counted.messages} received, {counted.recoverable} durable"
            )

    # ---- processes and time ---------------------------------------------------------------

    def crash(self, name: str) -> None:
        """The power is gone: what no sync has forced is lost."""
        node = self.nodes[name]
        node.alive = False
        node.wanted.clear()
        lost = node.lose_unforced()
        if lost:
            self.say(f"{name} loses {lost} record{'s' if lost > 1 else ''} that nothing had forced")
        for session in list(node.sessions):
            self.end(session, "the computer is gone")

    def pass_time(self, seconds: float) -> None:
        """Time passes; whoever has set a timer acts when it is due."""
        end = self.now_us + round(seconds * 1_000_000)
        while True:
            due = [
                (max(at, self.now_us), name)
                for name, node in self.nodes.items()
                if node.alive and (at := node.manager.next_timer()) is not None and at <= end
            ]
            if not due:
                break
            at, name = min(due)
            if at == self.now_us and not self._ring(name):
                at += 1_000  # a timer whose reason is over
            self._until(at)
        self._until(end)

    def _ring(self, name: str) -> bool:
        """Let a manager look at the time; whether its next timer is another one."""
        node = self.nodes[name]
        before = node.manager.next_timer()
        said = len(self.lines)
        self.happen(name, inputs.Tick())
        if len(self.lines) > said:
            seconds = f"{self.now_us / 1_000_000 - 1:.3f}".rstrip("0").rstrip(".")
            self.lines.insert(said, f"at {seconds} s")
        return node.manager.next_timer() != before

    def _until(self, at_us: int) -> None:
        self.now_us = at_us
        for node in self.nodes.values():
            node.now_us = at_us

    # ---- copies of a store ----------------------------------------------------------------

    def save(self, name: str) -> None:
        """A backup: all records as they are now."""
        node = self.nodes[name]
        self.saved[name] = (list(node.records), list(node.ends), self.now_us)

    def put_back(self, name: str) -> None:
        """The store is put back from its backup; the process must have ended."""
        node = self.nodes[name]
        records, ends, taken_us = self.saved[name]
        node.records, node.ends, node.forced = list(records), list(ends), len(records)
        node.known.clear()
        taken_s = WALL_S + taken_us // 1_000_000
        node.now_us = self.now_us
        self.tell(node, node.start())
        request = PutBack(1, 1, taken_s, ends[-1] if ends else 0)
        self.happen(name, request)

    def copy(self, name: str, other: str) -> None:
        """A second process starts from a copy of a manager's store."""
        node = self.nodes[name]
        twin = Node(other, self.names, replace(node.settings), node.identity)
        twin.records, twin.ends, twin.forced = list(node.records), list(node.ends), node.forced
        twin.lives, twin.made_ns, twin.now_us = node.lives + 100, 2, self.now_us
        self.nodes[other] = twin
        self.start(other)
