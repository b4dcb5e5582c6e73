"""Planted mistakes about what is told of refusals, poison and endings."""

from __future__ import annotations

import pytest

from onceq.core.transfer import transmit
from tests.planted.planted import Planted, edited

POISON = "tests/daemon/test_poison_told.py::"
REFUSED = "tests/conformance/test_refused.py::"


def _endings_are_counted_since_the_start_alone(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.outgoing_queues import Endings

    patch.setattr(Endings, "dump", lambda self: [])


def _late_refusals_are_kept_for_nobody(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import in_doubt

    patch.setattr(in_doubt, "keeps_refusal", lambda *_: False)


def _what_failed_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state import queue_tables, state

    for module in (state, queue_tables):
        patch.setattr(module, "carry_failures", lambda *_: None)


def _poison_is_no_dead_letter(patch: pytest.MonkeyPatch) -> None:
    from onceq.cli import letters
    from onceq.model.letters import DEAD, DEAD_XACT

    patch.setattr(letters, "dead_queues", lambda connection, queue: [DEAD_XACT, DEAD])


PLANTED = (
    Planted("acknowledged-before-it-is-told-to-be-refused",
            edited(transmit, "ACK_LANE in untold.lanes and", "False and"),
            REFUSED + "test_the_refusal_is_told_before_the_acknowledgment_that_covers_it"),
    Planted("endings-are-not-in-a-checkpoint", _endings_are_counted_since_the_start_alone,
            "tests/unit/core/state/test_outgoing_queues_endings.py::"
            "test_a_checkpoint_keeps_them_and_an_older_one_has_none"),
    Planted("what-is-refused-late-is-kept-for-nobody", _late_refusals_are_kept_for_nobody,
            REFUSED + "test_what_is_told_late_of_what_was_in_doubt"),
    Planted("what-failed-is-left-behind", _what_failed_is_left_behind,
            POISON + "test_whoever_gives_it_back_or_refuses_it_says_why"),
    Planted("poison-is-no-dead-letter", _poison_is_no_dead_letter,
            POISON + "test_it_is_in_every_list"),
)  # fmt: skip
