"""Requests: which of them may be asked again when a connection is lost."""

from __future__ import annotations

import pytest

from onceq.client.link import Request
from onceq.errors import LinkLost, ServiceNotAvailable
from onceq.wire.app import frames
from onceq.wire.app.frames import Code
from tests.unit.client.script import Q


@pytest.mark.parametrize(
    ("request_", "lost", "unsent"),
    [
        (Request(Code.LOOK, frames.LookHead("status", "")), True, True),
        (Request(Code.OUTCOME, frames.OutcomeHead(bytes(16), 1)), True, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, True, 0, 0, 0)), True, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, True, 0, 0, 7)), False, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, False, 0, 0, 0)), False, True),
        (Request(Code.COMMIT, frames.CommitHead(0, bytes(16), 1, [])), False, True),
        (Request(Code.SEND, frames.SendHead(0, [])), False, True),
        (Request(Code.DELETE, frames.Named(Q)), False, True),
    ],
)
def test_what_may_be_asked_again(request_: Request, lost: bool, unsent: bool) -> None:
    assert request_.repeatable(LinkLost()) is lost
    assert request_.repeatable(ServiceNotAvailable()) is unsent
