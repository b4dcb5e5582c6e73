"""Scrubs: what was asked for an earlier one says nothing of this one."""

from __future__ import annotations

from typing import NamedTuple

from onceq.core.decision import Scrub
from onceq.errors import DamagedPiece
from tests.unit.service.fakes import Diary, House, Later


class Looked(NamedTuple):
    """A look at a part of the log."""

    position: int
    damaged: list[DamagedPiece]


class Pages(Diary):
    """A store that notes from where it is looked at."""

    def verify(self, position: int, end: int, most: int) -> Looked:
        self._note("verify", position)
        return Looked(min(position + 64, end), [])


def test_one_that_follows_another_leaves_nothing_out() -> None:
    """It may begin while another thread still looks at a piece for the one that was stopped."""
    later = Later()
    house = House(background=later)
    house.store.__class__ = Pages
    house.start()
    house.store.append(b"x" * 1_000)
    house.store.sync()
    scrubbing = house.engine.scrubbing

    def work() -> None:
        house.pass_s(1)
        scrubbing.work(house.clock.read())

    scrubbing.perform(Scrub(1 << 30))
    work()
    later.under_way.pop()()
    work()  # what it has found is taken
    work()  # and the next piece begun
    scrubbing.perform(Scrub(0))
    scrubbing.perform(Scrub(1 << 30))
    later.under_way.pop()()
    house.notes.clear()
    work()
    work()
    later.under_way.pop()()
    assert "verify 0" in house.notes
