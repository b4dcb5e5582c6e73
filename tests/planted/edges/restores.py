"""Mistakes about restores and hot backups, most of which simulated worlds with lives find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceq.core import manager
from onceq.core.peers import lives
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.records import RangeChange
from onceq.core.state.setups import LifeBegun, Setup, StorePutBack
from onceq.core.step.step import ChangeBuilder, Step, Timer
from onceq.core.transfer import abandoned_streams, pending_outcomes, sessions
from onceq.core.transfer.pending_outcomes import NumberRange
from onceq.model.resultcodes import FORGOTTEN_THERE, TOLD_ALREADY
from onceq.store import backup
from onceq.store.backup import Part
from tests.planted.planted import SIM, Planted, replaced


def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(step: Step, entropy: bytes, made_ns: int = 0, **more: object) -> None:
        state = step.state
        step.setup(
            LifeBegun(
                id=entropy[:16],
                stamp=state.stamp,
                ordinal=state.next_ordinal,
                message=state.next_message,
                made_ns=made_ns,
            )
        )

    monkeypatch.setattr(lives, "begin", begin)


def _not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Step.setup

    def silent(self: Step, what: Setup, **more: Any) -> Any:
        return None if isinstance(what, StorePutBack) else setup(self, what, **more)

    monkeypatch.setattr(Step, "setup", silent)


def _one_segment_less(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = backup._parts

    def fewer(*of: Any) -> Iterator[Part]:
        found = list(parts(*of))
        yield from found[:-1] if found[-1].name.startswith("log-") else found

    monkeypatch.setattr(backup, "_parts", fewer)


def _all_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def fates(outgoing: OutgoingQueue) -> list[tuple[int, int, bool | None]]:
        lane = outgoing.ordered_lane
        return [(first, count, False) for first, count in lane.ranges(AVAILABLE, lane.head)]

    monkeypatch.setattr(abandoned_streams, "_fates", fates)


def _no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandoned_streams, "_fence", lambda step, outgoing, here: None)


def _nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sessions, pending_outcomes):
        monkeypatch.setattr(module, "ask", lambda step, outgoing: None)


def _nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    move = ChangeBuilder.move

    def silent(self: ChangeBuilder, one: RangeChange) -> None:
        if one.note in (FORGOTTEN_THERE, TOLD_ALREADY):
            one.copies_to = ()
        move(self, one)

    monkeypatch.setattr(ChangeBuilder, "move", silent)


def _no_subqueues(monkeypatch: pytest.MonkeyPatch) -> None:
    look = pending_outcomes._collect

    def queues_only(
        queue: Queue, index: int, at: int, left: int, source: bytes,
        parts: dict[int, list[NumberRange]],
    ) -> tuple[int, int]:  # fmt: skip
        if queue.parent is not None:
            return queue.lanes[index].next, left
        return look(queue, index, at, left, source, parts)

    monkeypatch.setattr(pending_outcomes, "_collect", queues_only)


def _no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(manager._TIMERS, Timer.ENDS, lambda step, number: None)


CASES = "tests/conformance/test_untold.py::test_"

PLANTED = (
    Planted("ends-are-asked-for-by-nobody", _nobody_asks, SIM, first=27),
    Planted(
        "ends-are-asked-for-when-a-session-opens-only",
        _no_ring,
        CASES + "what_a_receiver_that_was_put_back_has_forgotten_is_in_doubt",
    ),
    Planted(
        "an-end-that-is-under-way-is-forgotten",
        replaced(pending_outcomes, "_under_way", lambda step, guid: False),
        CASES + "an_end_that_is_under_way_is_waited_for",
    ),
    Planted(
        "what-a-transaction-holds-has-no-end",
        replaced(pending_outcomes, "_HERE", (AVAILABLE,)),
        CASES + "of_what_is_still_there_the_sender_waits_for_the_end",
    ),
    Planted(
        "what-was-moved-aside-has-no-end",
        _no_subqueues,
        CASES + "of_what_is_still_there_the_sender_waits_for_the_end",
    ),
    Planted(
        "who-asked-is-not-told-of-a-forgotten-end",
        _nobody_is_told,
        CASES + "who_asked_for_bad_news_only_is_told",
    ),
    Planted(
        "an-answer-has-as-many-ranges-as-there-are",
        replaced(pending_outcomes, "PASSED_RANGES_MAX", 1 << 20),
        CASES + "more_ranges_than_fit_into_an_answer_are_asked_for_in_parts",
    ),
    Planted("a-life-after-a-restore-gives-numbers-again", _same_numbers, SIM, first=13),
    Planted("a-restore-leaves-no-record", _not_recorded, SIM, first=27),
    Planted("a-hot-backup-lacks-its-last-segment", _one_segment_less, SIM, first=27),
    Planted("what-has-arrived-moves-to-another-stream-too", _all_moved, SIM, first=30),
    Planted("what-waits-in-a-left-stream-stays-there", _no_fence, SIM, first=27),
)
