"""Mistakes in what keeps the work of a step from growing: things that are noted, and then not."""

from __future__ import annotations

import pytest

from onceq.core import manager
from onceq.core.inputs import Input
from onceq.core.management import directory_rules, jobs, operations
from onceq.core.receive import poison, receive
from onceq.core.state import position_block, snapshot
from onceq.core.state.audit_trail import ReportRequests
from onceq.core.state.position_block import PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queues import AnyQueue
from onceq.core.state.snapshot import _Lane
from onceq.core.state.state import State
from onceq.core.step.step import Step
from onceq.core.transfer import in_doubt, pending_outcomes, sessions, transmit
from onceq.model.marks import Now
from onceq.service import upkeep
from onceq.service.engine import Engine
from onceq.service.pacing import Portions, WorkKind
from tests.planted.planted import SIM, Planted, edited, replaced

DUE = "tests/unit/core/test_manager.py::test_what_expires_later_is_found_when_its_time_comes"
PURGES = "tests/unit/core/management/test_operations_purges.py::"
SNAPSHOT = (
    "tests/unit/core/state/test_snapshot.py::test_what_happens_after_it_was_taken_is_not_in_it"
)
SHRINKS = (
    "tests/unit/service/test_upkeep.py::"
    "test_a_drained_store_shrinks_although_little_is_written_and_nothing_follows"
)
POISON = "tests/unit/core/receive/test_poison.py::"
EMPTYING = "tests/unit/service/test_upkeep_emptying.py::"
ATTEMPTS = "tests/unit/core/transfer/test_sessions_attempts.py::"
IN_DOUBT = "tests/unit/core/transfer/test_in_doubt.py::"
PORTIONS = "tests/unit/service/test_pacing_portions.py::"
ASKED = "tests/unit/core/state/test_outgoing_queues_earlier_streams.py::"
UNTOLD = "tests/unit/core/transfer/test_pending_outcomes_untold.py::"
TRANSMIT = "tests/unit/core/transfer/test_transmit.py::"


def shared_tables(patch: pytest.MonkeyPatch) -> None:
    """What stands beside the messages of a lane is not copied for a snapshot."""

    def taken(
        self: _Lane, queue: AnyQueue, index: int, lane: Positions, blocks: list[PositionBlock]
    ) -> None:
        original(self, queue, index, lane, blocks)
        self._beside = (lane.aborts, lane.classes, lane.notes)

    original = _Lane.__init__
    patch.setattr(_Lane, "__init__", taken)


def rest_stays(patch: pytest.MonkeyPatch) -> None:
    """What was not given back in one turn is forgotten."""
    nothing = property(lambda self: False, lambda self, value: None)
    patch.setattr(upkeep.GivingBack, "more", nothing, raising=False)


def house_every_time(patch: pytest.MonkeyPatch) -> None:
    """Housekeeping is done beside the portion of another kind of long work."""

    def portion(self: Engine, now: Now, items: list[Input]) -> WorkKind:
        self._keep_house(now)
        return original(self, now, items)

    original = Engine._portion
    patch.setattr(Engine, "_portion", portion)


PLANTED = (
    Planted("a-pump-keeps-house-beside-another-portion", house_every_time,
            PORTIONS + "test_a_pump_does_one_portion_and_each_kind_has_its_turn"),
    Planted("the-same-kind-of-long-work-is-always-the-first",
            replaced(Portions, "done", lambda *_: None),
            PORTIONS + "test_a_pump_does_one_portion_and_each_kind_has_its_turn"),
    Planted("what-expires-goes-before-all-other-works",
            edited(manager, " and not (step.works and step.expired)", ""),
            PURGES + "test_expiry_takes_turns_with_other_works_and_a_step_does_a_portion_of_one"),
    Planted("what-expires-is-not-noted",
            replaced(State, "expires_by", lambda *_: None), DUE),
    Planted("the-next-expiry-is-not-noted",
            edited(jobs, "state.expires_by(number, index)", "pass"), DUE),
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
            edited(operations,
                   "in some:\n            start_if_possible(step, outgoing)",
                   "in some:\n            pass"),
            TRANSMIT + "test_a_larger_window_lets_more_leave_at_once"),
    Planted("the-rest-of-an-expiry-is-forgotten",
            edited(position_block, "return now_s, count", "return NEVER_S, count"),
            "tests/unit/core/test_manager.py::"
            "test_many_that_expire_at_once_end_in_several_steps_and_hold_up_nobody"),
    Planted("what-is-over-is-handed-out-when-there-is-much-of-it",
            edited(receive, "due and isinstance(queue, Queue) and not expire(step, queue)",
                   "False"),
            "tests/unit/core/test_manager.py::"
            "test_what_has_expired_is_not_received_although_it_has_not_ended"),
    Planted("who-was-put-off-first-is-served-last",
            edited(receive, "        serve_waiting(step, queue)\n    if",
                   "        if _over(step, item, queue):\n"
                   "            step.readers.leave(key)\n    if"),
            "tests/unit/core/test_manager.py::"
            "test_receives_that_were_put_off_are_served_in_their_order"),
    Planted("the-rest-of-a-purge-is-forgotten",
            replaced(Step, "go_on", lambda step: step.works.clear()),
            PURGES + "test_what_comes_in_during_a_purge_stays"),
    Planted("what-comes-in-during-a-purge-goes-with-it",
            edited(operations, "{index: lane.next for", "{index: 1 << 60 for"),
            PURGES + "test_what_comes_in_during_a_purge_stays"),
    Planted("what-is-locked-during-a-purge-comes-back",
            edited(operations,
                   "build.move(RangeChange(Op.PURGE, queue.number, index, first, size))",
                   "pass"),
            PURGES + "test_what_is_locked_during_a_purge_follows_when_its_transaction_ends"),
    Planted("what-is-about-to-be-purged-leaves",
            edited(operations, "queue.purging, held = queue.purging + 1 - held, 1", "pass"),
            PURGES + "test_nothing_leaves_an_outgoing_queue_while_it_is_purged"),
    Planted("a-snapshot-shares-what-can-still-grow",
            replaced(ReportRequests, "taken", lambda self: list(self)), SNAPSHOT),
    Planted("a-snapshot-shares-a-table", shared_tables, SNAPSHOT),
    Planted("what-is-moved-is-moved-in-a-snapshot-too",
            replaced(PositionBlock, "unshare", lambda _: None),
            "tests/unit/core/state/test_snapshot.py::"
            "test_tables_that_change_in_their_place_are_left_to_the_snapshot"),
    Planted("a-snapshot-shares-a-row",
            edited(snapshot, "list(state.first_heard.items())", "state.first_heard.items()"),
            "tests/unit/core/state/test_snapshot.py::"
            "test_rows_of_queues_and_streams_are_those_of_that_moment"),
    Planted("the-rest-of-what-waits-for-another-attempt-is-forgotten",
            edited(poison, "if len(change.moves) < ENDED_AT_ONCE:", "if change.moves:"),
            POISON + "test_many_messages_come_back_in_several_steps_and_in_order"),
    Planted("the-rest-of-what-was-given-back-is-forgotten",
            edited(poison, "range(0, len(given), ENDED_AT_ONCE)", "range(0, 1)"),
            POISON + "test_a_new_policy_looks_at_what_was_given_back_before_in_several_steps"),
    Planted("a-search-of-an-old-segment-begins-anew",
            edited(upkeep, "self._at = sparse, found.cursor", "self._at = None"),
            EMPTYING + "test_a_pump_does_one_portion_and_the_next_one_goes_on"),
    Planted("an-old-segment-is-emptied-in-one-turn",
            replaced(upkeep, "PORTION_POSITIONS", 1 << 40),
            EMPTYING + "test_a_pump_does_one_portion_and_the_next_one_goes_on"),
    Planted("the-rest-of-the-old-segments-stays", rest_stays, SHRINKS),
    Planted("all-old-segments-go-in-one-turn",
            replaced(upkeep, "GIVEN_BACK_AT_ONCE", 1 << 20), SHRINKS),
    Planted("who-looks-elsewhere-holds-up-those-behind",
            edited(receive, "            passed += 1", "            break"),
            "tests/unit/core/receive/test_receive.py::"
            "test_those_that_only_look_go_first_and_who_looks_elsewhere_stays"),
    Planted("what-is-sent-after-an-attempt-ends-with-it",
            edited(sessions, "outgoing.lanes[index].next for index", "1 << 60 for index"),
            ATTEMPTS + "test_what_is_sent_meanwhile_is_for_the_next_attempt"),
    Planted("what-was-tried-once-leaves-all-the-same",
            edited(sessions,
                   "        outgoing.purging += 1\n        yield\n        outgoing.purging -= 1\n",
                   "        yield\n"),
            ATTEMPTS + "test_nothing_that_is_to_end_leaves_on_a_session_that_comes_meanwhile"),
    Planted("what-is-said-again-is-settled-twice-at-a-time",
            edited(in_doubt, "m.stream not in settling and ", ""),
            IN_DOUBT + "test_what_is_said_again_meanwhile_begins_no_second_work"),
    Planted("who-can-be-asked-after-all-is-not",
            edited(in_doubt, "if peer is None or can_ask(peer, outgoing):", "if False:"),
            IN_DOUBT + "test_who_can_be_asked_after_all_is_asked"),
    Planted("a-question-about-many-doubts-begins-anew",
            edited(in_doubt, "return some[0][0]", "return 0"),
            IN_DOUBT + "test_a_question_that_finds_no_room_goes_on_where_it_stopped"),
    Planted("what-moves-while-wishes-are-looked-at-is-left-out",
            edited(pending_outcomes, "                        left, whole = LOOKED_AT_ONCE, False",
                   "                        left = LOOKED_AT_ONCE"),
            UNTOLD + "test_what_moves_to_where_was_looked_already_is_not_left_out"),
    Planted("a-part-that-was-answered-puts-off-the-rest",
            edited(pending_outcomes, "not ends.goes_on and not ends.open", "not ends.open"),
            ASKED + "test_an_answer_to_a_part_of_a_question_does_not_put_off_the_rest"),
    Planted("what-was-answered-is-asked-again-soon",
            edited(pending_outcomes, "elif asks and not ends.open:", "elif False:"),
            ASKED + "test_an_answer_to_a_part_of_a_question_does_not_put_off_the_rest"),
    Planted("a-part-without-an-answer-is-forgotten",
            edited(pending_outcomes, "            outgoing.ends.open.add(s.stream)\n", ""),
            ASKED + "test_a_question_of_which_a_part_was_not_answered_is_asked_again_soon"),
    Planted("the-rest-of-a-question-makes-a-session",
            edited(pending_outcomes, "if not outgoing.ends.goes_on and outgoing.link",
                   "if outgoing.link"),
            ASKED + "test_who_turns_everybody_away_is_not_asked_for_the_rest_of_a_question"),
    Planted("ends-that-are-told-meanwhile-are-not-waited-for",
            edited(pending_outcomes, "is not peer or _under_way(step, peer.peer)", "is not peer"),
            UNTOLD + "test_what_ends_meanwhile_is_told_before_the_answer"),
    Planted("what-is-sought-behind-much-that-is-over-is-not-looked-for-again",
            edited(receive, "item.seek is requests.Seek.CURRENT or not _over(step, item, queue)",
                   "True"),
            "tests/unit/core/test_manager.py::"
            "test_where_all_is_over_nothing_is_found_by_its_place"),
    Planted("what-a-directory-lacks-leaves-all-the-same",
            edited(directory_rules, "outgoing.purging += 1\n                gone.append(outgoing)",
                   "outgoing.purging += 0\n                gone.append(outgoing)"),
            "tests/unit/core/management/test_directory_rules.py::"
            "test_nothing_leaves_a_queue_that_is_gone"),
    Planted("a-question-about-many-streams-begins-anew",
            edited(pending_outcomes, "entries, asked = [], s.base + 1", "entries, asked = [], 1"),
            "tests/unit/core/state/test_outgoing_queues_earlier_streams.py::"
            "test_a_question_about_many_streams_goes_on_later"),
)  # fmt: skip
