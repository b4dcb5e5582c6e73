"""Planted mistakes about messages that are not to be received before a time."""

from __future__ import annotations

from onceq.core import delays, manager
from onceq.core.state import queue_tables, records, snapshot, state
from onceq.core.transfer import transmit
from onceq.packet import arrived
from tests.planted.planted import Planted, edited

CASES = "tests/conformance/test_delayed.py::test_"
UNIT = "tests/unit/core/test_delays.py::test_"
BEFORE = f"{CASES}a_delayed_message_is_not_there_before_its_time"

PLANTED = (
    Planted(
        "delayed-messages-are-there-at-once",
        edited(delays, "if due_s <= step.now.wall_s or queue.system", "if True or queue.system"),
        BEFORE,
    ),
    Planted(
        "a-part-of-a-second-makes-a-delay-shorter",
        edited(delays, "-(-now.wall_us // SECOND_US)", "now.wall_s"),
        BEFORE,
    ),
    Planted(
        "that-its-time-has-come-counts-as-a-move",
        edited(queue_tables, "lane.due is None or counter not in lane.due", "True"),
        BEFORE,
    ),
    Planted(
        "a-run-of-messages-has-the-time-of-its-first",
        edited(arrived, "self._due(view, start, extension) != self.due", "False"),
        f"{CASES}those_of_one_time_keep_their_order_and_others_that_of_their_times",
    ),
    Planted(
        "checkpoints-forget-what-is-delayed",
        edited(snapshot, "        if self._due:\n", "        if False:\n"),
        f"{UNIT}a_checkpoint_keeps_the_times",
    ),
    Planted(
        "an-older-onceq-reads-a-checkpoint-with-delayed-messages",
        edited(snapshot, "            if lane.due:\n", "            if False:\n"),
        f"{UNIT}a_checkpoint_keeps_the_times",
    ),
    Planted(
        "records-forget-what-is-delayed",
        edited(records, "(due,) = reader.unpack(_DUE)", "reader.unpack(_DUE)"),
        f"{UNIT}records_keep_the_times",
    ),
    Planted(
        "what-was-held-when-it-was-due-never-comes",
        edited(state, "            lane.due.again(first, count)\n", "            pass\n"),
        f"{UNIT}an_empty_subqueue_goes_and_a_locked_message_keeps_its_time",
    ),
    Planted(
        "a-clock-that-is-set-ahead-is-not-noticed",
        edited(manager, "min(wall, DELAY_LOOK_S * SECOND_US)", "wall"),
        f"{UNIT}it_wakes_when_something_is_due_and_looks_at_the_clock_meanwhile",
    ),
    Planted(
        "who-knows-of-no-delays-is-sent-delayed-messages",
        edited(transmit, "and not peer.delays", "and False"),
        f"{CASES}one_that_turns_out_not_to_know_gets_none_either",
    ),
    Planted(
        "a-send-that-is-known-to-be-refused-is-taken",
        edited(delays, "if queue.knows_delays is False:", "if False:"),
        f"{CASES}one_that_is_known_not_to_know_of_delays_gets_none",
    ),
    Planted(
        "a-message-can-be-over-before-its-delay-is",
        edited(delays, "if receive_by <= due_s:", "if False:"),
        f"{CASES}a_time_to_be_received_counts_from_the_send",
    ),
)
