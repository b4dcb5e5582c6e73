"""Mistakes that show where clocks differ, where the tail of a log is torn, and among liars."""

from __future__ import annotations

from onceq.core.peers import duplicate_identity, lives
from onceq.core.state.peer_table import Peer
from onceq.core.state.setups import LifeBegun
from onceq.core.step.step import Step
from onceq.core.transfer import admission, in_doubt
from onceq.model.marks import NEVER_S
from onceq.model.run import Buffer
from onceq.packet.acks import TwoLives
from onceq.packet.arrived import ArrivedRun
from onceq.store.framing import Frame, Framing, Sound
from tests.planted.planted import Planted, replaced

CLOCKS = "tests/conformance/test_clocks.py::test_"

WORD = "tests/conformance/test_word.py::test_a_stranger_does_not_tell_of_a_second_life"
TORN = "tests/crash/test_power_loss.py::test_torn_tails_are_cut"


def _age_without_sign(step: Step, run: ArrivedRun) -> bool:
    lifetime = min(run.time_to_reach_queue or NEVER_S, run.time_to_be_received)
    return lifetime < NEVER_S - 1 and abs(step.now.wall_s - run.sent_time) > lifetime


def _never_late(step: Step, run: ArrivedRun) -> bool:
    return False


def _stamp_of_the_clock(step: Step, entropy: bytes, *_: object, **more: object) -> None:
    state = step.state
    step.setup(
        LifeBegun(id=entropy[:16], stamp=step.now.wall_s, ordinal=1, message=state.next_message)
    )


def _unchecked(self: Framing, data: Buffer, at: int, *, position: int) -> Sound | None:
    frame = self.head(data, at, position=position)
    return Sound(frame) if frame is not None and at + self._stored(frame) <= len(data) else None


def _whole_if_its_end_is_there(
    self: Framing, view: memoryview, at: int, frame: Frame, head: int = 0
) -> bool:
    return any(view[at + self._stored(frame) - 1 : at + self._stored(frame)])


def _whoever_says_it(step: Step, peer: Peer, said: TwoLives) -> None:
    duplicate_identity.note(step, step.identity.guid, duplicate_identity.LIVES, at=peer.address)


PLANTED = (
    Planted(
        "a-stranger-tells-of-a-second-life",
        replaced(in_doubt, "note_other_life", _whoever_says_it),
        WORD,
    ),
    Planted("torn-tails-are-believed", replaced(Framing, "sound", _unchecked), TORN),
    Planted(
        "a-frame-is-whole-if-its-end-is-there",
        replaced(Framing, "_sealed", _whole_if_its_end_is_there),
        TORN,
    ),
    Planted(
        "a-sender-whose-clock-is-ahead-is-punished",
        replaced(admission, "_too_late", _age_without_sign),
        CLOCKS + "a_sender_whose_clock_is_ahead_is_not_punished",
    ),
    Planted(
        "no-lifetime-is-over-on-arrival",
        replaced(admission, "_too_late", _never_late),
        CLOCKS + "a_time_to_reach_the_queue_is_over_at_a_receiver_whose_clock_is_ahead",
    ),
    Planted(
        "stamps-follow-the-clock-alone",
        replaced(lives, "begin", _stamp_of_the_clock),
        CLOCKS + "streams_rise_after_a_clock_was_set_back",
    ),
)
