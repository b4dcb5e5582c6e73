"""Mistakes of the two shapes that the programmes could not see: what a checkpoint forgets, and
what happens at the limits of tables."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.receive import receive
from onceq.core.state.audit_trail import ReportRequests
from onceq.core.state.client_memory import Outcomes
from onceq.core.state.in_doubt_table import Doubt, Doubts, Memories
from onceq.core.state.peer_table import Progress
from onceq.core.state.positions import Positions
from onceq.core.state.records import SeenIdentifiers
from onceq.core.state.snapshot import CHECKPOINT_VERSION, StateSnapshot
from onceq.core.state.state import State
from onceq.model.identity import TransactionId
from onceq.model.run import Buffer
from tests.planted.planted import SIM, Planted

Head = dict[str, Any]
RECEIVING = "tests/unit/core/receive/test_receive.py::test_what_does_not_fit_is_not_passed_over"
LANE = "tests/unit/core/state/test_positions.py::test_behind_a_gap_nothing_seems_to_stand_before"
FULL = "tests/unit/core/state/test_state.py::test_of_too_many_identifiers_the_oldest_go"
PASSED = "tests/unit/core/state/test_in_doubt_table.py::test_of_too_many_ranges_nothing_is_claimed"
COMPARED = "tests/property/test_checkpoint.py::test_every_part_of_a_checkpoint_is_compared"
SEVERAL = 4


def forgets(change: Callable[[Head], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """A checkpoint is made without something."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        original = StateSnapshot.encode

        def encode(self: StateSnapshot, pause: Callable[[], object] = lambda: None) -> list[Buffer]:
            _, head, *tables = original(self, pause)
            made = json.loads(bytes(head))
            change(made)
            text = json.dumps(made).encode()
            return [struct.pack("<II", CHECKPOINT_VERSION, len(text)), text, *tables]

        patch.setattr(StateSnapshot, "encode", encode)

    return plant


def column(table: str, index: int, value: Any) -> Callable[[Head], None]:
    """One column of a table is as if it had never been used."""

    def change(head: Head) -> None:
        for row in head[table]:
            row[index] = value

    return change


def of_lanes(name: str) -> Callable[[Head], None]:
    """A table of the lanes is left out."""

    def change(head: Head) -> None:
        for lane in head["lanes"]:
            lane[name] = []

    return change


def key(name: str, value: Any) -> Callable[[Head], None]:
    """A part of the head is left out."""

    def change(head: Head) -> None:
        head[name] = value

    return change


# ---- at the limits of tables ---------------------------------------------------------------


def newest_identifier_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Where too many identifiers are remembered the newest go, not the oldest."""

    def see(self: State, seen: SeenIdentifiers, wall_s: int) -> None:
        before = dict(self.seen)
        original(self, seen, wall_s)
        if len(self.seen) >= len(before) and any(old not in self.seen for old in before):
            for number in seen.numbers:
                self.seen.pop((seen.source, seen.key, number, seen.sent), None)

    original = State.see
    patch.setattr(State, "see", see)


def hole_passed_over(patch: pytest.MonkeyPatch) -> None:
    """Among several tables of positions the one behind a hole is not found."""

    def next_block(self: Positions, counter: int) -> int:
        return original(self, counter) if len(self._chunks) < SEVERAL else self.next

    original = Positions._next_block
    patch.setattr(Positions, "_next_block", next_block)


def window_slides_too_far(patch: pytest.MonkeyPatch) -> None:
    """Of the commits of a session all but the last are forgotten at the end of its window."""

    def committed(self: Outcomes, id: TransactionId, wall_s: int) -> None:
        original(self, id, wall_s)
        last, bits, at = self._sessions[id.session]
        self._sessions[id.session] = (last, bits & 1, at)

    original = Outcomes.committed
    patch.setattr(Outcomes, "committed", committed)


def passed_over_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """A range that is remembered no longer counts as accepted."""

    def advance(self: Memories, progress: Progress, stream: int, first: int, last: int,
                *, surely_new: bool) -> None:  # fmt: skip
        since = progress.since
        same = progress.stream == stream
        original(self, progress, stream, first, last, surely_new=surely_new)
        if same and progress.since > since:
            progress.since = since

    original = Memories.advance
    patch.setattr(Memories, "advance", advance)


def doubt_of_another(patch: pytest.MonkeyPatch) -> None:
    """Where too many doubts are remembered, a new one takes the place of the first."""

    def add(self: Doubts, stream: int, number: int, doubt: Doubt) -> None:
        before = len(self)
        original(self, stream, number, doubt)
        if self.places and len(self) == before:
            place = next(iter(self.places))
            self.places[place] = self.places[place]
            first, known = self.places[place]
            self._streams[first].doubts[known].counter = doubt.counter

    original = Doubts.add
    patch.setattr(Doubts, "add", add)


def wishes_lost_when_compacted(patch: pytest.MonkeyPatch) -> None:
    """When the list of wishes is made shorter, one too many goes."""

    def forget_before(self: ReportRequests, head: int) -> None:
        start = self._start
        original(self, head)
        if start and not self._start and self._items:
            del self._items[0]

    original = ReportRequests.forget_before
    patch.setattr(ReportRequests, "forget_before", forget_before)


def lower_before_higher(patch: pytest.MonkeyPatch) -> None:
    """A small message of a lower priority is handed out before a large one that does not fit."""

    def first(self: Positions, state: int, start: int, stop: int) -> int:
        if sys._getframe(1).f_code is receive._choose.__code__:
            return stop
        return original(self, state, start, stop)

    original = Positions.first
    patch.setattr(Positions, "first", first)


def head_before_the_gap(patch: pytest.MonkeyPatch) -> None:
    """What lies behind the gap of a restart is never let go of."""

    def skip_to(self: Positions, counter: int) -> None:
        head, cursor = self.head, self.cursor
        original(self, counter)
        self.head, self.cursor = head, cursor

    original = Positions.skip_to
    patch.setattr(Positions, "skip_to", skip_to)


PLANTED = (
    Planted("checkpoint-forgets-offline", forgets(key("offline", 0)), COMPARED),
    Planted(
        "checkpoint-forgets-where-places-begin",
        forgets(key("places", 1)),
        "tests/conformance/test_places.py::test_a_checkpoint_keeps_where_places_begin",
    ),
    Planted("checkpoint-forgets-pause", forgets(column("outgoing", 5, 0)), COMPARED),
    Planted("checkpoint-forgets-left-bases", forgets(column("outgoing", 4, [])), COMPARED),
    Planted(
        "checkpoint-forgets-what-was-passed-over", forgets(column("progress", 6, [])), COMPARED
    ),
    Planted("checkpoint-forgets-moves", forgets(of_lanes("moved")), COMPARED),
    Planted("checkpoint-forgets-aborts", forgets(of_lanes("aborts")), SIM),
    Planted("checkpoint-forgets-identifiers", forgets(key("seen", [])), SIM),
    Planted("checkpoint-forgets-receipts", forgets(key("receipts", [])), COMPARED),
    Planted("lower-before-higher", lower_before_higher, RECEIVING),
    Planted("head-before-the-gap", head_before_the_gap, LANE),
    Planted(
        "newest-identifier-forgotten",
        newest_identifier_forgotten,
        FULL,
    ),
    Planted("hole-passed-over", hole_passed_over, SIM),
    Planted("window-slides-too-far", window_slides_too_far, SIM),
    Planted(
        "passed-over-is-accepted",
        passed_over_is_accepted,
        PASSED,
    ),
    Planted("doubt-of-another", doubt_of_another, SIM),
    Planted("wishes-lost-when-compacted", wishes_lost_when_compacted, SIM),
)
