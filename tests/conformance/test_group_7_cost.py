"""Case 130: what the kinds of transaction cost, counted and not timed.

"Not slower" is about work here: requests to the manager, operations on its disk and bytes in its
log, which are the same on every machine; times are measured by ``onceq bench``. Externally
coordinated transactions do everything that internal ones do, and prepare besides.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance.world import Node, World

Q = "DIRECT=OS:B\\private$\\q"
SENDS = 500


@dataclass
class Cost:
    requests: int
    operations: int
    log_bytes: int


def counted(node: Node, send: int) -> Cost:
    first = next(node.numbers)
    operations, position = node.files.operations, node.look("status").log_position
    if send:
        for _ in range(SENDS):
            node.once(Q, b"x" * 100)
    else:
        for _ in range(SENDS):
            tx = node.begin()
            node.send(tx, Q, b"x" * 100)
            node.commit(tx)
    return Cost(
        next(node.numbers) - first,
        node.files.operations - operations,
        node.look("status").log_position - position,
    )


def test_case_130_a_single_message_transaction_costs_no_more_than_an_internal_one() -> None:
    costs = []
    for kind in (1, 0):
        world = World("A", "B")
        world.link("A", "B").up = False
        costs.append(counted(world["A"], kind))
    single, internal = costs
    assert single.requests < internal.requests
    assert single.operations <= internal.operations
    assert single.log_bytes <= internal.log_bytes
    assert single.operations < 3 * SENDS, "one write and one sync for each, not more"
