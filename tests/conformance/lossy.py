"""Two managers with a link between them that loses messages, or one and somebody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.step.connections import EarlyRuns
from onceq.packet.acks import OrderAck, order_ack, parse_order_ack
from onceq.packet.arrived import USER
from onceq.testing.links import Passing, faithful
from tests.conformance.clocks import START_S
from tests.conformance.foreign import Foreign
from tests.conformance.world import World, Worlds, fast

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
DEAD = "SYSTEM$;DEADXACT"
S = 1_000_000
MANY = 2_000
FOREIGN = {"settle_doubts": False}
"""No session of such managers is marked: each is foreign to the other."""
STRANGERS = pytest.mark.inside("a stranger's packets are made in the test")


def made(worlds: Worlds, **changes: Any) -> World:
    world = worlds("A", "B", settings=fast(**changes))
    world["B"].create("q")
    return world


def bodies(count: int, start: int = 1) -> list[bytes]:
    return [b"%d" % n for n in range(start, start + count)]


def send(world: World, count: int) -> None:
    for start in range(1, count + 1, 500):
        world["A"].once(Q, *bodies(min(500, count + 1 - start), start))


def losing(*numbers: int, times: int = 1) -> Callable[[Passing], list[tuple[int, Passing]]]:
    """These messages are lost, so often."""
    left = Counter(dict.fromkeys(numbers, times))

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == USER and p.transactional and left[p.number]:
            left[p.number] -= 1
            return []
        return faithful(p)

    return policy


def times(world: World) -> Counter[int]:
    """How often each message was transmitted."""
    return Counter(p.number for p in world.link("A", "B").data())


def again(world: World) -> dict[int, int]:
    """What was transmitted more than once, and how often."""
    return {number: count for number, count in times(world).items() if count > 1}


def acks(world: World) -> list[OrderAck]:
    return [parse_order_ack(p.packet) for p in world.link("A", "B").order_acks()]


def early(world: World, name: str = "B") -> EarlyRuns:
    return world[name].running.manager._step.sessions.early


def waiting(world: World) -> int:
    return int(world["A"].look("outgoing-queue", Q).messages)


class Peer:
    """B is somebody else, who says what a test wants."""

    def __init__(self, world: World, *, count: int = 10) -> None:
        self.world = world
        self.other = Foreign(world, world["B"].identity.guid, address=world["B"].address)
        world.foreigners["b"] = self.other
        world["A"].once(Q, *bodies(count))
        world.run(0.1)
        self.stream = self.other.runs[-1].stream

    def said(self, number: int, hole: tuple[int, int] | None, *, stream: int = 0) -> list[int]:
        """It acknowledges; what A transmits then."""
        before = len(self.other.runs)
        self.other.say(order_ack(
            own=self.other.guid, own_message=1 << 31, stream=stream or self.stream, number=number,
            sent_time=START_S, address="", destination_manager=self.world["A"].identity.guid,
            hole=hole,
        ))  # fmt: skip
        return [
            run.first_number + at
            for run in self.other.runs[before:] if run.transactional
            for at in range(len(run.packets))
        ]  # fmt: skip
