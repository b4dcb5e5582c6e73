"""Planted mistakes about whose word counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from onceq.core.step.step import Step
from onceq.model.marks import NEVER_S
from onceq.model.requests import AcceptClock, SteerOutgoing
from tests.planted.planted import SIM, Planted

WORD = "tests/conformance/test_word.py::"


def _anybody_acknowledges(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.peers import trust

    patch.setattr(trust, "serves", lambda *_: True)


def _claims_are_believed(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import arrival

    patch.setattr(arrival, "speaks_for", lambda *_: "")


def _numbers_never_transmitted(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.peers import trust

    patch.setattr(trust, "_possible", lambda *_: True)


def _bindings_forgotten(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.peer_table import Bindings

    patch.setattr(Bindings, "dump", lambda self: [])


def _the_one_before_may_tell_of_all(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state import peer_table, state

    original = peer_table.hand_over

    def hand_over(outgoing_queue: object, before: bytes, sent: int | None) -> None:
        original(outgoing_queue, before, (1 << 40))  # type: ignore[arg-type]

    patch.setattr(state, "hand_over", hand_over)


def _the_new_one_may_tell_of_what_was(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state import state

    patch.setattr(state, "hand_over", lambda *_: None)


def _a_future_is_accepted(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import admission

    patch.setattr(admission, "refused_as_future", lambda *_: False)


def _a_future_is_noted_of_an_inquiry(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import pending_outcomes

    patch.setattr(pending_outcomes, "refused_as_future", lambda *_: False)


def _whoever_comes_first_is_the_router(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.peer_table import Bindings

    original = Bindings.guid_of

    def guid_of(self: Bindings, name: str) -> bytes:
        return original(self, name) or b"stranger".ljust(16, b"\7")

    patch.setattr(Bindings, "guid_of", guid_of)


def _nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import ordered_arrival

    patch.setattr(ordered_arrival, "turn_away", lambda *_, **__: None)


def _a_reset_knows_nothing_of_the_stream_before(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.in_doubt_table import Memories

    patch.setattr(Memories, "back", lambda *_: None)


def _a_reset_is_certain_of_what_was(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.setups import StreamSetBack
    from onceq.core.state.state import State

    original = State._set_back

    def certain(self: State, setup: StreamSetBack) -> None:
        original(self, setup)
        for progress in self.progress.values():
            progress.vague = False

    patch.setattr(State, "_set_back", certain)


def _everybody_is_known(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.peers import strangers

    patch.setattr(strangers, "known", lambda *_: True)


def _dead_letters_of_others_without_end(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import admission

    patch.setattr(admission, "unasked_room", lambda *_: True)


def _answers_without_end(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.ending import acknowledgments
    from onceq.core.transfer import admission

    patch.setattr(admission, "answer_room", lambda *_: True)
    patch.setattr(acknowledgments, "answer_room", lambda *_: True)


def _answers_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.step.step import Step
    from onceq.model.marks import NEVER_S

    patch.setattr(Step, "reach_by_s", lambda self: NEVER_S)


def _strangers_are_tried_as_often_as_others(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import connecting

    patch.setattr(connecting, "retry_s", lambda step, _: step.settings.connect_retry_s)


def _as_many_connections_as_strangers_want(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import connecting

    patch.setattr(connecting, "may_connect", lambda *_: True)


def _tidy_gives_up_answers(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.management import operations

    tidy = operations._tidy

    def gives_up(step: Step, item: SteerOutgoing, answer: int | None) -> Iterator[None]:
        operations._forget_unanswered(step)
        return tidy(step, item, answer)

    patch.setattr(operations, "_tidy", gives_up)


def _answers_are_given_up_in_silence(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.step.step import Step

    patch.setattr(Step, "act_notice", lambda *_, **__: None)


def _an_accepted_clock_has_no_end(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.peer_table import ClocksAhead

    patch.setattr(ClocksAhead, "until_s", lambda self, guid: NEVER_S if len(self) else 0)


def _an_accepted_clock_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.peer_table import ClocksAhead

    patch.setattr(ClocksAhead, "load", lambda *_: None)


def _a_dry_run_accepts(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.management import peer_operations
    from onceq.core.manager import Manager

    accept = peer_operations.accept_clock
    original = Manager.__init__

    def init(self: Manager, *arguments: object, **more: object) -> None:
        original(self, *arguments, **more)  # type: ignore[arg-type]
        self._rules[AcceptClock] = lambda step, item: accept(step, replace(item, dry_run=False))

    patch.setattr(Manager, "__init__", init)


def _names_are_not_pinned(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transfer import sessions

    patch.setattr(sessions, "may_not_serve", lambda *_: "")


STRANGERS = "tests/conformance/test_strangers.py::"

PLANTED = (
    Planted(
        "names-are-not-pinned", _names_are_not_pinned,
        WORD + "test_a_name_that_is_taken_over",
    ),
    Planted("a-liar-acknowledges", _anybody_acknowledges, SIM, first=40),
    Planted(
        "everybody-is-known", _everybody_is_known,
        STRANGERS + "test_strangers_fill_half_of_the_quota",
    ),
    Planted(
        "dead-letters-of-others-without-end", _dead_letters_of_others_without_end,
        STRANGERS + "test_transactional_messages_to_a_plain_queue_fill_a_share_only",
    ),
    Planted(
        "answers-without-end", _answers_without_end,
        STRANGERS + "test_a_stranger_has_so_many_bytes_of_answers",
    ),
    Planted(
        "answers-wait-for-ever", _answers_wait_for_ever,
        STRANGERS + "test_answers_wait_no_longer_than_messages",
    ),
    Planted(
        "strangers-tried-as-often-as-others", _strangers_are_tried_as_often_as_others,
        STRANGERS + "test_administration_queues_of_a_strangers_choice",
    ),
    Planted(
        "as-many-connections-as-wanted", _as_many_connections_as_strangers_want,
        STRANGERS + "test_few_connections_are_tried_for_strangers",
    ),
    Planted(
        "an-accepted-clock-has-no-end", _an_accepted_clock_has_no_end,
        WORD + "test_what_is_accepted_of_one_clock_holds_for_no_other",
    ),
    Planted(
        "an-accepted-clock-is-forgotten", _an_accepted_clock_is_forgotten,
        "tests/property/test_checkpoint.py::test_every_part_of_a_checkpoint_is_compared",
    ),
    Planted(
        "a-dry-run-accepts-a-clock", _a_dry_run_accepts,
        WORD + "test_a_manager_whose_clock_was_ahead_is_taken_after_an_operators_word",
    ),
    Planted(
        "tidy-gives-up-answers", _tidy_gives_up_answers,
        STRANGERS + "test_an_honest_manager_that_is_away_has_its_acknowledgments_after_a_tidy",
    ),
    Planted(
        "answers-given-up-in-silence", _answers_are_given_up_in_silence,
        STRANGERS + "test_administration_queues_of_a_strangers_choice",
    ),
    Planted(
        "nobody-is-told-of-stale-streams", _nobody_is_told,
        WORD + "test_a_sender_is_told_that_its_messages_are_turned_away",
    ),
    Planted(
        "a-reset-forgets-the-stream-before", _a_reset_knows_nothing_of_the_stream_before,
        WORD + "test_a_reset_goes_back_to_the_stream_before",
    ),
    Planted(
        "a-reset-is-certain-of-what-was", _a_reset_is_certain_of_what_was,
        WORD + "test_a_reset_that_forgets_promises_nothing_about_what_was",
    ),
    Planted(
        "anybody-acknowledges", _anybody_acknowledges,
        WORD + "test_a_strangers_order_acknowledgment_lets_nothing_go",
    ),
    Planted(
        "messages-under-any-guid", _claims_are_believed,
        WORD + "test_messages_of_another_manager_are_refused",
    ),
    Planted(
        "numbers-never-transmitted", _numbers_never_transmitted,
        WORD + "test_an_acknowledgment_of_what_was_never_transmitted",
    ),
    Planted(
        "who-serves-is-not-in-the-checkpoint", _bindings_forgotten,
        WORD + "test_who_serves_a_queue_is_known_after_a_checkpoint",
    ),
    Planted(
        "the-manager-before-tells-of-everything", _the_one_before_may_tell_of_all,
        WORD + "test_what_a_manager_was_given_it_may_tell_of_after_another_has_its_name",
    ),
    Planted(
        "the-manager-behind-tells-of-everything", _the_new_one_may_tell_of_what_was,
        WORD + "test_what_a_manager_was_given_it_may_tell_of_after_another_has_its_name",
    ),
    Planted(
        "streams-from-the-future", _a_future_is_accepted,
        WORD + "test_a_stream_from_the_future_is_never_recorded",
    ),
    Planted(
        "inquiries-from-the-future", _a_future_is_noted_of_an_inquiry,
        WORD + "test_a_stream_from_the_future_is_never_recorded",
    ),
    Planted(
        "whoever-comes-first-is-the-router", _whoever_comes_first_is_the_router,
        WORD + "test_a_router_is_met_before_it_is_believed",
    ),
)  # fmt: skip
