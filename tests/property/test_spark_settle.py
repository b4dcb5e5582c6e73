"""Arrivals and ends of the pipeline against those of the core: one message, every outcome."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np

from onceq.core import inputs, outgoing
from onceq.core.acknowledge import INSECURE
from onceq.core.chunk import AVAILABLE
from onceq.core.items import SendItem
from onceq.core.manager import Manager
from onceq.core.records import Change, decode
from onceq.core.state import DEAD_LETTER, DEAD_XACT, JOURNAL
from onceq.model.classes import MessageClass
from onceq.model.limits import Settings
from onceq.model.log import FRAME_HEADER
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet.acks import FinalAck, parse_final_ack
from onceq.packet.address import DIRECT, NOWHERE, Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import headers
from onceq.spark.operators import endings
from tests.unit.core.alone import IDENTITY, WALL_S, Core

SOURCE = b"s" * 16
QUEUES = {"t": (True, False), "tj": (True, True), "n": (False, False), "nj": (False, True)}


@dataclass(frozen=True)
class Case:
    """A message and what happens to it; times are seconds after it was sent."""

    queue: str
    transactional: bool
    arrives: int
    receive_at: int | None
    ends: int
    reach: int
    lifetime: int
    level: int
    admin: bool
    journal: int
    insecure: bool
    encrypted: bool


def drawn(rng: random.Random) -> Case:
    arrives = rng.choice((-3, 0, 1, 5, 6))
    later = max(arrives, 0)
    return Case(
        queue=rng.choice((*QUEUES, *QUEUES, "none")),
        transactional=rng.random() < 0.6,
        arrives=arrives,
        receive_at=later + rng.randint(0, 8) if rng.random() < 0.5 else None,
        ends=later + rng.randint(8, 12),
        reach=rng.choice((0, 5, NEVER_S, NEVER_S - 1)),
        lifetime=rng.choice((0, 5, 8, NEVER_S, NEVER_S - 1)),
        level=rng.randint(0, 15),
        admin=rng.random() < 0.8,
        journal=rng.randint(0, 3),
        insecure=rng.random() < 0.8,
        encrypted=rng.random() < 0.15,
    )


class World(Core):
    """Manager A with a queue of each kind, and one for acknowledgments."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__()

    def __post_init__(self) -> None:
        self.manager = Manager(IDENTITY, self.settings)
        self.kept(self.manager.recover(self.now(), None, [], 0))
        for name, (ordered, journal) in {**QUEUES, "adm": (False, False)}.items():
            made = QueueProperties(name, transactional=ordered, journal=journal)
            self.ask(
                lambda o, r, p=made: inputs.CreateQueue(o, r, p, p.name.encode().ljust(16))  # type: ignore[misc]
            )
        self.step(inputs.SessionOpened(1, SOURCE, "10.0.0.2", 0))

    def until(self, wall_s: int) -> None:
        self.now_us = max((wall_s - WALL_S) * 1_000_000, self.now_us)
        self.step(inputs.Tick())

    def held(self, number: int) -> int:
        holder = self.manager.state.holders[number]
        return sum(c for lane in holder.lanes.values() for _, c in lane.ranges(AVAILABLE, 0))

    def pay(self) -> None:
        """Acknowledgments of ends are made from the packets of what has ended."""
        found = self.manager.owed(1 << 20)
        if found is None:
            return
        data = b""
        for extent in found.extents:
            position, payload = max(
                (r for r in self.records if r[0] < extent.address), key=lambda r: r[0]
            )
            at = extent.address - position - FRAME_HEADER
            data += bytes(payload[at : at + extent.size])
        self.step(inputs.Compose(found.counters, Run(data, found.lengths)))

    def told(self) -> tuple[list[int], list[int]]:
        """Classes of all acknowledgment messages, and of all final acknowledgments."""
        state = self.manager.state
        adm = state.queues["private$\\adm"].number
        ours, finals = [], []
        for _, payload in self.records:
            record = decode(payload)
            if isinstance(record, tuple) and isinstance(record[0], Change):
                for put in record[0].puts:
                    for packet in put.packets:
                        if put.holder == adm:
                            ours.append(headers(packet).properties.message_class)
                        elif state.holders[put.holder] in state.outgoing.values():
                            finals.append(int(parse_final_ack(packet).message_class))
        return ours, finals


def by_core(case: Case) -> dict[str, Any]:
    """What becomes of it in a queue manager."""
    world = World(Settings(permit_insecure_nacks=case.insecure))
    sent_s = WALL_S + 100
    properties = Properties(
        acknowledge=Acknowledge(case.level), journal=Journal(case.journal),
        delivery=Delivery.RECOVERABLE, time_to_reach_queue=case.reach,
        time_to_be_received=case.lifetime,
    )  # fmt: skip
    made = template(
        source=SOURCE, destination=Address(DIRECT, direct=f"OS:A\\private$\\{case.queue}"),
        admin=Address(DIRECT, direct=r"OS:A\private$\adm") if case.admin else NOWHERE,
        properties=properties, sent_time=sent_s, transactional=case.transactional,
    )  # fmt: skip
    stream = 1 if case.transactional else 0
    packets = encode_run(
        made, Run.of([b"x"]), first_message=1, stream=stream, first_number=1, first=True, last=True
    )
    world.until(sent_s + case.arrives)
    for run in cut(packets.data, array("I", packets.lengths)):
        world.step(inputs.Arrived(1, replace(run, encrypted=case.encrypted)))
    world.until(sent_s + case.arrives)
    name = f"private$\\{case.queue}"
    received = False
    if case.receive_at is not None and case.queue != "none":
        world.until(sent_s + case.receive_at)
        answer = world.ask(lambda o, r: inputs.Receive(o, r, name, 0, 1))
        received = hasattr(answer, "lengths")
    world.until(sent_s + case.ends)
    world.pay()
    ours, finals = world.told()
    state = world.manager.state
    queue = state.queues.get(name)
    journal = queue.journal if queue is not None else None
    return {
        "told": Counter(ours), "final": finals, "received": received,
        "waiting": 0 if queue is None else world.held(queue.number),
        "at_source": at_source(case.journal, finals),
        "dead_here": world.held(DEAD_LETTER),
        "dead_ordered_here": world.held(DEAD_XACT),
        "journal_here": 0 if journal is None else world.held(journal.number),
    }  # fmt: skip


def at_source(journal: int, finals: list[int]) -> tuple[int, int]:
    """Dead letters and journal copies that the sender's manager keeps when it hears of the end."""
    if not finals:
        return 0, 0
    core = Core()
    item = SendItem(r"DIRECT=OS:B\private$\q", Properties(journal=Journal(journal)), Run.of([b"x"]))
    core.ask(lambda o, r: inputs.Commit(o, r, 0, (item,)))
    state = core.manager.state
    (far,) = state.outgoing.values()
    ack = FinalAck(b"B" * 16, finals[0], far.stream, 1, 0, IDENTITY.guid, 1)
    outgoing.final_acked(core.manager._desk, ack)
    return len(state.holders[DEAD_XACT]), len(state.holders[JOURNAL])


def by_rule(case: Case) -> dict[str, Any]:
    """What the rule says of it."""
    sent = 1_000
    ordered, journaled = QUEUES.get(case.queue, (False, False))

    def one(value: Any) -> Any:
        return np.array([value])

    received = endings.NOT_YET if case.receive_at is None else sent + case.receive_at
    found = endings.settle(
        endings.Messages(
            transactional=one(case.transactional), encrypted=one(case.encrypted), sent=one(sent),
            arrived=one(sent + case.arrives), received=one(received), reach=one(case.reach),
            receive=one(case.lifetime), level=one(case.level if case.admin else 0),
            journal=one(case.journal), known=one(case.queue != "none"), ordered=one(ordered),
            journaled=one(journaled),
        ),
        one(sent + case.ends),
        permit_insecure_nacks=case.insecure,
    )  # fmt: skip
    told = [int(c) for c in (found.told_arrival[0], found.told_end[0]) if c]
    (result,) = found.classes
    return {
        "told": Counter(told), "final": [int(c) for c in found.final if c],
        "received": result == MessageClass.ACK_RECEIVE,
        "waiting": int(result == MessageClass.ACK_REACH_QUEUE),
        "at_source": (int(found.dead_at_source[0]), int(found.journal_at_source[0])),
        "dead_here": int(found.dead_here[0]),
        "dead_ordered_here": int(found.dead_ordered_here[0]),
        "journal_here": int(found.journal_here[0]),
    }  # fmt: skip


def test_arrivals_and_ends_of_all_kinds() -> None:
    rng = random.Random(31)
    classes: Counter[int] = Counter()
    for _ in range(1_000):
        case = drawn(rng)
        theirs, ours = by_core(case), by_rule(case)
        assert ours == theirs, case
        classes.update(theirs["told"])
        classes.update(theirs["final"])
    assert set(classes) >= {0x0002, 0x4000, 0x8000, 0x8002, 0x8007, 0x8009, 0x800A, 0xC002}


def test_the_classes_that_may_be_kept_from_strangers_are_those_of_the_core() -> None:
    assert frozenset(endings.INSECURE) == INSECURE
