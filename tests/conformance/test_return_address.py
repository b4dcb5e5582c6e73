"""Where acknowledgments between managers are addressed to (EOD-35)."""

from __future__ import annotations

import pytest

from onceq.model.identity import guid_text
from onceq.model.message import Journal
from onceq.packet.address import DIRECT, ON_DESTINATION
from onceq.testing.links import Passing
from tests.conformance.world import World, Worlds

pytestmark = pytest.mark.unturned(
    "public", "private", reason="it is about where acknowledgments of direct names go"
)

DIRECTLY = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    return world


def final_acks(world: World) -> list[Passing]:
    return [p for p in world.link("A", "B").seen if p.kind == 2]


def send_and_receive(world: World, destination: str) -> None:
    world["A"].once(destination, b"m", journal=Journal.DEADLETTER)
    world.run(3)
    assert len(world["B"].receive(LOCAL)) == 1
    world.run(3)


def test_final_acknowledgments_of_directly_addressed_messages(world: World) -> None:
    send_and_receive(world, DIRECTLY)
    (ack,) = final_acks(world)
    assert ack.run.destination.kind == DIRECT
    assert ack.run.destination.direct == f"TCP:{world['A'].address}\\PRIVATE$\\order_queue$"
    assert ack.run.destination_manager == bytes(16)
    assert world["A"].look("outgoing-queue", DIRECTLY).messages == 0


def test_refusals_of_directly_addressed_messages(world: World) -> None:
    world["A"].once(r"DIRECT=OS:B\private$\missing", b"m", journal=Journal.DEADLETTER)
    world.run(3)
    (ack,) = final_acks(world)
    assert ack.run.destination.direct == f"TCP:{world['A'].address}\\PRIVATE$\\order_queue$"
    assert len(world["A"].messages("SYSTEM$;DEADXACT")) == 1


@pytest.mark.unturned("directory", reason="names of one queue are joined there")
@pytest.mark.inside("the address of a private queue is known without an address book")
def test_acknowledgments_of_messages_addressed_by_identity(world: World) -> None:
    (queue,) = [v for v in world["B"].look("queues") if v.path.endswith("\\q")]
    name = f"PRIVATE={guid_text(world['B'].identity.guid)}\\{queue.number:08x}"
    send_and_receive(world, DIRECTLY)
    world.link("A", "B").seen.clear()
    send_and_receive(world, name)
    acks = final_acks(world) + world.link("A", "B").order_acks()
    assert len(acks) >= 2
    for ack in acks:
        assert (ack.run.destination.kind, ack.run.destination.number) == (ON_DESTINATION, 4)
        assert ack.run.destination_manager == world["A"].identity.guid
