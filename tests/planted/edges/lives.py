"""Mistakes about lives: copies, backups and clones that give what another has given."""

from __future__ import annotations

from array import array
from typing import Any

from onceq.core.peers import lives
from onceq.core.state.outgoing_queues import OutgoingQueue, Stretch
from onceq.core.state.peer_table import Accepted, Peer, Progress
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Lanes, Positions
from onceq.core.state.records import Advance, Change
from onceq.core.state.setups import LifeBegun
from onceq.core.state.state import State
from onceq.core.step.step import Step
from onceq.core.transfer import abandoned_streams, arrival, pending_outcomes, sessions
from onceq.packet.acks import Inquiry, StreamMemory
from onceq.packet.arrived import ArrivedRun
from tests.planted.planted import Planted, replaced

CASES = "tests/conformance/test_lives.py::test_"
CORE = "tests/unit/core/peers/test_lives.py::test_"
PUT_BACK = "tests/conformance/test_put_back.py::test_"
ANY = "tests/property/test_lives.py::test_"
PLACES = "tests/conformance/test_places.py::test_"


def _given(outgoing: OutgoingQueue, stamp: int) -> int:
    goes_on = outgoing.stream > 0 and outgoing.unacknowledged > 0
    return outgoing.ordered_lane.next - 1 - outgoing.base if goes_on else 0


def _one_stretch(self: OutgoingQueue, counter: int) -> Stretch:
    found = next(s for s in self.stretches() if s.base < counter <= s.end)
    return Stretch(found.stream, found.base, 1 << 62)


def _same_life(step: Step, entropy: bytes, *_: object, **more: object) -> None:
    state = step.state
    step.setup(
        LifeBegun(
            id=entropy[:16],
            stamp=state.stamp,
            ordinal=state.next_ordinal,
            message=state.next_message,
        )
    )


def _message(state: State, random: int) -> int:
    return max(state.next_message, state.number_ceiling)


def _from_one(self: Lanes, index: int) -> Positions:
    lane = self[index] = Positions(self._space)
    return lane


def _new_places(step: Step, run: ArrivedRun, key: str) -> list[int]:
    seen = {(source, k, number) for source, k, number, _ in step.state.seen}
    return [i for i, n in enumerate(run.message_numbers) if (run.source, key, n) not in seen]


def _trusting(self: Accepted, progress: Progress, number: int, messages: array[int]) -> bool:
    return False


def _forgetful(self: Accepted, *what: Any) -> None:
    pass


def _deaf(step: Step, *what: Any) -> None:
    pass


def _unclaimed(step: Step, peer: Peer, key: str, memory: StreamMemory, fence: int) -> StreamMemory:
    return memory


def _leads_back(step: Step, peer: Peer, key: str, stream: int, live_from: int) -> None:
    """The numbers of two streams are compared."""
    progress = step.state.progress.get((peer.peer, key))
    if progress is None or live_from - 1 > progress.last:
        change = Change(step.now.wall_s)
        change.advances.append(Advance(peer.peer, key, stream, live_from - 1, live_from))
        step.record(change)


def _known_to_both(
    step: Step, peer: Peer, key: str, memory: StreamMemory, fence: int
) -> StreamMemory:
    """Only who announces a stream hears that another one has it."""
    return _claimed(step, peer, key, memory, fence) if fence else memory


_claimed = pending_outcomes._claimed


def _no_fence(step: Step, peer: Peer, key: str, asked: Inquiry) -> int:
    return 0


def _fence_of_one(step: Step, peer: Peer, key: str, asked: Inquiry) -> int:
    """Whatever stream is asked about is announced."""
    progress = step.state.progress.get((peer.peer, key))
    streams = dict(asked.streams)
    return progress.stream if progress is not None and progress.stream in streams else 0


def _all_moved(outgoing: OutgoingQueue) -> list[tuple[int, int, bool | None]]:
    lane = outgoing.ordered_lane
    return [(first, count, False) for first, count in lane.ranges(AVAILABLE, lane.head)]


def _of_this_life(self: OutgoingQueue, stamp: int) -> bool:
    return False


# Name, what is replaced in which place, by what, and the test that finds it.
_ROWS: tuple[tuple[str, object, str, object, str], ...] = (
    ("a-start-goes-on-with-the-numbers-of-the-last", lives, "begin", _same_life,
     CASES + "what_is_sent_after_a_backup_was_put_back_arrives"),
    ("ordinals-of-a-life-begin-at-one", lives, "_ordinal", lambda random: 1,
     CORE + "two_copies_that_start_in_one_second_differ"),
    ("new-messages-continue-the-stream-of-an-earlier-life", OutgoingQueue, "numbers_given", _given,
     CASES + "a_backup_of_a_running_manager_whose_messages_were_acknowledged_meanwhile"),
    ("the-next-stream-does-not-wait-for-the-last", OutgoingQueue, "stretch", _one_stretch,
     CASES + "what_waits_from_earlier_lives_goes_first_each_in_its_stream"),
    ("message-numbers-go-on-over-a-restart", lives, "_message", _message,
     CASES + "message_identifiers_do_not_come_again"),
    ("places-go-on-where-the-copy-was-made", lives, "_places", lambda state, random: 0,
     PLACES + "what_was_planned_in_a_life_that_is_undone_removes_nothing_unseen"),
    ("what-is-used-later-begins-at-the-beginning", Lanes, "__missing__", _from_one,
     PLACES + "no_queue_gives_a_place_of_a_life_that_is_undone"),
    ("sent-times-are-not-compared", arrival, "new_places", _new_places,
     CASES + "a_plain_message_with_an_identifier_used_before_is_another_message"),
    ("a-number-with-another-message-is-a-repetition", Accepted, "contradict", _trusting,
     CASES + "a_number_that_comes_with_another_message_is_not_acknowledged"),
    ("only-the-last-message-of-a-stream-is-remembered", Accepted, "note", _forgetful,
     CASES + "a_number_that_comes_with_another_message_is_not_acknowledged"),
    ("an-earlier-life-that-answers-is-not-noticed", sessions, "acknowledged_more", _deaf,
     CORE + "an_earlier_life_that_answers_what_was_sent_after_a_later_one_came"),
    ("streams-of-another-life-are-not-noticed", arrival, "acked_strangely", _deaf,
     CORE + "a_stream_of_another_life_is_noticed_and_ours_rise_above_it"),
    ("two-copies-may-both-move-what-they-have", pending_outcomes, "_claimed", _unclaimed,
     CASES + "what_two_copies_both_have_is_sent_by_one_of_them"),
    ("what-was-accepted-meanwhile-is-moved-too", abandoned_streams, "_fates", _all_moved,
     CASES + "what_comes_before_something_accepted_is_not_delivered_any_more"),
    ("what-a-copy-was-given-is-said-not-to-have-come", pending_outcomes, "_claimed", _known_to_both,
     CASES + "what_one_copy_was_given_is_not_known_to_the_other_as_never_accepted"),
    ("an-old-question-leads-back", pending_outcomes, "_note_gone", _leads_back,
     "tests/conformance/test_doubts.py::test_a_question_about_a_stream_that_was_left_does_not_lead"
     "_back_to_it"),
    ("fence-of-one", pending_outcomes, "_fence", _fence_of_one,
     CASES + "a_question_that_announces_no_stream_is_given_nothing"),
    ("what-waits-moves-without-a-fence", abandoned_streams, "_fence", _deaf,
     CASES + "two_copies_side_by_side_lose_nothing_and_repeat_nothing"),
    ("an-acknowledgment-for-what-another-copy-has-sent-is-a-lie", OutgoingQueue, "of_earlier_life",
     _of_this_life, PUT_BACK + "what_the_receiver_has_more_of_than_was_sent_here_does_not_wait_"
     "for_ever"),
    ("a-start-goes-on-after-any-restore", lives, "begin", _same_life,
     ANY + "restores_and_copies_at_random_moments"),
    ("what-is-moved-is-moved-to-the-receiver-only", pending_outcomes, "_fence", _no_fence,
     ANY + "restores_and_copies_at_random_moments"),
)  # fmt: skip

PLANTED = tuple(
    Planted(name, replaced(target, attribute, value), finder)
    for name, target, attribute, value, finder in _ROWS
)
