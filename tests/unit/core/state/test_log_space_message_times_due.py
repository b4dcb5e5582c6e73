"""When the delayed messages of a lane are due."""

from __future__ import annotations

from onceq.core.state.log_space import STALE_MAX, DueTimes
from onceq.model.marks import NEVER_S


def test_what_is_due_is_told_once_and_in_the_order_of_its_time() -> None:
    due = DueTimes()
    due.add(1, 2, 20)
    due.add(3, 1, 10)
    assert (due.next, len(due), due.at(3), due.at(9)) == (10, 3, 10, 0)
    assert due.take(9, 10) == []
    assert due.take(20, 2) == [3, 1]
    assert due.take(20, 2) == [2]
    assert due.take(20, 2) == []
    assert 2 in due, "it is gone only when it is forgotten"


def test_what_was_told_in_vain_is_told_again() -> None:
    due = DueTimes()
    due.add(1, 1, 10)
    assert due.take(10, 1) == [1]
    due.again(1, 3)
    due.again(1, 1)
    assert due.take(10, 9) == [1], "once, however often it was given back"


def test_what_has_left_before_its_time_is_not_told() -> None:
    due = DueTimes()
    due.add(1, 3, 10)
    due.forget(2, 1)
    assert due.take(10, 9) == [1, 3]
    due.forget(1, 1)
    due.forget(3, 1)
    assert (due.next, len(due)) == (NEVER_S, 0)


def test_what_leaves_early_does_not_stay_in_memory() -> None:
    due = DueTimes()
    for counter in range(10 * STALE_MAX):
        due.add(counter, 1, 1_000)
        due.forget(counter, 1)
    assert len(due._heap) <= STALE_MAX + 1


def test_what_is_given_back_again_and_again_stands_there_once() -> None:
    due = DueTimes()
    due.add(1, 1, 1_000)
    for _ in range(10 * STALE_MAX):
        due.again(1, 1)
    assert len(due._heap) <= STALE_MAX + 2
    assert due.take(1_000, 9) == [1]


def test_a_checkpoint_keeps_it() -> None:
    due, again = DueTimes(), DueTimes()
    due.add(1, 3, 10)
    due.take(10, 2)
    again.load(due.dump())
    assert again.take(10, 9) == [1, 2, 3], "what was told in vain is told after a restart"
