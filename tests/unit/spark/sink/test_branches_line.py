"""How a write waits for a queue manager, by a clock that is not one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from onceq.errors import ManagerAway, QueueNotFound, ServiceNotAvailable, WrongAddress
from onceq.spark.connections import RETRY_S, Patience, Spell
from onceq.spark.sink import branches
from onceq.spark.sink.branches import WRONG_S_MAX, Line

AWAY = ManagerAway("nobody answers")
NOWHERE = WrongAddress("there is no such host")


class World:
    """A place that answers as it is told, and time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: list[Exception] = []
        self.opened = 0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @contextlib.contextmanager
    def open(self, address: str) -> Iterator[Any]:
        self.ask()
        self.opened += 1
        yield self

    def ask(self) -> str:
        if self.answers:
            raise self.answers.pop(0)
        return "done"

    @property
    def name(self) -> str:
        return "HUB"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def spell(patience: Patience, who: str) -> Spell:
        return Spell(patience, who, clock=made.clock, sleep=made.sleep)

    monkeypatch.setattr(branches, "Spell", spell)
    return made


def asked(line: Line) -> Any:
    return line.do(lambda manager: manager.ask())  # type: ignore[attr-defined]


def test_it_is_asked_until_it_answers(world: World) -> None:
    world.answers = [AWAY] * 5
    with Line("here", Patience(), world.open) as line:
        assert line.name == "here"
        assert asked(line) == "done"
        assert line.name == "HUB"
        world.answers = [AWAY]
        assert asked(line) == "done"
    assert world.opened == 1
    assert 3 < world.now < 4


def test_in_the_end_it_is_given_up_and_the_last_reason_is_told(world: World) -> None:
    world.answers = [AWAY] * 100
    with (
        Line("here", Patience(), world.open) as line,
        pytest.raises(ServiceNotAvailable, match=r"\[service-not-available\] nobody.*tried \d\d"),
    ):
        asked(line)
    assert world.now == pytest.approx(RETRY_S)


def test_what_was_never_there_is_not_waited_for(world: World) -> None:
    world.answers = [NOWHERE] * 100
    with (
        Line("here", Patience(), world.open) as line,
        pytest.raises(WrongAddress, match=r"\[wrong-address\]"),
    ):
        asked(line)
    assert world.now == pytest.approx(WRONG_S_MAX)


def test_a_name_that_is_not_known_for_a_while_is_one_that_is_away(world: World) -> None:
    """As that of a container that is started again."""
    with Line("here", Patience(), world.open) as line:
        asked(line)
        world.answers = [NOWHERE] * 10
        assert asked(line) == "done"
    assert world.now > WRONG_S_MAX


def test_what_is_refused_is_not_asked_again(world: World) -> None:
    world.answers = [QueueNotFound("no such queue")]
    with Line("here", Patience(), world.open) as line, pytest.raises(QueueNotFound):
        asked(line)
    assert world.now == 0
