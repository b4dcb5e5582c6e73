"""Mistakes about lost messages: what is kept behind a hole, and what is sent to fill it."""

from __future__ import annotations

from types import ModuleType

from onceq.core.peers import trust
from onceq.core.step import connections
from onceq.core.step.connections import EarlyRuns, Key
from onceq.core.transfer import order_acknowledgments, ordered_arrival, outgoing_queue
from onceq.core.transfer import transmit as transmitting
from onceq.packet.arrived import ArrivedRun
from tests.planted.planted import Planted, edited, replaced

HOLES = "tests/conformance/test_holes.py::test_"
LONG = "tests/conformance/test_long_holes.py::test_"
_next, _advanced = EarlyRuns.next, EarlyRuns.advanced


def _of_any_stream(
    self: EarlyRuns, key: Key, session: int, stream: int, last: int
) -> ArrivedRun | None:  # fmt: skip
    found = self.streams.get(key)
    if found is not None:
        found.stream = stream
    return _next(self, key, session, stream, last)


def _seen_by_the_timer(self: EarlyRuns, key: Key, last: int) -> bool:
    _advanced(self, key, last)
    found = self.streams.get(key)
    return found is not None and found.missing_to != found.told_to


def _told_as_often_as_before(self: EarlyRuns, key: Key, last: int) -> bool:
    found = self.streams.get(key)
    told = found.told if found is not None else 0
    moved = _advanced(self, key, last)
    if found is not None:
        found.told = told
    return moved


def _never(self: EarlyRuns, whom: int) -> None:
    pass


# Name, the module, what is changed to what, and the test that finds it.
_ROWS: tuple[tuple[str, ModuleType, str, str, str], ...] = (
    ("what-is-kept-is-acknowledged", transmitting, "number=progress.last,",
     "number=max((r.first_number for s in step.sessions.early.streams.values() for r in s.runs),"
     " default=progress.last),", "nothing_behind_a_hole_is_acknowledged"),
    ("a-hole-is-named-where-reserved-bytes-are-zero", transmitting, "if peer.extended:", "if True:",
     "a_foreign_receiver_is_told_nothing_in_reserved_bytes"),
    ("a-hole-is-named-with-the-timer-alone", ordered_arrival,
     "if early.advanced(where, progress.last) or shown:", "if shown:",
     "what_is_lost_is_sent_again_at_once_and_alone"),
    ("a-hole-is-named-once", order_acknowledgments, "if early.told <= limits.HOLE_TOLD_MAX:",
     "if False:",
     "lost_acknowledgments_of_a_hole_are_made_again"),
    ("a-hole-is-filled-as-often-as-it-is-named", order_acknowledgments,
     "repair.again_us = step.later_us(wait_s)", "repair.again_us = 0",
     "a_hole_that_is_named_again_and_again_costs_little"),
    ("a-hole-is-believed-on-any-session", order_acknowledgments,
     "if peer.extended and ack.tells_holes:",
     "if ack.tells_holes:", "a_session_without_the_mark_names_no_holes"),
    ("what-was-never-sent-may-be-missing", order_acknowledgments, " <= sent - head.base:", ":",
     "a_hole_that_cannot_be_is_not_believed"),
    ("a-hole-somewhere-behind-is-believed", order_acknowledgments,
     "ack.number + 1 == ack.first_missing <=", "ack.number < ack.first_missing <=",
     "a_hole_that_cannot_be_is_not_believed"),
    ("each-equal-acknowledgment-shows-a-hole", order_acknowledgments,
     "if repair.guessed == said or ", "if ",
     "equal_acknowledgments_show_a_hole_once"),
    ("a-hole-waits-for-whatever-leaves-next", order_acknowledgments,
     "    repair.ranges.append((first, repair.until))\n    start_if_possible(step, outgoing)",
     "    repair.ranges.append((first, repair.until))",
     "lost_acknowledgments_of_a_hole_are_made_again"),
    ("a-time-out-sends-the-window-again", outgoing_queue,
     "if peer is not None and peer.extended:", "if False:", "what_is_only_late_is_not_sent_again"),
    ("a-lost-end-waits-for-the-timer-each-time", order_acknowledgments,
     "if acked == last < outgoing.sent and", "if False and",
     "a_lost_end_is_found_by_the_timer_and_sent_once"),
    ("what-is-behind-a-question-is-sent-again", order_acknowledgments,
     "if acked == last < outgoing.sent and ack.tells_holes and not ack.last_missing:",
     "if ack.tells_holes:", "what_is_there_behind_a_lost_question_is_not_sent_again"),
    ("an-earlier-version-is-asked-once", order_acknowledgments,
     "outgoing.sent = min(outgoing.sent, max(last, acked))", "pass",
     "a_time_out_sends_all_again_where_no_holes_are_named"),
    ("nothing-is-kept-before-a-beginning", ordered_arrival,
     "ahead = judgment.verdict is Verdict.GAP and", "ahead = run.stream == stream and judgment."
     "verdict is Verdict.GAP and", "a_lost_beginning_is_sent_again_at_once_and_alone"),
    ("what-waits-for-a-beginning-is-of-a-stream-that-was-left", ordered_arrival,
     "if early.streams[where].stream > progress.stream:", "if False:",
     "the_beginning_of_a_later_stream_too"),
    ("a-beginning-is-named-where-the-packet-has-no-word", order_acknowledgments,
     "if peer is None or not peer.extended:", "if peer is None:",
     "a_foreign_receiver_hears_nothing_of_a_missing_beginning"),
    ("a-beginning-is-named-once", order_acknowledgments, "if early.told < limits.HOLE_TOLD_MAX:",
     "if False:", "a_lost_word_of_a_missing_beginning_is_said_again"),
    ("a-beginning-that-was-acknowledged-may-be-missing", order_acknowledgments,
     "else told < ack.stream", "else True",
     "a_beginning_is_missing_only_before_anything_is_acknowledged"),
    ("a-beginning-is-believed-on-any-session", trust,
     "if not ack.number and peer.extended and ack.tells_holes:", "if not ack.number:",
     "a_session_without_the_mark_names_no_beginning"),
    ("an-answered-probe-goes-on-as-a-probe", outgoing_queue,
     "        outgoing.repair.probing = False\n", "",
     "what_a_receiver_lacks_follows_at_once_on_a_new_session"),
    ("a-probe-is-answered-when-the-timer-rings", ordered_arrival,
     "at_once = known and not peer.http", "at_once = False",
     "what_a_receiver_lacks_follows_at_once_on_a_new_session"),
)  # fmt: skip

_LONG: tuple[tuple[str, ModuleType, str, str, str], ...] = (
    ("a-hole-that-moves-on-is-filled-as-a-whole", order_acknowledgments,
     "first = max(first, repair.until + 1)", "pass",
     "what_was_sent_again_just_now_is_left_out_of_the_next_hole"),
    ("a-hole-is-filled-at-once-however-long-it-is", order_acknowledgments,
     "repair.until = min(last, first + repair.count - 1)", "repair.until = last",
     "what_an_earlier_connection_brings_late_costs_a_few_resends"),
    ("a-long-hole-is-filled-in-equal-parts", order_acknowledgments,
     "repair.count *= limits.HOLE_GROWTH", "pass",
     "a_long_hole_grows_as_what_was_sent_again_comes"),
    ("what-comes-by-itself-is-taken-for-lost", order_acknowledgments,
     "if outgoing.head.base + ack.number > repair.until:", "if False:",
     "what_comes_by_itself_was_late_and_so_is_the_rest"),
)  # fmt: skip

PLANTED = (
    Planted(
        "a-part-of-a-hole-that-has-come-is-told-with-the-timer",
        replaced(EarlyRuns, "advanced", _seen_by_the_timer),
        LONG + "a_long_hole_is_filled_little_by_little_and_soon",
    ),
    Planted(
        "a-hole-that-is-filled-slowly-is-named-no-more",
        replaced(EarlyRuns, "advanced", _told_as_often_as_before),
        LONG + "a_hole_is_named_again_however_slowly_it_was_filled",
    ),
    Planted(
        "what-is-kept-of-a-stream-is-shown-in-the-next",
        replaced(EarlyRuns, "next", _of_any_stream),
        HOLES + "what_was_kept_dies_with_its_stream",
    ),
    Planted(
        "what-is-kept-outlives-its-queue", replaced(EarlyRuns, "deleted", _never),
        HOLES + "what_was_kept_dies_with_its_queue",
    ),
    Planted(
        "what-is-kept-outlives-its-session", replaced(EarlyRuns, "closed", _never),
        HOLES + "what_was_kept_dies_with_its_session",
    ),
    Planted(
        "what-is-kept-has-no-size", replaced(connections, "_size", lambda run: 0),
        HOLES + "no_more_is_kept_than_there_is_room_for",
    ),
    *(
        Planted(name, edited(module, old, new), HOLES + finder)
        for name, module, old, new, finder in _ROWS
    ),
    *(
        Planted(name, edited(module, old, new), LONG + finder)
        for name, module, old, new, finder in _LONG
    ),
)  # fmt: skip
