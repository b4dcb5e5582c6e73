"""Mistakes about a manager that was copied and receives, found by simulated worlds in which both
copies have queues, and by the tests of what those worlds have found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.core.peers import duplicate_identity, trust
from onceq.core.state.peer_table import Peer
from onceq.core.step.step import Step
from onceq.core.transfer import in_doubt, pending_outcomes, sessions
from onceq.model.limits import NOTES_MAX
from proof.sim.faults import beside as worlds
from proof.sim.judge import copied_queues
from tests.planted.planted import SIM, Planted, replaced

CORE = "tests/unit/core/peers/test_lives.py::test_"
STRANDED = "tests/conformance/test_stranded.py::test_"
Plant = Callable[[pytest.MonkeyPatch], None]


def _receiving(plant: Plant) -> Plant:
    """Plant it, and let two copies with queues run side by side in every world."""

    def all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worlds, "SHARE", 1.0)
        monkeypatch.setattr(copied_queues, "SHARE", 1.0)
        plant(monkeypatch)

    return all_of_it


def _among_the_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there are two is told in the place of questions, if there is room."""
    both = duplicate_identity._both

    def crowding(step: Step, peer: Peer) -> None:
        both(step, peer)
        for one in step.sessions.peers.values():
            if one.warning and len(one.notes) < NOTES_MAX:
                one.notes.append(one.warning)
            one.warning = b""

    monkeypatch.setattr(duplicate_identity, "_both", crowding)


def _never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks one copy of what the other one has acknowledged."""
    for module in (pending_outcomes, sessions):
        monkeypatch.setattr(module, "ask", lambda step, outgoing: None)


def _no_room_asked(step: Step, peer: Peer, packet: bytes) -> bool:
    trust.note(step, peer, packet)
    return True


PLANTED = (
    Planted(
        "only-the-last-life-of-another-manager-is-remembered",
        replaced(duplicate_identity, "LIVES_OF_ONE_MET_MAX", 1),
        CORE + "an_earlier_life_that_has_risen_above_the_later_one_is_at_work",
    ),
    Planted(
        "that-there-are-two-is-told-instead-of-asking", _among_the_notes,
        CORE + "warnings_do_not_take_the_room_of_questions",
    ),
    Planted(
        "what-the-other-copy-may-have-sent-is-forgotten-in-a-restart",
        replaced(duplicate_identity, "_not_alone", lambda step: None),
        STRANDED + "what_a_copy_has_sent_is_not_sent_again_after_a_restart",
    ),
    Planted(
        "what-one-copy-has-not-accepted-was-not-delivered",
        replaced(in_doubt, "found_of", lambda step, guid: ""),
        "tests/conformance/test_doubts.py::test_what_one_of_two_copies_does_not_know_may_have_"
        "reached_the_other",
    ),
    Planted(
        "a-question-without-room-counts-as-asked", replaced(pending_outcomes, "note",
                                                            _no_room_asked),
        "tests/conformance/test_untold.py::test_a_question_for_which_there_is_no_room_is_asked_"
        "soon",
    ),
    Planted("what-the-other-copy-took-is-not-asked-about", _receiving(_never_asked), SIM),
)  # fmt: skip
