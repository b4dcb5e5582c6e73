"""Requests: which of them may be asked again when a connection is lost."""

from __future__ import annotations

import pytest

from onceq.client.link import Request
from onceq.errors import LinkLost, ManagerAway
from onceq.model import requests
from onceq.model.identity import TransactionId
from tests.unit.client.script import Q


@pytest.mark.parametrize(
    ("request_", "lost", "unsent"),
    [
        (Request(requests.Look("status")), True, True),
        (Request(requests.AskOutcome(TransactionId(bytes(16), 1))), True, True),
        (Request(requests.Receive(Q, peek=True)), True, True),
        (Request(requests.Receive(Q, peek=True, handle=7)), False, True),
        (Request(requests.Receive(Q)), False, True),
        (Request(requests.Commit(0)), False, True),
        (Request(requests.Send(0, [])), False, True),
        (Request(requests.DeleteQueue(Q)), False, True),
    ],
)
def test_what_may_be_asked_again(request_: Request, lost: bool, unsent: bool) -> None:
    assert request_.repeatable(LinkLost()) is lost
    assert request_.repeatable(ManagerAway()) is unsent
