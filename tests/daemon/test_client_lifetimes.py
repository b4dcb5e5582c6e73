"""The times of a transaction are those of its first message, or refused (finding K10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceq.errors import IllegalPropertyValue
from tests.daemon.applications import KINDS, emptied, manager_with

T = r"private$\orders"


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory, transactional=[T], plain=[]) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any) -> Iterator[Any]:
    """A manager whose queues are empty."""
    with emptied(manager):
        yield manager


@pytest.mark.parametrize("name", ["time_to_be_received", "time_to_reach_queue"])
@pytest.mark.parametrize("first", [{}, {"time": 3_600}])
def test_another_time_is_refused_and_the_transaction_goes_on(
    qm: Any, name: str, first: dict[str, int]
) -> None:
    said = {name: first["time"]} if first else {}
    with qm.transaction() as tx:
        tx.send(T, "heartbeat", **said)
        with pytest.raises(IllegalPropertyValue, match="SND-12"):
            tx.send(T, "order", **{name: 86_400})
        with pytest.raises(IllegalPropertyValue, match="another transaction"):
            tx.send_many(T, ["order", "order"], **{name: 86_400})
        tx.send(T, "says nothing")
        tx.send(T, "says the same", **said)
    assert [getattr(m, name) for m in qm.peek_many(T)] == [getattr(qm.peek(T), name)] * 3


def test_a_first_message_that_was_refused_says_nothing(qm: Any) -> None:
    with qm.transaction() as tx:
        with pytest.raises(IllegalPropertyValue):
            tx.send(T, "x", time_to_be_received=1, priority=9)
        tx.send(T, "order", time_to_be_received=86_400)
    assert qm.peek(T).time_to_be_received == 86_400


def test_the_queue_manager_refuses_it_by_itself(qm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may ask without looking."""
    monkeypatch.setattr("onceq.client.plans.sending_unit.check_lifetimes", lambda *_: None)
    tx = qm.transaction()
    tx.send(T, "heartbeat", time_to_be_received=1)
    tx.send(T, "order", time_to_be_received=86_400)
    with pytest.raises(IllegalPropertyValue, match="SND-12"):
        tx.commit()
    assert qm.queue(T)["messages"] == 0
