"""Batches outside of transactions: one commit, or as many sends as they need."""

from __future__ import annotations

import pytest

from onceq.client.link import Session
from onceq.client.plans.send import send_many
from onceq.client.plans.unit_of_work import outcome
from onceq.errors import InDoubt, InsufficientResources, LinkLost
from onceq.model import requests
from tests.unit.client.script import Q, Script


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_at_once(script: Script, session: Session, transactional: bool) -> None:
    plan = send_many(session, Q, [b"1", "2"], transactional=transactional)
    ids = script.run(plan)
    assert script.kinds() == ["Commit" if transactional else "Send"]
    assert script.sent == [(Q, b"1"), (Q, b"2")]
    assert [id.number for id in ids] == [1, 2]


@pytest.mark.usefixtures("small")
def test_a_large_batch_at_once(script: Script, session: Session) -> None:
    items = [bytes([n]) * 60 for n in range(40)]
    ids = script.run(send_many(session, Q, items, transactional=True))
    assert script.kinds().count("Commit") == 1
    assert script.sent == [(Q, body) for body in items]
    assert len(ids) == 40
    ids = script.run(send_many(session, Q, items, transactional=False))
    assert [id.number for id in ids] == list(range(41, 81))


@pytest.mark.usefixtures("small")
def test_a_large_batch_at_once_that_is_refused_leaves_nothing(
    script: Script, session: Session
) -> None:
    items = [bytes([n]) * 60 for n in range(40)]
    for refusals in ([InsufficientResources()], [None, InsufficientResources()]):
        script.will(requests.Send.code, *refusals)
        with pytest.raises(InsufficientResources):
            script.run(send_many(session, Q, items, transactional=True))
        assert script.kinds()[-1] == "Abort"
        assert not script.sent
        assert not script.pending


def test_an_empty_batch_asks_nothing(script: Script, session: Session) -> None:
    for transactional in (False, True):
        plan = send_many(session, Q, [], transactional=transactional)
        assert len(script.run(plan)) == 0
    assert not script.asked


def test_a_single_message_transaction_in_doubt_has_a_name(script: Script, session: Session) -> None:
    script.will(requests.Commit.code, LinkLost("cut"))
    with pytest.raises(InDoubt) as caught:
        script.run(send_many(session, Q, [b"1"], transactional=True))
    script.will(requests.AskOutcome.code, "aborted")
    assert script.run(outcome(session, caught.value.transaction)) == "aborted"
    assert script.request(-1, requests.AskOutcome).id.number == 1
