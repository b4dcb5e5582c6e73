"""Endings when a queue manager dies: at every point of its work with the store."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.model.message import Acknowledge, Journal
from onceq.testing.disk import STORE_POINTS
from tests.conformance.world import AnswerLost, World

Q = r"DIRECT=OS:B\private$\q"
ADMIN, DEAD, JOURNAL = r"private$\adm", "SYSTEM$;DEADXACT", "SYSTEM$;JOURNAL"


def peopled(world: World) -> World:
    world["B"].create("q")
    world["B"].create("j", journal=True)
    world["A"].create("adm", transactional=False)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("point", STORE_POINTS)
@pytest.mark.parametrize("dying", ["A", "B"])
def test_killed_at_any_moment_everything_is_told_once(dying: str, point: str) -> None:
    """What transactional messages ask for is exactly once, at whatever point a manager dies."""
    asks: dict[str, Any] = {
        "acknowledge": Acknowledge(15),
        "journal": Journal(3),
        "admin_queue": ADMIN,
    }
    count = 0
    while True:
        count += 1
        world = peopled(World("A", "B"))
        a, b = world["A"], world["B"]
        a.once(Q, b"late", time_to_be_received=20, **asks)
        a.once(r"DIRECT=OS:B\private$\j", b"received", **asks)
        a.once(r"DIRECT=OS:B\private$\gone", b"refused", **asks)
        world[dying].die_at(point, count)
        world.run(3)
        taken = _received(world, dying)
        world.run(30)
        if world[dying].dead:
            world[dying].start()
        world.run(40)
        if not taken:
            taken = _received(world, dying)
        world.run(100)
        assert taken
        assert sorted(a.bodies(DEAD)) == [b"late", b"refused"], (point, count)
        assert a.bodies(JOURNAL) == b.bodies(r"private$\j;JOURNAL") == [b"received"]
        if world[dying].life == 1:
            break
    assert count > 2


def _received(world: World, dying: str) -> bool:
    b = world["B"]
    if b.dead:
        b.start()
        world.run(40)
    try:
        tx = b.begin()
        got = b.receive(r"private$\j", tx=tx).bodies()
        b.commit(tx)
    except ReceiveTimeout:
        return False
    except AnswerLost:
        b.start()
        world.run(20)
        return not b.bodies(r"private$\j")
    return got == [b"received"]
