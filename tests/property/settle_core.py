"""Messages that arrive at a queue manager's core, and what it makes of each of them."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache

from onceq.core import inputs
from onceq.core.decision import Handed
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import DEAD_LETTER, DEAD_XACT, JOURNAL
from onceq.core.state.records import Change, decode
from onceq.core.transfer import outgoing_queue
from onceq.model import requests
from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB, QueueProperties
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.acks import FinalAck, parse_final_ack
from onceq.packet.address import DIRECT, NOWHERE, Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import headers
from tests.unit.core.alone import IDENTITY, WALL_S, Core

SECOND_US = 1_000_000
SOURCE = b"s" * 16
QUEUES = {
    "t": (True, False), "tj": (True, True), "n": (False, False), "nj": (False, True),
    "admin_queue$": (True, True),
}  # fmt: skip
"""Whether they are transactional, and whether they keep a journal."""


@dataclass
class Case:
    """A message and what happens to it; times are microseconds after WALL_S, lifetimes seconds."""

    queue: str
    transactional: bool
    sent_s: int
    arrives: int
    received: int | None
    reach: int
    lifetime: int
    level: int
    admin: bool
    journal: int
    encrypted: bool
    body: int
    size: int = 0
    """Bytes of its packet, when it was made."""
    claimed: int | None = None
    """When a row says that it was received, if not when it was."""
    told: list[int] = field(default_factory=list)
    final: list[int] = field(default_factory=list)
    where: set[str] = field(default_factory=set)


def drawn(rng: random.Random, arrives: int) -> Case:
    """Any message; most are of the kind that their queue takes."""
    queue = rng.choice((*QUEUES, *QUEUES, "none", "notify_queue$"))
    ordered, _ = QUEUES.get(queue, (True, False))
    return Case(
        queue=queue,
        transactional=ordered ^ (rng.random() < 0.15),
        sent_s=arrives // SECOND_US - rng.choice((-3, 0, 1, 5, 6)),
        arrives=arrives,
        received=None,
        reach=rng.choice((0, 5, NEVER_S, NEVER_S - 1)),
        lifetime=rng.choice((0, 5, 8, 20, NEVER_S, NEVER_S, NEVER_S - 1)),
        level=rng.randint(0, 15),
        admin=rng.random() < 0.8,
        journal=rng.randint(0, 3),
        encrypted=rng.random() < 0.1,
        body=rng.randint(0, 600),
    )


class World(Core):
    """Manager A with a queue of each kind, and one for acknowledgments."""

    def __init__(self, settings: Settings, quotas_kb: dict[str, int] | None = None) -> None:
        self.quotas_kb = quotas_kb or {}
        self.streams: dict[str, int] = defaultdict(int)
        super().__init__(settings=settings)

    def __post_init__(self) -> None:
        self.manager = Manager(IDENTITY, self.settings)
        self.kept(self.manager.recover(self.now(), None, [], 0, entropy=bytes(ENTROPY_BYTES)))
        for name, (ordered, journal) in {**QUEUES, "adm": (False, False)}.items():
            quota_kb = self.quotas_kb.get(name, QUOTA_UNLIMITED_KB)
            made = QueueProperties(name, transactional=ordered, journal=journal, quota_kb=quota_kb)
            self.ask(requests.CreateQueue(properties=made, instance=made.name.encode().ljust(16)))
        self.step(inputs.SessionOpened(1, SOURCE, "10.0.0.2", 0))

    def until(self, at_us: int) -> None:
        """Time passes; what is due then has happened."""
        self.now_us = max(at_us, self.now_us)
        self.step(inputs.Tick())

    def arrive(self, case: Case, message: int) -> None:
        """The message ``message`` of the sender comes, alone, and next in its stream."""
        made = template(
            source=SOURCE, destination=Address(DIRECT, direct=f"OS:A\\private$\\{case.queue}"),
            admin=Address(DIRECT, direct=r"OS:A\private$\adm") if case.admin else NOWHERE,
            properties=Properties(
                acknowledge=Acknowledge(case.level), journal=Journal(case.journal),
                delivery=Delivery.RECOVERABLE, time_to_reach_queue=case.reach,
                time_to_be_received=case.lifetime,
            ),
            sent_time=WALL_S + case.sent_s, transactional=case.transactional,
        )  # fmt: skip
        stream = number = 0
        if case.transactional:
            stream = 1
            self.streams[case.queue] += 1
            number = self.streams[case.queue]
        packets = encode_run(
            made, Run.of([bytes(case.body)]), first_message=message, stream=stream,
            first_number=number, first=True, last=True,
        )  # fmt: skip
        case.size = sum(packets.lengths)
        for run in cut(packets.data, array("I", packets.lengths)):
            self.step(inputs.Arrived(1, replace(run, encrypted=case.encrypted)))

    def receive(self, queue: str) -> int:
        """Take the first message of a queue; 0 if there is none."""
        answer = self.ask(requests.Receive(f"private$\\{queue}", 0, 1))
        if not isinstance(answer, Handed):
            return 0
        return headers(self.bytes_of(answer.pieces)).user.message

    def pay(self) -> None:
        """Acknowledgments of ends are made from the packets of what has ended."""
        while (found := self.manager.owed(1 << 20)) is not None:
            data = self.bytes_of(found.extents)
            self.step(inputs.Compose(found.lane, found.counters, Run(data, found.lengths)))

    def in_queue(self, number: int) -> list[int]:
        """The numbers of the sender's messages that lie in a queue."""
        return [
            headers(self.bytes_of(lane.extents(at, 1))).user.message
            for lane in self.manager.state.all_queues[number].lanes.values()
            for first, count in lane.ranges(AVAILABLE, 0)
            for at in range(first, first + count)
        ]

    def told(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Message and class of all acknowledgment messages, and of all final acknowledgments."""
        state = self.manager.state
        adm = state.queues["private$\\adm"].number
        ours, finals = [], []
        for _, payload in self.records:
            record = decode(payload, 0)
            if not isinstance(record, tuple) or not isinstance(record[0], Change):
                continue
            for put in record[0].puts:
                for packet in put.packets:
                    if put.queue == adm:
                        made = headers(packet).properties
                        original = int.from_bytes(made.correlation[16:], "little")
                        ours.append((original, made.message_class))
                    elif state.all_queues[put.queue] in state.outgoing.values():
                        ack = parse_final_ack(packet)
                        finals.append((ack.message, int(ack.message_class)))
        return ours, finals


def happen(world: World, cases: list[Case], receives: list[tuple[int, str]], ends: int) -> None:
    """Let messages arrive and be received, and write into each case what became of it.

    Args:
        cases: In the order of arrival.
        receives: When the first message of which queue is received; cases learn when they were.
        ends: When to look.
    """
    events = [(case.arrives, 0, n) for n, case in enumerate(cases, 1)]
    events += [(at, 1, n) for n, (at, _) in enumerate(receives)]
    for at, kind, n in sorted(events):
        world.until(at)
        if kind == 0:
            world.arrive(cases[n - 1], n)
        elif message := world.receive(receives[n][1]):
            cases[message - 1].received = at
    world.until(ends)
    world.pay()
    ours, finals = world.told()
    for message, reason in ours:
        cases[message - 1].told.append(reason)
    for message, reason in finals:
        cases[message - 1].final.append(reason)
    state = world.manager.state
    places = {"dead here": [DEAD_LETTER], "dead ordered here": [DEAD_XACT]}
    queues = [state.queues[f"private$\\{name}"] for name in QUEUES]
    places["waiting"] = [queue.number for queue in queues]
    places["journal here"] = [queue.journal.number for queue in queues if queue.journal]
    for what, numbers in places.items():
        for number in numbers:
            for message in world.in_queue(number):
                cases[message - 1].where.add(what)


def at_source(case: Case, settings: Settings) -> frozenset[str]:
    """What the sender's manager keeps when it hears of the end."""
    if not case.final:
        return frozenset()
    (reason,) = case.final
    return _at_source(case.queue, case.journal, reason, settings.quiet_system_queues)


@cache
def _at_source(queue: str, journal: int, reason: int, quiet: bool) -> frozenset[str]:
    core = Core()
    core.manager = Manager(IDENTITY, Settings(quiet_system_queues=quiet, xact_dead_letter="asked"))
    core.kept(core.manager.recover(core.now(), None, [], 0, entropy=bytes(ENTROPY_BYTES)))
    name = rf"DIRECT=OS:B\private$\{queue}"
    item = SendItem(name, Properties(journal=Journal(journal)), Run.of([b"x"]))
    core.ask(requests.Commit(0, (item,)))
    state = core.manager.state
    (far,) = state.outgoing.values()
    ack = FinalAck(b"B" * 16, reason, far.stream, 1, 0, IDENTITY.guid, 1)
    outgoing_queue.final_acked(core.manager._step, ack)
    held = {"dead at source": DEAD_XACT, "journal at source": JOURNAL}
    return frozenset(what for what, number in held.items() if len(state.all_queues[number]))
