"""Planted mistakes where what a queue is called meets another capability (finding D1)."""

from __future__ import annotations

import pytest

from onceq.core import names as resolve
from onceq.core.management import msmq_names
from onceq.core.peers import trust
from onceq.core.state import snapshot, state
from onceq.core.transfer import abandoned_streams, pending_outcomes
from tests.planted.planted import SIM, Planted, edited

CASES = "tests/conformance/test_public_names.py::test_"
OLD = "tests/unit/core/state/test_old_stores.py::test_"
_UNNAMED = "__import__('onceq.packet.address').packet.address.Address(3)"
_LEFT_OUT = edited(abandoned_streams, "address_of_name(outgoing.name)", _UNNAMED)
_ANSWERED = edited(pending_outcomes, "if asked.destination == NO_QUEUE:", "if False:")


def _as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All public queues are asked about, and answered for, as one."""
    _LEFT_OUT(monkeypatch)
    _ANSWERED(monkeypatch)


PLANTED = (
    Planted("all-public-queues-are-asked-about-as-one", _as_one, SIM, 0x5000),
    Planted(
        "an-inquiry-leaves-out-the-guid",
        _LEFT_OUT,
        f"{CASES}a_doubt_about_a_public_queue_becomes_certain",
    ),
    Planted(
        "older-managers-are-asked-about-public-queues",
        edited(abandoned_streams, "(peer.publics or outgoing.name.kind is not Kind.PUBLIC)",
                                    "True"),
        f"{CASES}an_older_manager_is_not_asked_about_a_public_queue",
    ),
    Planted(
        "who-cannot-name-the-queue-is-answered",
        _ANSWERED,
        f"{CASES}an_older_manager_that_cannot_name_the_queue_is_told_nothing",
    ),
    Planted(
        "checkpoints-bring-back-what-was-noted-of-no-queue",
        edited(snapshot, "if row[1] != UNNAMED", "if True"),
        f"{OLD}what_was_noted_of_queues_without_a_name_is_not_read",
    ),
    Planted(
        "records-bring-back-what-was-noted-of-no-queue",
        edited(state, "if advance.key == UNNAMED:", "if False:"),
        f"{OLD}what_was_noted_of_queues_without_a_name_is_not_read",
    ),
    Planted(
        "a-queue-in-other-letters-is-none-when-messages-come",
        edited(resolve, "key = address.direct.casefold()", "key = address.direct"),
        SIM,
    ),
    Planted(
        "who-has-a-public-queue-is-believed-only-when-he-has-answered",
        edited(trust, "if not now and outgoing.name.kind is Kind.PUBLIC:", "if False:"),
        f"{CASES}an_end_that_is_told_to_a_copy_counts_before_it_has_sent_there",
    ),
    Planted(
        "the-streams-to-a-public-queue-lead-to-none",
        edited(msmq_names, "key in (by_number, public_key(queue.properties.instance))",
               "key == by_number"),
        f"{CASES}a_public_queue_shows_the_streams_that_lead_to_it",
    ),
)  # fmt: skip
