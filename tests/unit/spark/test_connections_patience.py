"""How long it is tried with a queue manager that is away, by a clock that is not one."""

from __future__ import annotations

import logging

import pytest

from onceq.errors import ManagerAway
from onceq.spark.connections import LONGEST_WAIT_S, RETRY_S, BackOff, Patience, Spell

GONE = ManagerAway("nobody answers")


class Clock:
    """Passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def waits(patience: Patience, cost_s: float = 0.0) -> list[float]:
    """All waits, if each attempt takes so long and fails."""
    clock = Clock()
    spell = Spell(patience, "somebody", clock=clock, sleep=clock.sleep)
    while spell.again(GONE):
        clock.now += cost_s
    return clock.slept


def test_a_manager_may_be_away_for_a_minute_by_default() -> None:
    found = waits(Patience())
    assert found[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(found) == LONGEST_WAIT_S
    assert sum(found) == pytest.approx(RETRY_S)
    assert len(found) < 25


def test_attempts_that_hang_count_as_time() -> None:
    assert len(waits(Patience(retry_s=60), cost_s=10)) == 6


def test_the_last_attempt_is_made_when_the_time_is_over() -> None:
    assert waits(Patience(retry_s=1)) == pytest.approx([0.1, 0.2, 0.4, 0.3])


def test_no_time_means_one_attempt() -> None:
    assert waits(Patience(retry_s=0)) == []


def test_a_number_of_attempts_is_made_however_long_it_takes() -> None:
    assert waits(Patience(retry_s=1, retries=3, interval_s=1.0), cost_s=5) == [1.0] * 3
    assert waits(Patience(retries=0)) == []
    assert len(waits(Patience(retry_s=0.1, retries=20))) == 20


def test_an_interval_alone_is_kept_until_the_time_is_over() -> None:
    assert waits(Patience(retry_s=5, interval_s=2.0)) == [2.0, 2.0, 1.0]


def test_a_long_spell_does_not_overflow() -> None:
    back_off = BackOff(Patience(retry_s=1e9))
    assert {back_off.next_s(0) for _ in range(5_000)} >= {LONGEST_WAIT_S}


def test_the_log_tells_once_that_it_is_away_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    spell = Spell(Patience(), "the queue manager at here", clock=clock, sleep=clock.sleep)
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        for _ in range(5):
            assert spell.again(GONE)
        spell.over()
    away, back = [record.getMessage() for record in caplog.records]
    assert "the queue manager at here does not answer" in away
    assert "nobody answers" in away
    assert "60 s (retryTimeout)" in away
    assert "answers again, after 3.1 s" in back
    assert spell.describe_tries() == ", tried 5 times in 3 s"


def test_nothing_is_said_where_nothing_was_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    spell = Spell(Patience(retry_s=0), "somebody")
    assert not spell.again(GONE)
    assert spell.describe_tries() == ""
    Spell(Patience(), "somebody").over()
    assert not caplog.records
