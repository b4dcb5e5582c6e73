"""Messages of an outgoing queue that have left, may have left, or never left."""

from __future__ import annotations

from typing import Any

from onceq.errors import ReceiveTimeout
from onceq.model import requests
from onceq.model.resultcodes import MessageClass as C
from onceq.testing.links import Passing, faithful
from tests.conformance.world import Node, World

Q, N = r"DIRECT=OS:B\private$\q", r"DIRECT=OS:B\private$\n"
LOCAL, ADMIN = r"private$\q", r"private$\adm"
DEAD, DEAD_PLAIN, JOURNAL = "SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER", "SYSTEM$;JOURNAL"
IN_DOUBT = C.NACK_RECEIVE_TIMEOUT_AT_SENDER


def two_managers() -> World:
    """A sends to B, which has a transactional queue and another one."""
    world = World("A", "B")
    world["B"].create("q")
    world["B"].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    return world


def found(node: Node, queue: str) -> dict[bytes, tuple[int, int]]:
    """Bodies, and of each the class and the note."""
    try:
        return {m.body: (m.message_class, m.note) for m in node.messages(queue)}
    except ReceiveTimeout:
        return {}


def nothing_heard(world: World, *through: int) -> None:
    """Messages with these numbers reach B, no others, and A hears nothing of it."""

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        lost = p.kind in (1, 2, 3) or (p.kind == 0 and p.number not in through)
        return [] if lost else faithful(p)

    world.link("A", "B").policy = policy


def whole_again(world: World) -> None:
    world.link("A", "B").policy = faithful
    world.mend("A", "B")


def sent_and_cut(world: World, *bodies: bytes, **asked: Any) -> None:
    """Of these messages the first arrives, the others are lost; then there is no link."""
    nothing_heard(world, 1)
    world["A"].once(Q, *bodies, **asked)
    world.run(3)
    world.cut("A", "B")
    world.run(1)


def take_out(node: Node, body: bytes, transaction: int = 0) -> object:
    """By its lookup identifier, as an operator does who has peeked."""
    (lookup,) = [m.lookup_id for m in node.messages(Q) if m.body == body]
    return node.ask(requests.Remove(Q, transaction, lookup, lookup))


def told(node: Node) -> dict[bytes, int]:
    """What came to the administration queue, by body (negative acknowledgments repeat it)."""
    return {body: value for body, (value, _) in found(node, ADMIN).items()}
