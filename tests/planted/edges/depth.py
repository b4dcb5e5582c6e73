"""Mistakes in what keeps the work of a step from growing: things that are noted, and then not."""

from __future__ import annotations

from onceq.core import manager
from onceq.core.management import change_settings
from onceq.core.receive import receive
from onceq.core.state import position_block
from onceq.core.state.state import State
from onceq.core.transfer import transmit, untold
from tests.planted.planted import SIM, Planted, edited, replaced

DUE = "tests/unit/core/test_manager.py::test_what_expires_later_is_found_when_its_time_comes"
TRANSMIT = "tests/unit/core/transfer/test_transmit.py::"

PLANTED = (
    Planted("what-expires-is-not-noted",
            replaced(State, "expires_by", lambda *_: None), DUE),
    Planted("the-next-expiry-is-not-noted",
            edited(manager, "state.expires_by(number, index)", "pass"), DUE),
    Planted("a-full-window-is-not-noted",
            edited(transmit, "step.sessions.full_windows.add(outgoing.number)", "pass"),
            TRANSMIT
            + "test_a_final_acknowledgment_that_comes_first_makes_room_in_a_full_window"),
    Planted("nobody-says-that-a-window-is-not-full-any-more",
            edited(transmit, "step.sessions.full_windows.add(outgoing.number)", "pass"), SIM),
    Planted("what-did-not-fit-loses-its-turn",
            edited(transmit, "peer.turns.note(outgoing.number)", "pass"),
            TRANSMIT + "test_a_queue_that_is_always_full_holds_up_no_other"),
    Planted("new-settings-are-not-told-to-sessions",
            edited(change_settings,
                   "start_if_possible(step, step.state.outgoing_numbered(number))", "pass"),
            TRANSMIT + "test_a_larger_window_lets_more_leave_at_once"),
    Planted("the-rest-of-an-expiry-is-forgotten",
            edited(position_block, "return now_s, count", "return NEVER_S, count"),
            "tests/unit/core/test_manager.py::"
            "test_many_that_expire_at_once_end_in_several_steps_and_hold_up_nobody"),
    Planted("who-looks-elsewhere-holds-up-those-behind",
            edited(receive, "            passed += 1", "            break"),
            "tests/unit/core/receive/test_receive.py::"
            "test_those_that_only_look_go_first_and_who_looks_elsewhere_stays"),
    Planted("a-question-about-many-streams-begins-anew",
            edited(untold, "entries, asked = [], s.base + 1", "entries, asked = [], 1"),
            "tests/unit/core/state/test_earlier_streams.py::"
            "test_a_question_about_many_streams_goes_on_later"),
)  # fmt: skip
