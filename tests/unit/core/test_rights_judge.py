"""Whose right counts when messages arrive: who has proven himself, not whom they name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from onceq.core.rights import may_deliver
from onceq.model.identity import guid_text
from onceq.model.patterns import QueueName
from onceq.model.policy import Policy
from onceq.model.rights import NOBODY, Actor, ActorKind, Right, grant_of
from tests.certificates import ALPHA, BETA

ORDERS = QueueName("private$\\orders")


def step() -> Any:
    policy = Policy()
    policy.grant(grant_of(f"peer:{guid_text(ALPHA)}", [Right.SEND.value], ORDERS))
    return SimpleNamespace(state=SimpleNamespace(policy=policy))


def peer(actor: Actor, *, http: bool, guid: bytes = bytes(16)) -> Any:
    return SimpleNamespace(actor=actor, http=http, peer=guid)


def test_over_http_a_message_that_names_a_queue_manager_has_not_its_rights() -> None:
    """The source in an envelope is a word; the certificate that was shown is a proof."""
    proven = Actor(ActorKind.PEER, guid_text(ALPHA))
    for actor in (NOBODY, Actor(ActorKind.PEER, guid_text(BETA))):
        assert not may_deliver(step(), peer(actor, http=True), ALPHA, ORDERS)
    assert may_deliver(step(), peer(proven, http=True), ALPHA, ORDERS)


def test_in_a_session_the_right_is_that_of_the_sender() -> None:
    alpha = Actor(ActorKind.PEER, guid_text(ALPHA))
    beta = Actor(ActorKind.PEER, guid_text(BETA))
    assert may_deliver(step(), peer(alpha, http=False, guid=ALPHA), ALPHA, ORDERS)
    assert not may_deliver(step(), peer(alpha, http=False, guid=ALPHA), BETA, ORDERS)
    assert may_deliver(step(), peer(beta, http=False, guid=BETA), ALPHA, ORDERS), "passed on"
