"""Mistakes about readers that remove what they have written: who has read, copies, holds, waits."""

from __future__ import annotations

import pytest

from onceq.core.ending import ending
from onceq.core.receive import entrance, receive
from onceq.core.state import client_memory
from onceq.core.state.client_memory import Readings
from onceq.model import limits
from onceq.spark import connections
from onceq.spark.source import conflicts
from tests.planted.planted import Planted, edited, replaced

READERS = "tests/conformance/test_readers.py::test_"
ANEW = "tests/unit/spark/source/test_conflicts_checkpoint.py::test_"
PATIENCE = "tests/unit/spark/test_connections_patience.py::test_"


def _a_checkpoint_forgets_readers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Readings, "dump", lambda self: [])


def _readers_outlive_their_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Readings, "drop", lambda self, queue: None)


def _no_reader_makes_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "READERS_MAX", 1 << 30)


def _removing_again_is_a_step_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(client_memory, "max", lambda new, before: new, raising=False)


PLANTED = (
    Planted(
        "removed-and-nobody-has-read",
        edited(receive, "        tx.reads.append(read)\n", ""),
        READERS + "who_has_read_is_remembered_with_the_commit",
    ),
    Planted(
        "removed-at-once-and-nobody-has-read",
        edited(receive, "build.change.marks = Marks(reads=(read,))", "pass"),
        READERS + "outside_a_transaction_it_is_one_record_too",
    ),
    Planted(
        "a-checkpoint-forgets-readers", _a_checkpoint_forgets_readers,
        READERS + "it_is_remembered_through_restarts_and_checkpoints",
    ),
    Planted(
        "readers-outlive-their-queue", _readers_outlive_their_queue,
        "tests/unit/core/state/test_client_memory_readings.py::test_what_is_known_of_readers_goes_with_their_queue",
    ),
    Planted("no-reader-makes-room", _no_reader_makes_room, READERS + "readers_are_bounded"),
    Planted(
        "removing-again-is-a-step-back", _removing_again_is_a_step_back,
        READERS + "each_name_is_a_reader_and_the_last_query_counts",
    ),
    Planted(
        "promised-to-a-coordinator-without-its-reader",
        edited(receive, "if tx.xid is not None:", "if False:"),
        READERS + "what_cannot_say_who_has_read",
    ),
    Planted(
        "no-copy-where-the-queue-keeps-none",
        edited(receive, "CopiedRange if item.keep else HeldRange", "HeldRange"),
        READERS + "copies_are_kept_where_they_are_wanted",
    ),
    Planted(
        "a-full-journal-drops-what-was-to-be-kept",
        edited(receive, "    if item.keep:\n", "    if False:\n"),
        READERS + "a_full_journal_refuses_and_nothing_is_removed",
    ),
    Planted(
        "a-promised-copy-is-dropped",
        edited(ending, "        not in_any_case\n        and ", "        "),
        READERS + "a_copy_that_was_promised_is_kept",
    ),
    Planted(
        "holds-end-for-nobody",
        replaced(entrance, "end_overdue", lambda step, queue: None),
        READERS + "a_hold_that_nobody_renews_ends_when_it_is_in_the_way",
    ),
    Planted(
        "renewing-is-in-vain",
        edited(entrance, "held.until_us = step.now.mono_us + item", "held.until_us = 1 + item"),
        READERS + "a_hold_that_is_renewed_lasts",
    ),
    Planted(
        "a-lost-hold-still-removes",
        edited(receive, "    if item.handle:\n        held", "    if False:\n        held"),
        READERS + "a_hold_that_nobody_renews_ends_when_it_is_in_the_way",
    ),
    Planted(
        "a-new-query-begins-where-one-has-read",
        edited(conflicts, "if not told:", "if False:"),
        ANEW + "a_query_that_begins_anew_is_told_everything",
    ),
    Planted(
        "an-old-checkpoint-goes-on",
        edited(conflicts, "and one.to > place.to.get(key, one.to)", "and False"),
        ANEW + "a_checkpoint_that_is_older_is_refused",
    ),
    Planted(
        "another-reader-is-this-one",
        edited(conflicts, "if one.reader != reader.name:", "if False:"),
        ANEW + "who_may_begin",
    ),
    Planted(
        "nothing-bounds-the-waits",
        replaced(connections, "LONGEST_WAIT_S", 1e9),
        PATIENCE + "a_manager_may_be_away_for_a_minute_by_default",
    ),
)  # fmt: skip
