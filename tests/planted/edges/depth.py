"""Mistakes in what keeps the work of a step from growing: things that are noted, and then not."""

from __future__ import annotations

from onceq.core.management import change_settings
from onceq.core.transfer import transmit, untold
from tests.planted.planted import Planted, edited

TRANSMIT = "tests/unit/core/transfer/test_transmit.py::"

PLANTED = (
    Planted("a-full-window-is-not-noted",
            edited(transmit, "step.sessions.full_windows.add(outgoing.number)", "pass"),
            TRANSMIT
            + "test_a_final_acknowledgment_that_comes_first_makes_room_in_a_full_window"),
    Planted("what-did-not-fit-loses-its-turn",
            edited(transmit, "peer.turns.note(outgoing.number)", "pass"),
            TRANSMIT + "test_a_queue_that_is_always_full_holds_up_no_other"),
    Planted("new-settings-are-not-told-to-sessions",
            edited(change_settings,
                   "start_if_possible(step, step.state.outgoing_numbered(number))", "pass"),
            TRANSMIT + "test_a_larger_window_lets_more_leave_at_once"),
    Planted("a-question-about-many-streams-begins-anew",
            edited(untold, "entries, asked = [], s.base + 1", "entries, asked = [], 1"),
            "tests/unit/core/state/test_earlier_streams.py::"
            "test_a_question_about_many_streams_goes_on_later"),
)  # fmt: skip
