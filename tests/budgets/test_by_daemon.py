"""What an operation of a client may cost its daemon, and how often they wait for each other.

The counts are the same in every run; see ``test_budgets``. A trip is a write of the client and the
wait for what is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from onceq.client.threads.manager import QueueManager
from tests.budgets.counting import Cost, Counting, counted
from tests.budgets.daemon import client
from tests.budgets.last_agent import Decides, without_recovery
from tests.conformance import world as worlds
from tests.conformance.world import World

HERE = "private$\\q"
WARM_UP, OPERATIONS = 5, 20
BODY = b"x" * 100
Step = Callable[[], None]
Work = Callable[[QueueManager, int, Step], object]


class _Enough(Exception):
    """Leaves a loop."""


def send(qm: QueueManager, messages: int, step: Step) -> None:
    """Transactions that send."""
    while True:
        with qm.transaction() as tx:
            tx.send_many(HERE, [BODY] * messages)
        step()


def receive(qm: QueueManager, messages: int, step: Step) -> None:
    """Transactions that receive. What comes after a commit only the application knows."""
    while True:
        with qm.transaction() as tx:
            assert len(tx.receive_many(HERE, messages)) == messages
        step()


def loop(qm: QueueManager, messages: int, step: Step) -> None:
    """The same by a loop of the library: the commit takes the next receive along."""

    def handler(tx: object, found: object) -> None:
        step()

    qm.consume(HERE, handler, batch=messages)


def answer(qm: QueueManager, messages: int, step: Step) -> None:
    """The same with a send in each transaction."""
    for tx, message in qm.work(HERE, timeout=0.0):
        tx.send("private$\\other", message.body)
        step()


def at_once(qm: QueueManager, messages: int, step: Step) -> None:
    """Receives without a transaction."""
    while True:
        assert len(qm.receive_many(HERE, messages)) == messages
        step()


def by_row(qm: QueueManager, messages: int, step: Step) -> None:
    """Transactions that send, and that a row in a database decides."""
    database = Decides()
    while True:
        with qm.transaction() as tx:
            tx.enlist(database)
            tx.send_many(HERE, [BODY] * messages)
        step()


SEND_1 = Cost(
    calls=72, pumps=1, records=1, syncs=1, writes=1, packets=0, clock=1, trips=1, frames=2
)
SEND_100 = Cost(
    calls=105, pumps=1, records=1, syncs=1, writes=1.05, packets=0, clock=1, trips=1, frames=2
)
RECEIVE_1 = Cost(
    calls=173, pumps=2, records=2, syncs=1, writes=2, packets=0, clock=3, trips=2, frames=5
)
RECEIVE_100 = Cost(
    calls=200, pumps=2, records=2, syncs=1, writes=2, packets=0, clock=3, trips=2, frames=5
)
# A wait that ends, so that a signal is heard, has a time: it looks at the clock.
LOOP_1 = Cost(
    calls=149, pumps=1, records=2, syncs=1, writes=1, packets=0, clock=3, trips=1, frames=4
)
LOOP_100 = Cost(
    calls=177, pumps=1, records=2, syncs=1, writes=1, packets=0, clock=3, trips=1, frames=4
)
ANSWER_1 = Cost(
    calls=170, pumps=1, records=2, syncs=1, writes=1, packets=0, clock=2, trips=1, frames=4
)
AT_ONCE_1 = Cost(
    calls=91, pumps=1, records=1, syncs=1, writes=1, packets=0, clock=2, trips=1, frames=2
)
AT_ONCE_100 = Cost(
    calls=119, pumps=1, records=1, syncs=1, writes=1, packets=0, clock=2, trips=1, frames=2
)


BY_ROW_1 = Cost(
    calls=171, pumps=2, records=2, syncs=1, writes=2, packets=0, clock=3, trips=2, frames=3
)
BY_ROW_100 = Cost(
    calls=204.4, pumps=2, records=2, syncs=1, writes=2.05, packets=0, clock=3, trips=2, frames=3
)


def cost(monkeypatch: pytest.MonkeyPatch, work: Work, messages: int) -> Cost:
    """What each of several operations of a client has cost its daemon."""
    without_recovery(monkeypatch)
    monkeypatch.setattr(worlds, "SEGMENT_BYTES", 1 << 24)
    node = World("A")["A"]
    node.create("q")
    node.create("other")
    for _ in range(WARM_UP + OPERATIONS + 1):
        node.once(HERE, *[BODY] * messages)
    done = 0
    counting = Counting()
    with ExitStack() as stack:

        def step() -> None:
            nonlocal done, counting
            done += 1
            if done == WARM_UP:
                counting = stack.enter_context(counted(monkeypatch))
            elif done == WARM_UP + OPERATIONS:
                stack.close()
                raise _Enough

        with suppress(_Enough):
            work(client(node, monkeypatch), messages, step)
    return counting.cost("A", OPERATIONS)


@pytest.mark.parametrize(
    ("work", "messages", "budget"),
    [
        pytest.param(send, 1, SEND_1, id="send 1"),
        pytest.param(send, 100, SEND_100, id="send 100"),
        pytest.param(receive, 1, RECEIVE_1, id="receive 1"),
        pytest.param(receive, 100, RECEIVE_100, id="receive 100"),
        pytest.param(loop, 1, LOOP_1, id="loop 1"),
        pytest.param(loop, 100, LOOP_100, id="loop 100"),
        pytest.param(answer, 1, ANSWER_1, id="loop 1 and answer"),
        pytest.param(by_row, 1, BY_ROW_1, id="by a row 1"),
        pytest.param(by_row, 100, BY_ROW_100, id="by a row 100"),
        pytest.param(at_once, 1, AT_ONCE_1, id="at once 1"),
        pytest.param(at_once, 100, AT_ONCE_100, id="at once 100"),
    ],
)
def test_an_operation_of_a_client_keeps_to_its_budget(
    monkeypatch: pytest.MonkeyPatch, work: Work, messages: int, budget: Cost
) -> None:
    assert cost(monkeypatch, work, messages).over(budget) == []
