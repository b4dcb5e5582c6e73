"""Case 130: what the kinds of transaction cost, counted and not timed.

"Not slower" is about work here: requests to the manager, operations on its disk and bytes in its
log, which are the same on every machine; times are measured by ``onceq bench``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from onceq.model.branches import Vote, Xid
from tests.conformance.world import Node, World

Q = "DIRECT=OS:B\\private$\\q"
SENDS = 500


@dataclass
class Cost:
    requests: int
    operations: int
    log_bytes: int


def single(node: Node, number: int) -> None:
    """One call, which is a transaction."""
    node.once(Q, b"x" * 100)


def internal(node: Node, number: int) -> None:
    """A transaction of the queue manager."""
    tx = node.begin()
    node.send(tx, Q, b"x" * 100)
    node.commit(tx)


def external(node: Node, number: int) -> None:
    """A branch of somebody else's."""
    xid = Xid(7, b"%d" % number)
    tx = node.start_branch(xid)
    node.send(tx, Q, b"x" * 100)
    node.end_branch(tx, xid)
    assert node.prepare(xid) is Vote.PREPARED
    node.commit_branch(xid)


def counted(kind: Callable[[Node, int], None]) -> Cost:
    world = World("A", "B")
    world.link("A", "B").up = False
    node = world["A"]
    first = next(node.numbers)
    operations, position = node.files.operations, node.look("status").log_position
    for number in range(SENDS):
        kind(node, number)
    cost = Cost(
        next(node.numbers) - first,
        node.files.operations - operations,
        node.look("status").log_position - position,
    )
    assert node.look("outgoing-queue", Q).messages == SENDS
    return cost


def test_case_130_the_less_is_asked_for_the_less_it_costs() -> None:
    costs = [counted(kind) for kind in (single, internal, external)]
    for cheap, dear in pairwise(costs):
        assert cheap.requests < dear.requests
        assert cheap.operations <= dear.operations
        assert cheap.log_bytes <= dear.log_bytes
    assert costs[0].operations < 3 * SENDS, "one write and one sync for each, not more"
