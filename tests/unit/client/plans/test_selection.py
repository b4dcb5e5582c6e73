"""Which messages are asked for, in which bounds."""

from __future__ import annotations

from array import array

import pytest

from onceq.client.link import Session
from onceq.client.plans.selection import some, subqueue, wait_ms
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.limits import RECEIVE_MESSAGES_MAX
from onceq.model.run import Run
from onceq.packet.arrived import Batch
from tests.unit.client.script import Q, Script


@pytest.mark.parametrize(
    ("timeout", "ms"),
    [(None, -1), (0, 0), (0.0001, 1), (1.5, 1_500), (float("inf"), -1), (1e30, -1)],
)
def test_timeouts(timeout: float | None, ms: int) -> None:
    assert wait_ms(timeout) == ms


@pytest.mark.parametrize("timeout", [float("nan"), -3, -0.001, float("-inf")], ids=str)
def test_a_timeout_that_is_none(timeout: float) -> None:
    with pytest.raises(InvalidParameter, match="from 0, or None"):
        wait_ms(timeout)


def test_late_messages_come_first_but_not_into_transactions(
    script: Script, session: Session
) -> None:
    none = array("I", [0])
    late = Batch(Run.of([b"late"]), array("Q", [1]), none, none)
    fresh = Batch(Run.of([b"fresh"]), array("Q", [2]), none, none)
    session.keep(Q, late)
    script.will(requests.Receive.code, fresh, fresh, fresh)
    assert script.run(some(session, Q, count=1, timeout=0, transaction=1)) is fresh
    assert script.run(some(session, Q, count=1, timeout=0, peek=True)) is fresh
    assert script.run(some(session, Q, count=1, timeout=0)) is late
    assert script.run(some(session, Q, count=1, timeout=0)) is fresh


def test_counts_are_kept_in_range(script: Script, session: Session) -> None:
    script.run(some(session, Q, count=1 << 40, timeout=0))
    assert script.request(0, requests.Receive).count_max == RECEIVE_MESSAGES_MAX
    for count in (0, -1):
        with pytest.raises(InvalidParameter):
            script.run(some(session, Q, count=count, timeout=0))


def test_a_target_that_begins_with_a_semicolon_is_beside_a_subqueue() -> None:
    """Not inside it: a queue has one level of subqueues."""
    assert subqueue("q", ";retry") == "q;retry"
    assert subqueue("q;retry", ";poison") == "q;poison"
    assert subqueue("q;retry", "") == "q"
    assert subqueue("q;retry", "other") == "other"
