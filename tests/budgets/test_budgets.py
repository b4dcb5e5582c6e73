"""What a send, a receive and a forwarded message may cost, at 1 and at 100 a transaction.

The counts are the same in every run. A change that needs more raises the budget here, and says in
its commit what for; one that needs less lowers it. Calls have some 5 % to spare, because versions
of Python differ; the rest has none, but for timers that ring behind the last operation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.store.log import LogStore
from tests.budgets.counting import Cost, counted
from tests.conformance import world as worlds
from tests.conformance.world import World

HERE, THERE = "private$\\q", "DIRECT=OS:B\\private$\\q"
BOTH = f"{THERE},DIRECT=OS:C\\private$\\q"
WARM_UP, OPERATIONS = 5, 20
SETTLE_S = 5.0
"""Longer than order and final acknowledgments are put off."""
BODY = b"x" * 100
Work = Callable[[World, int], None]


def send(world: World, messages: int) -> None:
    """One transaction that sends to a queue of the same manager."""
    world["A"].once(HERE, *[BODY] * messages)


def receive(world: World, messages: int) -> None:
    """One transaction that receives what was sent in one, and which was there before."""
    transaction = world["A"].begin()
    got = world["A"].receive(HERE, tx=transaction, count=messages)
    assert len(got.bodies()) == messages
    world["A"].commit(transaction)


def forward(world: World, messages: int) -> None:
    """One transaction that sends to a queue of another manager, which it reaches at once."""
    world["A"].once(THERE, *[BODY] * messages)
    world.run(0.01)


def to_both(world: World, messages: int) -> None:
    """One transaction that sends to queues of two other managers at once."""
    world["A"].once(BOTH, *[BODY] * messages)
    world.run(0.01)


SEND_1 = Cost(calls=62.5, pumps=1.1, records=1, syncs=1, writes=1.1, packets=0, clock=1.2)
SEND_100 = Cost(calls=94, pumps=1.1, records=1, syncs=1, writes=1.1, packets=0, clock=1.2)
RECEIVE_1 = Cost(calls=123.8, pumps=3.1, records=2, syncs=1, writes=2.05, packets=0, clock=3.2)
RECEIVE_100 = Cost(calls=149.8, pumps=3.1, records=2, syncs=1, writes=2.05, packets=0, clock=3.2)
SENDER_1 = Cost(calls=128, pumps=1.2, records=1.05, syncs=1, writes=1.15, packets=1, clock=1.4)
SENDER_100 = Cost(calls=329, pumps=2.2, records=1.05, syncs=1, writes=1.15, packets=1, clock=3.4)
RECEIVER_1 = Cost(calls=79.8, pumps=1.2, records=1, syncs=1, writes=1.1, packets=0.1, clock=2.4)
RECEIVER_100 = Cost(calls=213, pumps=1.2, records=1, syncs=1, writes=1.1, packets=1.1, clock=2.4)


@pytest.fixture(autouse=True)
def large_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a segment is no part of an operation."""
    monkeypatch.setattr(worlds, "SEGMENT_BYTES", 1 << 24)


def costs(monkeypatch: pytest.MonkeyPatch, work: Work, messages: int) -> dict[str, Cost]:
    """What each of several operations has cost each manager."""
    world = World("A", "B", "C") if work is to_both else World("A", "B")
    for node in world.nodes.values():
        node.create("q")
    if work is receive:
        for _ in range(WARM_UP + OPERATIONS):
            send(world, messages)
    for _ in range(WARM_UP):
        work(world, messages)
    world.run(SETTLE_S)
    with counted(monkeypatch) as counting:
        for _ in range(OPERATIONS):
            work(world, messages)
        world.run(SETTLE_S)
    return {name: counting.cost(name, OPERATIONS) for name in world.nodes}


@pytest.mark.parametrize(
    ("work", "messages", "budgets"),
    [
        pytest.param(send, 1, {"A": SEND_1}, id="send 1"),
        pytest.param(send, 100, {"A": SEND_100}, id="send 100"),
        pytest.param(receive, 1, {"A": RECEIVE_1}, id="receive 1"),
        pytest.param(receive, 100, {"A": RECEIVE_100}, id="receive 100"),
        pytest.param(forward, 1, {"A": SENDER_1, "B": RECEIVER_1}, id="forward 1"),
        pytest.param(forward, 100, {"A": SENDER_100, "B": RECEIVER_100}, id="forward 100"),
        pytest.param(to_both, 1, {"B": RECEIVER_1}, id="to both 1"),
        pytest.param(to_both, 100, {"B": RECEIVER_100, "C": RECEIVER_100}, id="to both 100"),
    ],
)
def test_an_operation_keeps_to_its_budget(
    monkeypatch: pytest.MonkeyPatch, work: Work, messages: int, budgets: dict[str, Cost]
) -> None:
    found = costs(monkeypatch, work, messages)
    over = {name: found[name].over(budget) for name, budget in budgets.items()}
    assert over == {name: [] for name in budgets}


def test_counts_are_the_same_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert costs(monkeypatch, forward, 3) == costs(monkeypatch, forward, 3)


def test_a_second_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = costs(monkeypatch, send, 1)["A"]
    sync = LogStore.sync

    def twice(store: LogStore) -> None:
        sync(store)
        for segment in store._table[1][-1:]:
            store._files.sync(segment.file)

    monkeypatch.setattr(LogStore, "sync", twice)
    over = costs(monkeypatch, send, 1)["A"].over(before)
    assert "syncs: 2, and 1 is the budget" in over
