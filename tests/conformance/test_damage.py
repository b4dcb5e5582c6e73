"""Damage in an outgoing queue: what waits behind it arrives all the same, in order (I23, I11)."""

from __future__ import annotations

import pytest

from onceq.model import requests
from onceq.store.recovery import check
from onceq.testing.links import faithful
from tests.conformance.world import Node, World

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
PATH = "/store"
ROW = 1_000
COUNT = 24


def _bodies() -> list[bytes]:
    return [b"%04d" % n * (ROW // 4) for n in range(COUNT)]


def _flip(node: Node, body: bytes) -> None:
    for name in node.files.names(PATH):
        place = node.files.contents(f"{PATH}/{name}").find(body)
        if name.startswith("log-") and place >= 0:
            node.files.flip(f"{PATH}/{name}", place + 500)
            return
    pytest.fail("no such body is stored")


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


def _waiting(world: World) -> Node:
    """A has committed messages for B, cannot reach it, and has nothing of them in memory."""
    world.cut("A", "B")
    a = world["A"]
    a.once(Q, *_bodies())
    assert a.engine is not None
    a.engine.checkpoint()
    a.kill()
    a.start()
    return a


@pytest.mark.unturned("second", reason="it alters a byte of one copy")
def test_an_outgoing_queue_does_not_stand_behind_a_damaged_message(world: World) -> None:
    a = _waiting(world)
    _flip(a, _bodies()[5])
    assert check(PATH, a.files.kill()).damaged
    world.mend("A", "B")
    world.run(300)
    got = [bytes(body) for body in world["B"].bodies(LOCAL)]
    missing = [body for body in _bodies() if body not in got]
    assert _bodies()[5] in missing
    assert len(missing) <= 6, "more than the block"
    assert got == [body for body in _bodies() if body not in missing], "in order, each once"
    damaged = a.ask(requests.Look("damages")).views
    assert sum(view.count for view in damaged) == len(missing)
    assert {view.queue for view in damaged} == {Q}


@pytest.mark.unturned("second", reason="it alters a byte of one copy")
def test_what_left_before_it_was_damaged_is_in_doubt_and_settled(world: World) -> None:
    """It arrived, but nobody here has heard so; later the other side says it."""
    world.cut("A", "B")
    a = _waiting(world)
    world.mend("A", "B")
    world.link("A", "B").policy = lambda p: [] if p.kind == 1 else faithful(p)
    world.run(20)
    assert len(world["B"].bodies(LOCAL)) == COUNT
    a.kill()
    a.start()
    _flip(a, _bodies()[5])
    world.link("A", "B").policy = faithful
    world.run(300)
    assert [bytes(body) for body in world["B"].bodies(LOCAL)] == _bodies(), "each once"
    damaged = a.ask(requests.Look("damages")).views
    assert {view.reason for view in damaged} == {0xC003}, "never called not delivered"
    (outgoing,) = a.ask(requests.Look("outgoing")).views
    assert (outgoing.messages, outgoing.in_doubt) == (0, 0), "the doubt is settled"
