"""A pump does one portion of long work, whatever waits, and each kind has its turn."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.decision import Answer
from onceq.core.inputs import Compose, Input
from onceq.core.state.log_space import LiveMessages
from onceq.core.state.queue_tables import ACKS_OWED
from onceq.model.marks import Now
from onceq.model.requests import Look
from onceq.model.run import LENGTH_TYPE
from onceq.service.pacing import Portions, WorkKind
from onceq.service.upkeep import Upkeep
from tests.unit.service.fakes import House

OWED = LiveMessages(ACKS_OWED, 0, (7,), (), array(LENGTH_TYPE))


class Busy:
    """A house in which every kind of long work waits, and what each pump has done of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.house = House()
        self.house.core.decide = self._decide
        patch.setattr(Upkeep, "work", self._keep_house)
        patch.setattr(self.house.core, "owed", lambda bytes_max: OWED)
        self.house.start()
        self.house.core.at_work = self.house.core.owing = True
        self.done.clear()

    def _decide(self, item: Input) -> None:
        self.done.append(type(item).__name__)

    def _keep_house(self, now: Now) -> None:
        self.done.append("house")

    def pump(self, *, portion: bool = True) -> tuple[list[str], bool]:
        """What one pump has done while all are due, and whether there is more."""
        self.done.clear()
        self.house.engine.tick()
        self.house.engine.due.by(0)
        more = self.house.engine.pump(portion=portion)
        return list(self.done), more


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Busy:
    return Busy(monkeypatch)


def test_a_pump_does_one_portion_and_each_kind_has_its_turn(busy: Busy) -> None:
    pumps = [busy.pump() for _ in range(6)]
    assert all(more for _, more in pumps), "the others still wait"
    each = [done for done, _ in pumps]
    assert all(len(done) == 1 for done in each)
    turns = [done[0] for done in each]
    assert turns == turns[:3] * 2
    assert sorted(turns[:3]) == ["Compose", "Tick", "house"]


def test_who_asks_is_answered_in_the_same_pump(busy: Busy) -> None:
    house = busy.house
    for number in range(1, 5):
        house.core.decide = lambda item: (
            house.core.decision(Answer(house.owner, item.request, None))
            if isinstance(item, Look) else None
        )  # fmt: skip
        house.engine.submit(Look("status", owner=house.owner, request=number))
        busy.pump()
        assert [request for request, _ in house.answers] == list(range(1, number + 1))


def test_a_pump_in_the_middle_of_a_turn_does_none(busy: Busy) -> None:
    assert busy.pump(portion=False) == ([], True)


def test_what_is_alone_is_done_in_every_pump(busy: Busy) -> None:
    busy.house.core.at_work = False
    busy.house.core.owing = False
    for _ in range(3):
        assert busy.pump() == (["Tick", "house"], False), "a Tick with nothing to do is no portion"
    busy.house.core.owing = True
    busy.house.engine.due.look_us = busy.house.clock.now_us + 1
    for _ in range(3):
        busy.done.clear()
        assert busy.house.engine.pump()
        assert busy.done == ["Compose"]


def test_acknowledgments_that_nobody_is_owed_keep_nobody_else_waiting(busy: Busy) -> None:
    def nothing(bytes_max: int) -> None:
        busy.house.core.owing = False

    for _ in range(6):
        busy.house.core.owing = True
        busy.house.core.owed = nothing  # type: ignore[method-assign]
        done, _ = busy.pump()
        assert len(done) == 1
        assert Compose.__name__ not in done


def test_the_next_is_the_first_behind_the_last() -> None:
    portions = Portions()
    assert portions.next(owing=False, house=False) is WorkKind.NONE
    portions.core = True
    assert portions.next(owing=True, house=True) is WorkKind.CORE
    portions.done(WorkKind.CORE)
    assert portions.next(owing=False, house=False) is WorkKind.CORE
    assert portions.next(owing=False, house=True) is WorkKind.HOUSE
    portions.done(WorkKind.HOUSE)
    assert portions.next(owing=True, house=True) is WorkKind.CORE
