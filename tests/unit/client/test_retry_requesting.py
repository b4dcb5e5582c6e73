"""A request at a scripted manager: what is asked, and what a lost connection says."""

from __future__ import annotations

from array import array

import pytest

from onceq.client.link import Session
from onceq.client.plans.send import remove_older
from onceq.client.retry import REPLIES, request
from onceq.errors import (
    AccessDenied,
    LinkLost,
    ManagerAway,
    ReceiveTimeout,
    ReplyTimeout,
    Retryable,
    ServiceNotAvailable,
)
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.limits import REQUEST_GRACE_S
from onceq.model.requests import PickBy
from onceq.model.results import Sent
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.arrived import Batch
from tests.unit.client.script import Q, Script
from tests.unit.packet.samples import packet

REPLY = Batch(Run.of([packet(body=b"reply")]), array("Q", [7]), array("I", [1]), array("I", [0]))
BEHIND = Batch(
    Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"), scanned=6
)  # fmt: skip


@pytest.fixture
def known(session: Session) -> Session:
    """The queues for replies and acknowledgments are there."""
    session.replies = (REPLIES, session.clock())
    session.tracking = "t"
    return session


def test_it_is_sent_looked_for_behind_what_others_wait_for_and_removed(
    script: Script, known: Session
) -> None:
    script.will(requests.Receive.code, BEHIND, REPLY)
    script.will(requests.Remove.code, 1)
    assert script.run(request(known, Q, b"?", transactional=False, timeout=9.5)).body == b"reply"
    assert script.kinds() == ["Send", "Receive", "Receive", "Remove"]
    (sent,) = script.request(0, requests.Send).items
    assert sent.values["response_queue"] == REPLIES
    assert sent.values["time_to_be_received"] == 10 + REQUEST_GRACE_S
    looked = [script.request(at, requests.Receive) for at in (1, 2)]
    assert [(one.pick, one.peek, one.after) for one in looked] == [
        (PickBy.CORRELATION, True, 0), (PickBy.CORRELATION, True, 6),
    ]  # fmt: skip
    assert looked[0].value == MessageId(known.source, 1).pack()
    taken = script.request(3, requests.Remove)
    assert (taken.queue, taken.first, taken.last) == (REPLIES, 7, 7)


def test_a_request_that_waits_for_ever_never_expires(script: Script, known: Session) -> None:
    script.will(requests.Receive.code, REPLY)
    script.run(request(known, Q, b"?", transactional=False, timeout=None))
    (sent,) = script.request(0, requests.Send).items
    assert "time_to_be_received" not in sent.values


def test_a_reply_that_is_here_is_not_lost_with_the_connection(
    script: Script, known: Session
) -> None:
    script.will(requests.Receive.code, REPLY)
    script.will(requests.Remove.code, LinkLost("cut"))
    assert script.run(request(known, Q, b"?", transactional=False)).body == b"reply"


def test_a_lost_connection_says_what_was_sent(script: Script, known: Session) -> None:
    script.will(requests.Receive.code, LinkLost("cut"))
    with pytest.raises(LinkLost, match=r"request .*\\1 to .* was sent"):
        script.run(request(known, Q, b"?", transactional=False))
    script.will(requests.Receive.code, ManagerAway("it is not back"))
    with pytest.raises(ServiceNotAvailable, match="was sent") as raised:
        script.run(request(known, Q, b"?", transactional=False))
    assert not isinstance(raised.value, Retryable), "the request has happened"
    script.will(requests.Send.code, ServiceNotAvailable("away"))
    with pytest.raises(ServiceNotAvailable, match=r"^away$"):
        script.run(request(known, Q, b"?", transactional=False))


def test_what_cannot_be_seen_is_not_claimed(script: Script, known: Session) -> None:
    script.will(requests.Send.code, Sent(1, 1, 1))
    script.will(requests.Receive.code, *[ReceiveTimeout()] * 5)
    script.will(requests.Look.code, *[AccessDenied("nobody has granted monitor")] * 2)
    with pytest.raises(ReplyTimeout, match=r"cannot see \(nobody has granted") as caught:
        script.run(request(known, Q, b"?", transactional=False, timeout=0.0))
    assert caught.value.request == str(MessageId(known.source, 1))


def test_only_what_is_old_is_removed(script: Script) -> None:
    """A clock was set back: behind an old message stands a new one, and another old one."""
    three = Batch(
        Run.of([packet()] * 3), array("Q", [4, 5, 6]), array("I", [1, 9, 2]), array("I", [0] * 3)
    )
    script.will(requests.Receive.code, three, ReceiveTimeout())
    script.will(requests.Remove.code, 1)
    script.run(remove_older(REPLIES, 3))
    taken = script.request(1, requests.Remove)
    assert (taken.first, taken.last) == (4, 4)


def test_a_connection_that_is_lost_at_the_end_is_said(script: Script, known: Session) -> None:
    script.will(requests.Receive.code, *[ReceiveTimeout()] * 2)
    script.will(requests.Look.code, LinkLost("cut"))
    script.will(requests.Receive.code, *[ReceiveTimeout()] * 3)
    with pytest.raises(LinkLost, match=r"was sent, and then: cut"):
        script.run(request(known, Q, b"?", transactional=False, timeout=0.0))
