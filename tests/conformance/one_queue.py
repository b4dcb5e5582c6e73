"""A queue with three messages, for the cases of group 6: fixtures that its test modules share."""

from __future__ import annotations

import pytest

from tests.conformance.world import Node, World, Worlds

Q = r"private$\q"
RETRY, POISON = Q + ";retry", Q + ";poison"
HERE = r"DIRECT=OS:.\private$\q"
REMOTE = r"DIRECT=OS:B\private$\q"
DEAD = r"system$;deadxact"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["A"].create("q")
    return world


@pytest.fixture
def a(world: World) -> Node:
    return world["A"]


@pytest.fixture
def three(a: Node) -> Node:
    a.once(HERE, b"m1", b"m2", b"m3")
    return a


def in_queue(qm: Node, queue: str = Q) -> list[bytes]:
    return qm.bodies(queue)
