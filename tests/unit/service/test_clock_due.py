"""What is due when: never later than any part wants it, whatever happens to the parts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from onceq.core.decision import Decision, Hold, Scrub
from onceq.core.inputs import Input, OwnerGone, Tick
from onceq.errors import DamagedPiece
from onceq.model.requests import Grip, HoldLog, Look
from onceq.model.views.managers import StoreCut
from onceq.service import upkeep
from onceq.service.clock import NEVER, Due, at, soonest
from tests.unit.service.fakes import Diary, House, Later

CUT = StoreCut("/store", 5000, 3, 1000, ((0, 5000, 8000),))


def test_what_several_want_is_the_soonest_of_each() -> None:
    assert soonest(Due(5, 9, 7), Due(6, 8), at(None)) == Due(5, 8, 7)
    assert soonest() == at(None) == Due(NEVER, NEVER, NEVER)
    assert at(4) == Due(4, 4)


def test_a_wish_makes_it_sooner_and_never_later() -> None:
    due = Due(5, 9)
    due.by(7)
    assert due == Due(5, 7)
    due.by(3)
    assert due == Due(3, 3)


class Looked(NamedTuple):
    """A look at a part of the log."""

    position: int
    damaged: list[DamagedPiece]


class Held(Diary):
    """A store that can be held and looked at."""

    def hold(self) -> StoreCut:
        return CUT

    def release(self) -> None: ...

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        return 0

    def verify(self, position: int, end: int, most: int) -> Looked:
        return Looked(min(position + 64, end), [])


def _decide(house: House, item: Input) -> Decision | None:
    if isinstance(item, HoldLog):
        return Decision([], [Hold(item.owner, item.request, item.verb.value, item.number)])
    if isinstance(item, Look):
        return house.core.decision(records=item.name)
    return None


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_wanted_earlier_than_it_is_due(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECK_BYTES", 3_000)
    random, later = Random(seed), Later()
    house = House(background=later)
    house.store.__class__ = Held
    house.core.decide = lambda item: _decide(house, item)
    house.start()
    engine = house.engine
    owner = house.owner
    deeds: list[Callable[[], object]] = [
        lambda: house.pump(Tick()),
        lambda: house.pump(Look("status", "x")),
        lambda: house.pump(Look("status", "x" * 1_000)),
        lambda: house.pump(HoldLog(Grip.BEGIN, 0, owner=owner, request=1)),
        lambda: house.pump(HoldLog(Grip.KEEP, 1, owner=owner, request=1)),
        lambda: house.pump(HoldLog(Grip.END, 1, owner=owner, request=1)),
        lambda: engine.holding.gone(owner),
        lambda: setattr(house.store, "free", random.choice((10, 1 << 40))),
        lambda: house.pass_s(random.choice((0.1, 0.5, 1.0, 70.0))),
        lambda: later.under_way and later.under_way.pop()(),
        lambda: house.pump(OwnerGone(owner + 1)),
        lambda: engine.scrubbing.perform(Scrub(random.choice((0, 100)))),
    ]
    parts = (engine._upkeep, engine.scrubbing, engine.holding, engine.naming)
    for _ in range(300):
        random.choice(deeds)()
        wanted, due = soonest(*(part.due() for part in parts)), engine.due
        assert due.look_us <= max(wanted.look_us, house.clock.now_us)
        assert due.timer_us <= wanted.timer_us
        assert due.position <= wanted.position
        assert due.look_us <= due.timer_us
