"""Mistakes about the ends of messages: counted wrongly, said of the wrong ones, or to nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.ending import ending
from onceq.core.ending.table import FATES, Ending, Fate, Side
from onceq.core.management import directory_rules, operations
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Lives
from onceq.core.state.records import Put, RangeChange
from onceq.core.state.setups import Left, Setup
from onceq.core.step.step import ChangeBuilder, Step
from onceq.core.transfer import abandoned_streams, in_doubt, outgoing_queue, transmit
from onceq.model.letters import Letter
from onceq.model.limits import LEFT_AHEAD
from tests.planted.planted import Planted, edited

LETTERS = "tests/daemon/test_letters.py::"
LEFT = "tests/conformance/test_what_left.py::"
BACK = "tests/conformance/test_put_back.py::"
BUILDER = "tests/unit/core/step/test_step_change_builder.py::"


def copies_are_believed(patch: pytest.MonkeyPatch) -> None:
    """What a copied directory says of what never left is taken for true."""
    patch.setattr(Lives, "copied", lambda self, made_ns: False)


def marks_run_into_the_next_stream(patch: pytest.MonkeyPatch) -> None:
    """While one stream drains, messages of the next are allowed to leave."""

    def about_to_leave(step: Step, waiting: OutgoingQueue, lane: int, last: int) -> None:
        waiting.transmitted[lane] = max(waiting.transmitted.get(lane, 0), last)
        if last > waiting.left.get(lane, 0):
            step.setup(Left(number=waiting.number, lanes=[[lane, last + LEFT_AHEAD]]))

    patch.setattr(transmit, "about_to_leave", about_to_leave)


a_receiver_alone_knows = edited(abandoned_streams, " and counter > left:", " and False:")
"""What a receiver has forgotten is in doubt, though it never left."""


def laid_packets_weigh_nothing(patch: pytest.MonkeyPatch) -> None:
    """A change does not count packets that a prepare has written."""
    before = ChangeBuilder.put

    def put(self: ChangeBuilder, put: Put) -> None:
        counted = self._coming.get(put.queue, 0)
        before(self, put)
        if put.address:
            self._coming[put.queue] = counted

    patch.setattr(ChangeBuilder, "put", put)


def quota_forgets_the_change(patch: pytest.MonkeyPatch) -> None:
    """The room of a dead-letter queue is asked for without what the same record brings."""
    patch.setattr(ChangeBuilder, "holding", lambda self, queue: self.step.holding(queue))


def counted_anew_for_each(patch: pytest.MonkeyPatch) -> None:
    """What a change hands on is added up again for every range."""
    before = ChangeBuilder.move

    def move(self: ChangeBuilder, move: RangeChange) -> None:
        before(self, move)
        sum(one.count for one in self.change.moves if one.to == move.to)

    patch.setattr(ChangeBuilder, "move", move)


def never_transmitted(
    build: ChangeBuilder, waiting: OutgoingQueue, *where: Any, **more: Any
) -> None:
    """What ends in an outgoing queue is taken for never transmitted."""
    sent, waiting.transmitted = waiting.transmitted, {}
    ending.gave_up(build, waiting, *where, **more)
    waiting.transmitted = sent


def purge_says_removed(patch: pytest.MonkeyPatch) -> None:
    """A purge calls removed what may have arrived."""
    patch.setattr(operations, "gave_up", never_transmitted)


def directory_says_nowhere(patch: pytest.MonkeyPatch) -> None:
    """What a queue had been sent that left the directory is called not delivered."""
    patch.setattr(directory_rules, "gave_up", never_transmitted)


def doubt_without_letter_forgotten(patch: pytest.MonkeyPatch) -> None:
    """In doubt without a dead letter there is nothing to be told."""
    row = (Side.SOURCE, True, Ending.IN_DOUBT)
    patch.setitem(FATES, row, replace(FATES[row], hidden=False))


def mark_not_durable(patch: pytest.MonkeyPatch) -> None:
    """A packet leaves before the mark that says so is durable."""

    def setup(self: Step, setup: Setup, *, forced: bool = True) -> None:
        original(self, setup, forced=forced and not isinstance(setup, Left))

    original = Step.setup
    patch.setattr(Step, "setup", setup)


def restart_forgets_what_never_left(patch: pytest.MonkeyPatch) -> None:
    """After a restart everything that waits counts as transmitted."""

    def recall(step: Step, waiting: OutgoingQueue) -> None:
        waiting.transmitted = {index: lane.next - 1 for index, lane in waiting.lanes.items()}

    patch.setattr(outgoing_queue, "recall", recall)


def mark_stays_ahead(patch: pytest.MonkeyPatch) -> None:
    """What a mark allowed in vain is not taken back when the session ends."""
    patch.setattr(outgoing_queue, "nothing_leaves", lambda step, waiting: None)


def received_late_without_a_copy(patch: pytest.MonkeyPatch) -> None:
    """A dead letter in doubt goes when its message was received, and leaves no journal copy."""
    patch.setitem(FATES, (Side.SOURCE, True, Ending.SETTLED_RECEIVED), Fate())


def second_letter_not_marked(patch: pytest.MonkeyPatch) -> None:
    """Of two dead letters on one computer neither says that there is another."""
    patch.setattr(ending, "SECOND_LETTER", 0)


def both_letters_returned(patch: pytest.MonkeyPatch) -> None:
    """A dead letter is returned although its sender has one too."""
    patch.setattr(Letter, "second", property(lambda self: ""))


def settled_and_told_to_nobody(patch: pytest.MonkeyPatch) -> None:
    """A doubt that is settled as never arrived is not told to who asked."""

    def certain(build: ChangeBuilder, doubt: Any, *, arrived: bool) -> None:
        original(build, doubt, arrived=arrived)
        build.change.moves[-1].copies_to = ()

    original = in_doubt._certain
    patch.setattr(in_doubt, "_certain", certain)


PLANTED = (
    Planted(
        "copies-are-believed", copies_are_believed,
        LEFT + "test_a_directory_that_was_copied_back_does_not_say_what_it_cannot_know",
    ),
    Planted(
        "marks-run-into-the-next-stream", marks_run_into_the_next_stream,
        LEFT + "test_what_waits_for_a_stream_to_drain_has_not_left",
    ),
    Planted(
        "a-receiver-alone-knows", a_receiver_alone_knows,
        BACK + "test_what_is_committed_after_both_were_put_back_arrives",
    ),
    Planted(
        "laid-packets-weigh-nothing", laid_packets_weigh_nothing,
        BUILDER + "test_refused_sends_of_a_prepared_branch_stay_within_the_quota",
    ),
    Planted(
        "quota-forgets-the-change", quota_forgets_the_change,
        BUILDER + "test_refused_sends_of_a_transaction_stay_within_the_quota_of_their_dead_letter_"
        "queue",
    ),
    Planted(
        "counted-anew-for-each-range", counted_anew_for_each,
        BUILDER + "test_work_grows_with_the_number_of_messages_and_no_faster",
    ),
    Planted(
        "purge-says-removed", purge_says_removed,
        LEFT + "test_what_was_transmitted_and_then_purged_is_in_doubt_until_it_is_asked_for",
    ),
    Planted(
        "directory-says-nowhere", directory_says_nowhere,
        LEFT + "test_a_queue_that_left_the_directory_leaves_what_was_transmitted_in_doubt",
    ),
    Planted(
        "doubt-without-letter-forgotten", doubt_without_letter_forgotten,
        LEFT + "test_who_asked_for_negative_acknowledgments_only_hears_when_doubt_ends",
    ),
    Planted(
        "mark-not-durable", mark_not_durable,
        LEFT + "test_what_left_is_in_doubt_also_when_the_sender_dies_at_once",
    ),
    Planted(
        "restart-forgets-what-never-left", restart_forgets_what_never_left,
        LEFT + "test_what_never_left_is_certain_over_restarts",
    ),
    Planted(
        "mark-stays-ahead", mark_stays_ahead,
        LEFT + "test_what_never_left_is_certain_over_restarts",
    ),
    Planted(
        "received-late-without-a-copy", received_late_without_a_copy,
        LEFT + "test_what_was_received_after_all_is_in_the_journal",
    ),
    Planted(
        "settled-and-told-to-nobody", settled_and_told_to_nobody,
        LEFT + "test_who_asked_for_negative_acknowledgments_only_hears_when_doubt_ends",
    ),
    Planted(
        "second-letter-not-marked", second_letter_not_marked,
        LETTERS + "test_the_senders_own_dead_letter_queue_has_the_one_to_return",
    ),
    Planted(
        "both-letters-returned", both_letters_returned,
        LETTERS + "test_where_it_died_the_senders_dead_letter_is_the_one_to_return",
    ),
)  # fmt: skip
"""Mistakes, each with what finds it."""
