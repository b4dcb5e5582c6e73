"""What an operation may cost in an application that has its queue manager inside, client and all.

The counts are the same in every run; see ``test_budgets``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest

from onceq.client.threads.manager import QueueManager
from onceq.embedded.host import EmbeddedHost, EmbeddedLink
from tests.budgets.counting import Cost, counted
from tests.budgets.last_agent import Decides, without_recovery
from tests.conformance import world as worlds
from tests.conformance.world import Node, World

HERE = "private$\\q"
WARM_UP, OPERATIONS = 5, 20
BODY = b"x" * 100
Work = Callable[[QueueManager, int], None]


class _NoLoop:
    """A background loop that is late for everything."""

    def in_loop(self, work: object) -> None:
        """See AsyncNetwork."""


class Inside(EmbeddedHost):
    """The host of an engine of the conformance world, without a background loop."""

    def __init__(self, node: Node) -> None:
        assert node.engine is not None
        self.engine = node.engine
        self._clock, self._network = node.clock, _NoLoop()  # type: ignore[assignment]
        self._pumping = threading.Lock()
        self._visitor = self._told = False
        self._failure = None
        self._timer_us = -1
        self._answers = {}
        self._numbers = count(1)
        self._owner = self.engine.owner(self._answer)


def send(qm: QueueManager, messages: int) -> None:
    """One transaction that sends."""
    with qm.transaction() as tx:
        tx.send_many(HERE, [BODY] * messages)


def by_row(qm: QueueManager, messages: int) -> None:
    """The same, and a row in a database decides it."""
    with qm.transaction() as tx:
        tx.enlist(DATABASE)
        tx.send_many(HERE, [BODY] * messages)


DATABASE = Decides()
SEND_1 = Cost(calls=87, pumps=1, records=1, syncs=1, writes=1, packets=0, clock=1)
BY_ROW_1 = Cost(calls=222, pumps=1, records=2, syncs=1, writes=1, packets=0, clock=1)
BY_ROW_100 = Cost(calls=256, pumps=1, records=2, syncs=1, writes=1, packets=0, clock=1)


@pytest.mark.parametrize(
    ("work", "messages", "budget"),
    [
        pytest.param(send, 1, SEND_1, id="send 1"),
        pytest.param(by_row, 1, BY_ROW_1, id="by a row 1"),
        pytest.param(by_row, 100, BY_ROW_100, id="by a row 100"),
    ],
)
def test_an_operation_inside_keeps_to_its_budget(
    monkeypatch: pytest.MonkeyPatch, work: Work, messages: int, budget: Cost
) -> None:
    monkeypatch.setattr(worlds, "SEGMENT_BYTES", 1 << 24)
    without_recovery(monkeypatch)
    node = World("A")["A"]
    node.create("q")
    host = Inside(node)
    qm = QueueManager(lambda: EmbeddedLink(host), again=False)
    for _ in range(WARM_UP):
        work(qm, messages)
    with counted(monkeypatch) as counting:
        counting.at = "A"
        for _ in range(OPERATIONS):
            work(qm, messages)
        counting.at = ""
    assert counting.cost("A", OPERATIONS).over(budget) == []
