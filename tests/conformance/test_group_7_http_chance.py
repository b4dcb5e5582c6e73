"""Messages over HTTP through chance: queues that come and go, lost connections, kills.

Each message has one end, and the end that its sender believes in is the one that it has had.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from onceq.model.message import Delivery, Journal
from tests.conformance.over_http import DEAD, DEAD_PLAIN, JOURNAL, LOCAL, PLAIN, Q, outgoing, pair
from tests.conformance.world import World, Worlds

pytestmark = [
    pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py"),
    pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do"),
]
HERE = r"private$\plain"
GOING = "DIRECT=HTTP://b/msmq/private$/going"
GOING_HERE = r"private$\going"
BOTH = Journal.DEADLETTER | Journal.JOURNAL


def took(node: Any, queue: str) -> list[bytes]:
    """Everything that is in a queue, received."""
    return list(node.receive(queue, count=999).bodies()) if node.bodies(queue) else []


def trouble(world: World, chance: random.Random) -> None:
    """Something goes wrong, or nothing does."""
    what = chance.random()
    if what < 0.15 and world.wires:
        chance.choice(world.wires).break_("cut by the test")
    elif what < 0.22:
        node = world[chance.choice("AB")]
        getattr(node, chance.choice(("kill", "power_cut")))()
        world.run(chance.choice((0.001, 1.0)))
        node.start()
    elif what < 0.3:
        world.http_dark ^= {chance.choice((("A", "b"), ("B", "a")))}


@pytest.mark.parametrize("seed", range(12))
def test_every_message_has_one_end(worlds: Worlds, seed: int) -> None:
    chance = random.Random(seed)
    world = pair(worlds)
    a, b = world["A"], world["B"]
    there, number = True, 0
    b.create("going")
    plain: list[bytes] = []
    ordered: list[bytes] = []
    shaky: list[bytes] = []
    stayed: list[bytes] = []
    received: list[bytes] = []
    for _ in range(30):
        for _ in range(chance.choice((0, 1, 1, 8))):
            number += 1
            if chance.random() < 0.4:
                shaky.append(b"s%d" % number)
                a.once(GOING, shaky[-1], journal=BOTH)
            elif chance.random() < 0.5:
                plain.append(b"p%d" % number)
                a.send(0, PLAIN, plain[-1], journal=BOTH, delivery=Delivery.RECOVERABLE)
            else:
                ordered.append(b"t%d" % number)
                a.once(Q, ordered[-1], journal=BOTH)
        world.run(chance.choice((0.0001, 0.0003, 0.001, 0.01, 0.5, 2.0)))
        trouble(world, chance)
        if chance.random() < 0.2:
            if there:
                b.delete(HERE)
                b.delete(GOING_HERE)
            else:
                b.create("plain", transactional=False)
                b.create("going")
            there = not there
        elif there and chance.random() < 0.3:
            received += took(b, HERE)
            stayed += took(b, GOING_HERE)
    world.http_dark.clear()
    world.run(700)
    got = took(b, LOCAL)
    if there:
        received += took(b, HERE)
        stayed += took(b, GOING_HERE)
    world.run(700)
    assert got == ordered
    assert stayed == [body for body in shaky if body in stayed], "in order"
    assert sorted(stayed + a.bodies(DEAD)) == sorted(shaky)
    assert sum(outgoing(a, name).messages for name in (Q, PLAIN, GOING)) == 0
    dead, journal = a.bodies(DEAD_PLAIN), a.bodies(JOURNAL)
    arrived = received + b.bodies(DEAD_PLAIN)
    assert sorted(arrived + dead) == sorted(plain)
    assert sorted(journal) == sorted(arrived + ordered + stayed)
