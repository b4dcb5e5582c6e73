"""Mistakes about what a receiver remembers for others, and what a sender makes of it."""

from __future__ import annotations

import pytest

from onceq.core.peers import lives
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.step.step import Step
from onceq.core.transfer import abandoned_streams, pending_outcomes
from onceq.packet.acks import StreamMemory
from tests.planted.planted import Planted, replaced

STRANDED = "tests/conformance/test_stranded.py::"
PUT_BACK = "tests/conformance/test_put_back.py::"


def claims_not_told(patch: pytest.MonkeyPatch) -> None:
    """What one life has claimed is told to the next as never accepted."""

    def claimed(step: Step, peer: Peer, key: str, memory: StreamMemory, fence: int) -> StreamMemory:
        return memory

    patch.setattr(pending_outcomes, "_claimed", claimed)


def first_fence_only(patch: pytest.MonkeyPatch) -> None:
    """A queue whose messages were stranded once is never fenced again."""
    fence = abandoned_streams._fence
    fenced: set[int] = set()

    def once(step: Step, outgoing: OutgoingQueue, here: int) -> None:
        if outgoing.number not in fenced:
            fenced.add(outgoing.number)
            fence(step, outgoing, here)

    patch.setattr(abandoned_streams, "_fence", once)


PLANTED = (
    Planted(
        "claims-not-told", claims_not_told,
        STRANDED + "test_what_an_undone_life_has_sent_is_not_sent_again_after_a_crash",
    ),
    Planted(
        "first-fence-only", first_fence_only,
        STRANDED + "test_what_is_stranded_twice_is_settled_twice",
    ),
    Planted(
        "restore-not-why", replaced(lives, "of_outgoing", lambda step, outgoing: None),
        PUT_BACK + "test_why_says_that_what_waits_was_put_back_and_for_how_long",
    ),
)  # fmt: skip
