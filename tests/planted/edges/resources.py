"""Planted mistakes about descriptors, memory, signals, commands and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.service import listening
from tests.planted.planted import Planted, edited

ADMISSION = "tests/unit/service/test_admission.py::"
NETWORK = "tests/unit/service/test_network.py::"
LISTENING = "tests/unit/service/test_listening.py::"
ANSWERS = "tests/unit/service/test_answers.py::"


def _nobody_makes_room(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.admission import Admission

    patch.setattr(Admission, "relieve", lambda self: False)


def _numbers_of_descriptors_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.admission import Admission

    original = Admission.enter

    def enter(self: Admission, kind: Any, address: str, number: int, cut: Any) -> Any:
        return original(self, kind, address, 0, cut)

    patch.setattr(Admission, "enter", enter)


def _everybody_is_known(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.admission import Admission

    original = Admission.speaks
    patch.setattr(Admission, "speaks", lambda self, place, known: original(self, place, known=True))


def _each_line_is_written(patch: pytest.MonkeyPatch) -> None:
    from onceq.service import pacing

    patch.setattr(pacing, "LOG_LINES_AT_ONCE", 1 << 30)


def _spares_are_not_used(patch: pytest.MonkeyPatch) -> None:
    from onceq.store.files import Spares

    patch.setattr(Spares, "use", lambda self, work: work())


def _what_was_read_is_not_given_back(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.answers import Answers

    patch.setattr(Answers, "_take_back", lambda self, asker, account: None)


def _what_waits_keeps_its_room(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.answers import Answers

    patch.setattr(Answers, "end", lambda self: self.wake())


def _a_peek_that_waited_is_always_built(patch: pytest.MonkeyPatch) -> None:
    from onceq.service.answers import Answers

    patch.setattr(Answers, "takes", lambda self, asker, request, size: True)


def _waits_are_plain_sleeps(patch: pytest.MonkeyPatch) -> None:
    import select

    from onceq.client import stopping

    def waited(file: int | None, wake: Any, seconds: float | None) -> bool:
        poll = select.poll()
        if file is not None:
            poll.register(file, select.POLLIN)
        return bool(poll.poll(None if seconds is None else int(seconds * 1000)))

    patch.setattr(stopping, "_waited", waited)


def _a_limit_of_no_time_undoes_all(patch: pytest.MonkeyPatch) -> None:
    from onceq.core import manager
    from onceq.core.step.step import Timer
    from onceq.core.transaction import unit_of_work

    def look(step: Any, nobody: object) -> None:
        for tx in list(step.units.all()):
            unit_of_work._undo(step, tx, 1)

    patch.setitem(manager._TIMERS, Timer.IDLE, look)


def _what_was_not_watched_stays_so(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transaction import unit_of_work

    patch.setattr(unit_of_work, "watch", lambda step: None)


def _taken_out_is_never_in_doubt(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.ending.ending import gave_up
    from onceq.core.transfer import in_doubt

    def certain(build: Any, outgoing: Any, lane: int, first: int, count: int, reason: Any) -> None:
        transmitted, outgoing.transmitted = outgoing.transmitted, {}
        gave_up(build, outgoing, lane, first, count, reason)
        outgoing.transmitted = transmitted

    patch.setattr(in_doubt, "gave_up", certain)


def _open_makes_what_is_mistyped(patch: pytest.MonkeyPatch) -> None:
    from onceq.embedded import host

    patch.setattr(host, "_check_absent", lambda path, create: None)


def _given_up_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    from onceq.client import why

    patch.setattr(why, "_ended", lambda view: "everything sent was acknowledged")


PLANTED = (
    Planted("nobody-makes-room", _nobody_makes_room,
            ADMISSION
            + "test_of_those_who_say_nothing_the_oldest_of_the_most_crowded_address_goes"),
    Planted("numbers-of-descriptors-do-not-matter", _numbers_of_descriptors_do_not_matter,
            ADMISSION + "test_the_local_socket_has_descriptors_when_strangers_have_none_left"),
    Planted("every-stranger-is-known", _everybody_is_known,
            ADMISSION + "test_strangers_leave_room_for_those_that_are_known"),
    Planted("accepting-never-pauses",
            edited(listening,
                   "                    self._loop.remove_reader(self._socket.fileno())\n"
                   "                    self._pause = self._loop.call_later(ACCEPT_PAUSE_S, "
                   "self._go_on)\n", ""),
            LISTENING + "test_nobody_is_accepted_for_a_while_when_the_system_has_no_descriptors"),
    Planted("each-line-is-written", _each_line_is_written,
            NETWORK + "test_lines_that_strangers_cause_are_counted"),
    Planted("spare-descriptors-are-not-used", _spares_are_not_used,
            "tests/unit/store/test_files_spares.py::"
            "test_the_store_opens_files_although_the_process_has_no_descriptor_left"),
    Planted("what-was-read-is-not-given-back", _what_was_read_is_not_given_back,
            ANSWERS + "test_one_application_that_does_not_read_leaves_room_for_one_that_does"),
    Planted("what-waits-keeps-its-room", _what_waits_keeps_its_room,
            ANSWERS + "test_what_was_asked_for_and_waits_for_a_message_holds_nothing"),
    Planted("a-peek-that-waited-is-always-built", _a_peek_that_waited_is_always_built,
            ANSWERS + "test_a_peek_that_has_waited_is_put_off_while_there_is_no_room"),
    Planted("waits-are-plain-sleeps", _waits_are_plain_sleeps,
            "tests/unit/client/test_stopping_pause.py::test_a_signal_just_before_a_pause_ends_it"),
    Planted("a-limit-of-no-time-undoes-all", _a_limit_of_no_time_undoes_all,
            "tests/unit/core/management/test_operations_change_settings.py::"
            "test_a_limit_that_is_switched_off_undoes_nothing"),
    Planted("what-was-not-watched-stays-so", _what_was_not_watched_stays_so,
            "tests/unit/core/management/test_operations_change_settings.py::"
            "test_a_limit_that_is_switched_on_counts_for_what_is_open_already"),
    Planted("taken-out-is-never-in-doubt", _taken_out_is_never_in_doubt,
            "tests/conformance/test_taken_out.py::"
            "test_what_never_left_is_not_delivered_and_what_may_have_left_is_in_doubt"),
    Planted("open-makes-what-is-mistyped", _open_makes_what_is_mistyped,
            "tests/unit/embedded/test_opening.py::test_a_mistyped_name_makes_nothing"),
    Planted("what-was-given-up-is-called-acknowledged", _given_up_is_not_counted,
            "tests/unit/client/test_why.py::"
            "test_what_ended_without_an_acknowledgment_is_not_called_acknowledged"),
)  # fmt: skip
