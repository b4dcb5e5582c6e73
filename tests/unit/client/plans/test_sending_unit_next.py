"""What goes out with a commit, driven step by step."""

from __future__ import annotations

from array import array
from asyncio import CancelledError

import pytest

from onceq.client.link import Greeting, LinkRequest, Session
from onceq.client.plans.sending_unit import NOTHING, ahead
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import InDoubt, LinkLost, OnceqError, TransactionOver
from onceq.model import requests
from onceq.model.limits import RECEIVE_BYTES
from onceq.model.run import Run
from onceq.packet.arrived import Batch
from tests.unit.client.script import Q, Script

ONE = Batch(Run.of([b"x"]), array("Q", [1]), array("I", [0]), array("I", [0]))


@pytest.fixture
def session() -> Session:
    greeting = Greeting("A", bytes(range(16)), 1_000)
    return Session(greeting, clock=lambda: 5.0)


def working(script: Script, session: Session) -> Unit:
    """A unit that has received something."""
    script.will(requests.Receive.code, ONE)
    unit = Unit(session)
    script.run(unit.hold(Q, count=1, timeout=0.0))
    return unit


def test_a_commit_takes_the_next_receive_along(script: Script, session: Session) -> None:
    one, two = working(script, session), Unit(session)
    script.run(one.commit(ahead=ahead(two, Q, count=3, timeout=2.0)))
    assert script.kinds() == ["Begin", "Receive", "Commit"], "no begin of its own"
    commit, behind = script.request(-1, requests.Commit), script.asked[-1].behind
    assert (commit.transaction, commit.then) == (1, 2)
    assert behind is not None
    assert behind.asked == requests.Receive(Q, 2, 3, RECEIVE_BYTES, 2_000, hold=True)
    assert (two.begun, two.number, two.over) == (True, 2, "")
    script.will(requests.Receive.code, ONE, ONE)
    assert script.run(two.hold(Q, count=3, timeout=2.0)) is ONE
    assert script.asked[-1] is behind, "only its answer is waited for"
    assert two.ahead is None
    script.run(two.hold(Q, count=1, timeout=0.0))
    assert script.asked[-1] is not behind, "what comes after it is asked for as ever"


@pytest.mark.parametrize("error", [TransactionOver(), LinkLost()])
def test_after_a_commit_that_failed_the_next_has_not_begun(
    script: Script, session: Session, error: OnceqError
) -> None:
    one, two = working(script, session), Unit(session)
    script.will(requests.Commit.code, error)
    with pytest.raises((TransactionOver, InDoubt)):
        script.run(one.commit(ahead=ahead(two, Q, count=1, timeout=0.0)))
    assert (two.begun, two.ahead, two.over) == (False, None, "")
    script.will(requests.Receive.code, ONE)
    script.run(two.hold(Q, count=1, timeout=0.0))
    assert script.kinds()[-2:] == ["Begin", "Receive"]


def test_a_commit_that_is_given_up_ends_the_next(script: Script, session: Session) -> None:
    one, two = working(script, session), Unit(session)
    script.will(requests.Commit.code, CancelledError())
    with pytest.raises(CancelledError):
        script.run(one.commit(ahead=ahead(two, Q, count=1, timeout=0.0)))
    assert script.kinds()[-2:] == ["Commit", "Abort"]
    assert script.request(-1, requests.Abort).transaction == 2
    assert not two.begun


def test_a_receive_that_is_given_up_ends_the_next(script: Script, session: Session) -> None:
    one, two = working(script, session), Unit(session)
    script.run(one.commit(ahead=ahead(two, Q, count=1, timeout=None)))
    script.will(requests.Receive.code, CancelledError())
    with pytest.raises(CancelledError):
        script.run(two.hold(Q, count=1, timeout=None))
    assert script.request(-1, requests.Abort).transaction == 2
    assert two.over.startswith("aborted")


def test_nothing_ahead_changes_nothing() -> None:
    NOTHING.committed()
    assert list(NOTHING.give_up()) == []


def test_only_a_receive_is_given_up_at_the_manager() -> None:
    receive = LinkRequest(requests.Receive(Q))
    commit = LinkRequest(requests.Commit(1), behind=receive)
    assert receive.to_give_up is receive
    assert commit.to_give_up is receive
    assert LinkRequest(requests.Commit(1)).to_give_up is None
