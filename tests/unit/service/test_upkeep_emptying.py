"""Sparse segments are emptied in portions: others are served between them."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import Tick
from onceq.core.management.damage import Cursor, Sparse
from onceq.model.limits import SPARSE_POSITIONS_MAX
from onceq.model.log import frame_size
from onceq.service import upkeep
from onceq.service.upkeep import PORTION_BYTES, PORTION_POSITIONS
from onceq.store.contract import SegmentUse
from tests.unit.service.fakes import SMALL, House, write


class Search:
    """A search for messages that finds none in as many positions as it may look at."""

    def __init__(self, house: House, *, whole: bool = False) -> None:
        self.asked: list[tuple[int, Cursor | None]] = []
        self._whole = whole
        house.core.sparse = self  # type: ignore[method-assign]

    def __call__(self, base: int, end: int, bytes_max: int, **more: Any) -> Sparse:
        assert bytes_max <= PORTION_BYTES
        assert more["positions_max"] <= PORTION_POSITIONS
        self.asked.append((base, more["after"]))
        cursor = None if self._whole else (4, 0, len(self.asked))
        return Sparse((), more["positions_max"], cursor)


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    """One with two sparse segments, both covered by a checkpoint."""
    monkeypatch.setattr(upkeep, "SLACK_BYTES", 100)
    house = House(settings=SMALL).start()
    house.core.image = b""
    house.core.lives = {(0, frame_size(1_100)): 3}
    write(house, 1_100)
    position = house.store.position
    parts = SegmentUse(0, position // 2, 900), SegmentUse(position // 2, position, 900)
    house.store.used = parts
    house.core.lives = {(part.base, part.end): 100 + part.base for part in parts}
    house.core.lives[parts[1].base, parts[1].end] = 150
    house.pass_s(2)
    return house


def test_a_pump_does_one_portion_and_the_next_one_goes_on(house: House) -> None:
    search = Search(house)
    portions = SPARSE_POSITIONS_MAX // PORTION_POSITIONS
    for number in range(1, portions + 1):
        house.pump(Tick())
        assert len(search.asked) == number
        assert (house.engine.next_timer() == 0) == (number < portions)
    assert search.asked == [(0, None), *((0, (4, 0, at)) for at in range(1, portions))]
    house.pump(Tick())
    assert len(search.asked) == portions, "what one look allows is done"
    house.pass_s(2)
    house.pump(Tick())
    assert search.asked[-1] == (0, (4, 0, portions)), "the next look goes on where it was"


def test_after_one_segment_another_one_is_searched_and_none_twice(house: House) -> None:
    search = Search(house, whole=True)
    for _ in range(5):
        house.pump(Tick())
    other = house.store.position // 2
    assert search.asked == [(0, None), (other, None)]


def test_nothing_is_moved_while_the_disk_is_nearly_full(house: House) -> None:
    search = Search(house)
    house.pump(Tick())
    house.store.free = 10
    house.pass_s(2)
    for _ in range(3):
        house.pump(Tick())
    assert len(search.asked) == 1
    assert house.engine.next_timer() != 0
