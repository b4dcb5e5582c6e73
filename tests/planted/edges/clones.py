"""Mistakes about clones: what they claim, and what is asked of streams that were left."""

from __future__ import annotations

import pytest

from onceq.core.management import queue_views
from onceq.core.peers import duplicate_identity, trust
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.step.step import Step
from onceq.core.transfer import arrival
from onceq.packet.acks import FinalAck
from tests.planted.edges.beside import _beside
from tests.planted.planted import SIM, Planted, replaced

CLONES = "tests/conformance/test_clones.py::test_"
IN_DOUBT = CLONES + "what_never_left_a_clone_is_in_doubt_once_it_has_noticed"
ENDS = CLONES + "an_end_that_is_told_before_the_clone_has_sent_it_counts"


def _alone(step: Step) -> None:
    """What another copy may have sent is not recorded."""


def _until_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known as long as the process runs."""

    def note(step: Step) -> None:
        for outgoing in step.state.outgoing.values():
            for index, lane in outgoing.lanes.items():
                outgoing.elsewhere[index] = lane.next - 1

    monkeypatch.setattr(duplicate_identity, "_not_alone", note)


def _for_ever(self: OutgoingQueue, lane: int) -> int:
    """Once there was another one, nothing is certain any more."""
    return 1 << 40 if self.elsewhere else self.transmitted.get(lane, 0)


def _streams_only(self: OutgoingQueue, lane: int) -> int:
    found = self.transmitted.get(lane, 0)
    return max(found, self.elsewhere.get(lane, 0)) if lane == TRANSACTIONAL_LANE else found


def _not_noticed(step: Step, peer: Peer, ack: FinalAck) -> None:
    """The end of a message that was never transmitted shows nothing."""


PLANTED = (
    Planted(
        "a-clone-goes-on-claiming", replaced(duplicate_identity, "_not_alone", _alone), IN_DOUBT,
    ),
    Planted(
        "a-clone-goes-on-claiming-in-some-world",
        _beside(replaced(duplicate_identity, "_not_alone", _alone), clones=1.0), SIM, first=20,
    ),
    Planted("a-clone-claims-again-after-a-restart", _until_the_restart, IN_DOUBT),
    Planted(
        "who-was-cloned-once-is-never-certain-again",
        replaced(OutgoingQueue, "may_have_left", _for_ever),
        CLONES + "what_is_sent_after_a_clone_has_noticed_is_certain",
    ),
    Planted(
        "a-clone-claims-outside-transactions",
        replaced(OutgoingQueue, "may_have_left", _streams_only),
        CLONES + "messages_outside_transactions_are_in_doubt_as_well",
    ),
    Planted(
        "an-end-of-what-only-the-other-has-sent-is-a-lie",
        replaced(trust, "sent_elsewhere", lambda *_: 0), ENDS,
    ),
    Planted(
        "an-early-end-shows-no-clone", replaced(arrival, "ended_elsewhere", _not_noticed),
        CLONES + "after_such_an_end_the_rest_is_in_doubt",
    ),
    Planted(
        "why-does-not-say-what-a-clone-may-have-sent",
        replaced(queue_views, "_elsewhere", lambda outgoing: 0),
        CLONES + "why_says_what_another_copy_may_have_sent",
    ),
)  # fmt: skip
