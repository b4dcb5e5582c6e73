"""Mistakes of kinds that nobody has made yet, one or two in every part of the product."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from onceq.client.plans import selection
from onceq.core.management import queue_views
from onceq.core.step.step import Step
from onceq.core.transaction import unit_of_work
from onceq.service import naming, upkeep
from onceq.spark.source import offsets, queue_matching
from onceq.spark.source.offsets import Offset, Range
from onceq.store import pool
from onceq.store.framing import Framing
from onceq.store.pool import Pool
from onceq.wire.mqqb.session import Session
from tests.planted.planted import Planted, edited

# ---- core ----------------------------------------------------------------------------------


def held_is_outside_the_quota(patch: pytest.MonkeyPatch) -> None:
    """What was promised to a queue by a prepared branch takes no room in it."""
    patch.setattr(Step, "holding", lambda self, queue: queue.bytes)


def waiting_is_doing_nothing(patch: pytest.MonkeyPatch) -> None:
    """A transaction whose application waits for a message counts as forgotten."""

    def look(step: Step, nobody: object) -> None:
        waiting, step.readers.waiting = step.readers.waiting, {}
        try:
            original(step, nobody)
        finally:
            step.readers.waiting = waiting

    original = unit_of_work.on_timer
    patch.setattr("onceq.core.manager._TIMERS", {
        what: look if ring is original else ring
        for what, ring in __import__("onceq.core.manager", fromlist=["_TIMERS"])._TIMERS.items()
    })  # fmt: skip


# ---- store ---------------------------------------------------------------------------------


def blocks_alike(patch: pytest.MonkeyPatch) -> None:
    """Blocks of different records have checksums that can be taken for each other's."""
    patch.setattr(Framing, "_start", lambda self, position: self._seed & 0xFFFF_0000)


def prepared_unsynced(patch: pytest.MonkeyPatch) -> None:
    """A segment that lies ready was never written to the disk."""

    def prepare(self: Pool, *pause: Any) -> bool:
        files = self._files
        sync, files.sync = files.sync, lambda file: None  # type: ignore[method-assign]
        try:
            return original(self, *pause)
        finally:
            with contextlib.suppress(AttributeError):
                files.sync = sync  # type: ignore[method-assign]

    original = Pool.prepare
    patch.setattr(Pool, "prepare", prepare)


# ---- sessions ------------------------------------------------------------------------------


def zeros_without_pauses(patch: pytest.MonkeyPatch) -> None:
    """Who makes a segment ready leaves the disk to nobody meanwhile."""
    original = Pool.prepare
    patch.setattr(Pool, "prepare", lambda self, *pause: original(self))


def kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    """What is kept for the next burst is never given back while the manager runs."""
    patch.setattr(upkeep, "TRIM_US", 1 << 62)


def all_of_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Old segments are kept whatever is left on the disk."""
    patch.setattr(pool, "FREE_SHARE", 0.001)


def window_of_one_side(patch: pytest.MonkeyPatch) -> None:
    """A session sends as much as it would take itself, not as much as its peer takes."""

    def room(self: Session) -> int:
        return max(self._window - (self._sent - self._acked), 0) if self.opened else 0

    patch.setattr(Session, "room", property(room))


def unheard_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A session whose peer acknowledges nothing waits for it without an end."""

    def tick(self: Session, now_us: int) -> Any:
        self._heard = True
        return original(self, now_us)

    original = Session.tick
    patch.setattr(Session, "tick", tick)


# ---- client --------------------------------------------------------------------------------


def milliseconds_cut(patch: pytest.MonkeyPatch) -> None:
    """Who waits for less than a millisecond, or for one and a half, waits too short."""
    patch.setattr(
        selection, "wait_ms",
        lambda timeout: -1 if timeout is None or math.isinf(timeout) else int(timeout) * 1000,
    )  # fmt: skip


def moved_into_another_queue(patch: pytest.MonkeyPatch) -> None:
    """A target that begins with a semicolon is a subqueue of the subqueue."""
    patch.setattr(selection, "subqueue", lambda queue, to: queue + to if to else queue)


# ---- Spark ---------------------------------------------------------------------------------


def batch_begins_with_the_last(patch: pytest.MonkeyPatch) -> None:
    """The message before a batch is in it once more."""

    def all_ranges(self: Offset) -> list[Range]:
        return [Range(r.key, max(r.after - 1, 0), r.to) for r in original(self)]

    original = Offset.ranges
    patch.setattr(Offset, "ranges", all_ranges)


def offsets_unordered(patch: pytest.MonkeyPatch) -> None:
    """Two offsets that are the same differ as text, because their queues stand in another order."""
    patch.setattr(offsets, "_ordered", lambda values: dict(values))


def most_for_each(patch: pytest.MonkeyPatch) -> None:
    """The bound on a batch counts for each queue, not for all together."""

    def advance(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
        return {key: min(end, begins.get(key, 0) + most) for key, end in ends.items()}

    patch.setattr(offsets, "advance", advance)


def holes_that_excuse(patch: pytest.MonkeyPatch) -> None:
    """What had expired before a batch was made passes for what is missing from it now."""
    patch.setattr(Range, "since", lambda self, ended: dict(ended))


def a_lock_is_a_hole(patch: pytest.MonkeyPatch) -> None:
    """A batch goes over a message that a transaction holds, and may give back to its place."""
    patch.setattr(queue_views, "LOCKED", 255)


def a_queue_that_left_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """One that comes back begins anew, and what was written of it is read twice."""
    original = queue_matching.resolve

    def resolve(*args: Any) -> queue_matching.Resolved:
        found = original(*args)
        return replace(found, place=replace(found.place, left={}))

    patch.setattr(queue_matching, "resolve", resolve)


FRAMING = "tests/unit/store/test_framing.py::test_"
POOL = "tests/unit/store/test_pool.py::test_"
SESSION = "tests/unit/wire/mqqb/test_session.py::test_"
CLIENT = "tests/unit/client/plans/"
RANGES = "tests/unit/spark/source/test_offsets.py::test_"

PLANTED = (
    Planted(
        "held-is-outside-the-quota", held_is_outside_the_quota,
        "tests/conformance/test_group_7_external.py::"
        "test_a_prepared_branch_stays_in_its_promised_room",
    ),
    Planted(
        "waiting-is-doing-nothing", waiting_is_doing_nothing,
        "tests/conformance/test_forgotten.py::test_what_waits_for_a_message_is_not_forgotten",
    ),
    Planted(
        "blocks-alike", blocks_alike, FRAMING + "blocks_of_another_place_are_not_taken_for_these"
    ),
    Planted("prepared-unsynced", prepared_unsynced, POOL + "it_is_filled_and_emptied"),
    Planted(
        "zeros-without-pauses", zeros_without_pauses,
        POOL + "zeros_are_written_and_synced_in_steps",
    ),
    Planted(
        "all-of-the-disk", all_of_the_disk,
        POOL + "old_segments_leave_room_on_the_disk_for_others",
    ),
    Planted(
        "kept-for-ever", kept_for_ever,
        "tests/unit/service/test_upkeep.py::"
        "test_what_is_kept_for_the_next_burst_is_given_back_by_halves",
    ),
    Planted("window-of-one-side", window_of_one_side, SESSION + "what_the_acceptor_answers"),
    Planted("unheard-for-ever", unheard_for_ever, SESSION + "no_answer_closes"),
    Planted("milliseconds-cut", milliseconds_cut, CLIENT + "test_selection.py::test_timeouts"),
    Planted(
        "moved-into-another-queue", moved_into_another_queue,
        CLIENT + "test_selection.py::"
        "test_a_target_that_begins_with_a_semicolon_is_beside_a_subqueue",
    ),
    Planted(
        "batch-begins-with-the-last", batch_begins_with_the_last,
        RANGES + "an_offset_comes_back_from_json_as_it_was",
    ),
    Planted(
        "offsets-unordered", offsets_unordered, RANGES + "an_offset_comes_back_from_json_as_it_was"
    ),
    Planted(
        "holes-that-excuse", holes_that_excuse,
        "tests/unit/spark/source/test_conflicts_losses.py::test_what_had_expired_before_excuses_nothing",
    ),
    Planted(
        "a-lock-is-a-hole", a_lock_is_a_hole,
        "tests/unit/core/management/test_queue_views_range.py::"
        "test_it_ends_before_the_first_locked_message",
    ),
    Planted(
        "a-queue-that-left-is-forgotten", a_queue_that_left_is_forgotten,
        "tests/unit/spark/source/test_queue_matching.py::"
        "test_one_that_leaves_keeps_its_place_and_goes_on_when_it_is_back",
    ),
    Planted(
        "who-was-overwritten-writes-at-once",
        edited(naming, "elif entry == self._written:", "elif False:"),
        "tests/unit/service/test_naming.py::test_copies_do_not_write_as_fast_as_they_can_look",
    ),
    Planted(
        "each-change-is-a-dispute",
        edited(naming, "waits = entry == self._pending", "waits = False"),
        "tests/unit/service/test_naming.py::"
        "test_what_waits_is_written_when_its_time_has_come_and_others_change_theirs",
    ),
    Planted("most-for-each", most_for_each, RANGES + "a_limit_is_kept_and_used_up"),
)  # fmt: skip
