"""Requests: which of them may be asked again when a connection is lost."""

from __future__ import annotations

import pytest

from onceq.client.link import LinkRequest
from onceq.errors import LinkLost, ManagerAway
from onceq.model import requests
from onceq.model.identity import TransactionId
from tests.unit.client.script import Q


@pytest.mark.parametrize(
    ("request_", "lost", "unsent"),
    [
        (LinkRequest(requests.Look("status")), True, True),
        (LinkRequest(requests.AskOutcome(TransactionId(bytes(16), 1))), True, True),
        (LinkRequest(requests.Receive(Q, peek=True)), True, True),
        (LinkRequest(requests.Receive(Q, peek=True, handle=7)), False, True),
        (LinkRequest(requests.Receive(Q)), False, True),
        (LinkRequest(requests.Commit(0)), False, True),
        (LinkRequest(requests.Send(0, [])), False, True),
        (LinkRequest(requests.DeleteQueue(Q)), False, True),
    ],
)
def test_what_may_be_asked_again(request_: LinkRequest, lost: bool, unsent: bool) -> None:
    assert request_.repeatable(LinkLost()) is lost
    assert request_.repeatable(ManagerAway()) is unsent
