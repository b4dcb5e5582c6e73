"""A refusal of a message that had left before: it may have been delivered then (finding D7).

Over HTTP whoever takes a connection answers, and 400 is for good (HTTP-9). But the answer is about
this post. Of one before it, whose answer or receipt was lost, it says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.model.http import Mappings
from onceq.model.message import Delivery, Journal
from tests.conformance.over_http import (
    DEAD,
    DEAD_PLAIN,
    GATE,
    LOCAL,
    PLAIN,
    answers,
    behind_a_gateway,
    outgoing,
    pair,
    posts,
)
from tests.conformance.world import Node, World, Worlds, fast

pytestmark = [
    pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py"),
    pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do"),
]
IN_DOUBT, NO_QUEUE = 0xC003, 0x8000


@pytest.fixture
def world(worlds: Worlds) -> World:
    return pair(worlds)


def found(node: Node, queue: str = DEAD) -> dict[bytes, tuple[int, int]]:
    """Dead letters: class, and why the wait for them has ended."""
    try:
        return {m.body: (m.message_class, m.note) for m in node.messages(queue)}
    except TimeoutError:
        return {}


def no_receipt(world: World) -> None:
    """B has m by the address of its gateway, and A hears no receipt."""
    behind_a_gateway(world, mapped=False)
    world["A"].once(GATE, b"m", journal=Journal.DEADLETTER)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert answers(world) == [200]


def on_its_way(world: World) -> None:
    """What was said last arrives, and its answer does not."""
    world.run(1.5 * world.turn.latency_us / 1e6)


def unmapped(node: Node) -> None:
    """Its mapping file is changed: it does not know the address of the gateway any more."""
    node.http = replace(node.http, mappings=Mappings())
    node.running.http = node.http


@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_a_repetition_is_known_whatever_its_address_leads_to(world: World, how: str) -> None:
    a, b = world["A"], world["B"]
    no_receipt(world)
    unmapped(b)
    if how != "none":
        getattr(b, how)()
        b.start()
    world.run(100)
    assert set(answers(world)) == {200}
    assert len(answers(world)) > 1
    a.once(GATE, b"other", journal=Journal.DEADLETTER)
    world.run(100)
    assert answers(world)[-1] == 400, "what is new is refused"
    assert found(a) == {b"other": (NO_QUEUE, 0)}
    assert b.bodies(LOCAL) == [b"m"]


@pytest.mark.parametrize("how", ["none", "kill", "crash"])
def test_a_refused_repetition_is_in_doubt(worlds: Worlds, how: str) -> None:
    """Somebody else takes the connection, and does not know the queue."""
    world = worlds("A", "B", "C", settings=fast(connect_retry_s=1.0))
    world["B"].create("q")
    a, b = world["A"], world["B"]
    no_receipt(world)
    world.gateways["gate"] = "C"
    for wire in list(world.wires):
        wire.break_("cable pulled")
    if how != "none":
        getattr(a, how)()
        a.start()
    world.run(100)
    assert answers(world)[-1] == 400
    assert found(a) == {b"m": (IN_DOUBT, NO_QUEUE)}
    assert outgoing(a, GATE).messages == 0
    # Later messages go on, where the address leads to B again.
    behind_a_gateway(world, mapped=True)
    for wire in list(world.wires):
        wire.break_("cable pulled")
    a.once(GATE, b"next", journal=Journal.DEADLETTER)
    world.run(100)
    assert b.bodies(LOCAL) == [b"m", b"next"]
    assert found(a) == {b"m": (IN_DOUBT, NO_QUEUE)}


def test_what_is_refused_the_first_time_is_not_delivered(world: World) -> None:
    """A connection that breaks has carried one message that was not answered yet; those that were
    handed over behind it have not left."""
    a = world["A"]
    bodies = [b"%d" % number for number in range(6)]
    a.once("DIRECT=HTTP://b/msmq/private$/gone", *bodies, journal=Journal.DEADLETTER)
    while len(answers(world)) < 1:
        assert world.step()
    on_its_way(world)
    (wire,) = world.wires
    wire.break_("cable pulled")
    world.run(30)
    assert set(answers(world)) == {400}
    refused = dict.fromkeys(bodies, (NO_QUEUE, 0))
    assert found(a) == refused | {b"1": (IN_DOUBT, NO_QUEUE)}


@pytest.mark.parametrize("again", [True, False])
def test_a_plain_message_whose_answer_was_lost(world: World, again: bool) -> None:
    a, b = world["A"], world["B"]
    wishes: dict[str, Any] = {"journal": Journal.DEADLETTER, "delivery": Delivery.RECOVERABLE}
    if again:
        a.send(0, PLAIN, b"m", **wishes)
        while not posts(world, "A"):
            assert world.step()
        on_its_way(world)
        assert b.bodies(r"private$\plain") == [b"m"]
        for wire in list(world.wires):
            wire.break_("cable pulled")
    b.delete(r"private$\plain")
    world.gateways["b"] = "A"
    if not again:
        a.send(0, PLAIN, b"m", **wishes)
    world.run(30)
    assert answers(world)[-1] == 400
    assert found(a, DEAD_PLAIN) == {b"m": (IN_DOUBT, NO_QUEUE) if again else (NO_QUEUE, 0)}
