"""What becomes of messages is in the log: few lines, which count."""

from __future__ import annotations

import logging
import re

import pytest

from onceq.core.step.units import LETTERS, REFUSED_HERE, REFUSED_THERE
from onceq.model.limits import LOG_RATE_S
from onceq.model.message import Journal
from onceq.model.requests import Steer, SteerOutgoing
from onceq.model.resultcodes import MessageClass as C
from onceq.service.pacing import SECOND, Rates, tell
from tests.conformance.world import World
from tests.unit.service.fakes import Clock

HERE = r"private$\q"
NOWHERE = r"DIRECT=OS:B\private$\nowhere"


def lines(caplog: pytest.LogCaptureFixture, what: str = "") -> list[str]:
    return [record.message for record in caplog.records if what in record.message]


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onceq")


def test_many_of_a_kind_are_two_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rates = Rates(clock)
    for at in range(1_000):
        tell(rates, {(REFUSED_HERE, C.NACK_QUEUE_EXCEED_QUOTA): (100, f"q{at}")})
    tell(rates, {(REFUSED_HERE, 0): (1, "")})
    clock.now_us += LOG_RATE_S * SECOND
    rates.tell()
    kind, why = "nack-queue-exceed-quota", '"the queue is at its quota"'
    assert lines(caplog) == [
        f"messages refused: class={kind} why={why} queue=q0 count=100",
        "messages refused: class=other count=1",
        f"messages refused, more of these: count=99900 seconds={LOG_RATE_S} "
        f"last_class={kind} last_why={why} last_queue=q999",
    ]


def test_what_a_queue_does_not_take_is_told_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    world = World("A", "B")
    world["A"].once(NOWHERE, b"one", b"two")
    world["A"].once(NOWHERE, b"three")
    world.run(30)
    kind, why = "class=nack-bad-destination-queue", 'why="there is no such queue"'
    assert lines(caplog, "messages refused") == [
        f'{REFUSED_THERE}: {kind} {why} queue="DIRECT=OS:B\\\\private$\\\\nowhere" count=3',
        rf"{REFUSED_HERE}: {kind} {why} queue=os:b\private$\nowhere count=3",
    ]
    engine = world["A"].engine
    assert engine is not None
    assert engine.manager.counts.noted == {}


def test_dead_letters_are_lines_that_count_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World("A")
    world["A"].create("q")
    for at in range(50):
        world["A"].once(
            HERE, b"%d" % at, journal=Journal.DEADLETTER, time_to_be_received=2 + at % 2
        )
    world["A"].once(HERE, b"nobody asked", time_to_be_received=2)
    world.run(10)
    first, *_ = lines(caplog, LETTERS)
    assert first.startswith('dead letters: class=nack-receive-timeout why="nobody received it in')
    assert " queue=q count=" in first
    world.run(LOG_RATE_S + 10)
    engine = world["A"].engine
    assert engine is not None
    engine.stop()
    told = lines(caplog, LETTERS)
    assert len(told) <= 2
    assert sum(int(re.findall(r"count=(\d+)", line)[0]) for line in told) == 50


def test_a_pause_is_one_line_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    world = World("A", "B")
    world["A"].create("q")
    world["A"].once(NOWHERE, b"x")
    for where in (HERE, NOWHERE):
        for action in (Steer.PAUSE, Steer.PAUSE, Steer.RESUME):
            world["A"].ask(SteerOutgoing(where, action))
    told = [line.partition(":")[0] for line in lines(caplog, "by an operator")]
    assert told == [
        "a queue was paused by an operator", "a queue was resumed by an operator",
        "an outgoing queue was paused by an operator",
        "an outgoing queue was resumed by an operator",
    ]  # fmt: skip
