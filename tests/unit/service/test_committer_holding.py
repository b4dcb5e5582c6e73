"""A hold on the log for a backup: whose it is, how long it lasts, and that it never outlives its
maker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.decision import Decision, Hold
from onceq.core.inputs import Input, Tick
from onceq.errors import (
    BackupOver,
    InsufficientResources,
    StorageReserve,
    SyncFailed,
    UnsupportedOperation,
)
from onceq.model.limits import BACKUP_HOLD_S
from onceq.model.requests import Grip, HoldLog
from onceq.model.views.managers import BackupHold, StoreCut
from onceq.service.clock import Due
from onceq.service.engine import Engine
from tests.unit.service.fakes import Calls, Diary, House

CUT = StoreCut("/store", 5000, 3, 1000, ((0, 5000, 8000),))


class Held(Diary):
    """A diary of a store that can be held."""

    def hold(self) -> StoreCut:
        self._note("hold")
        return CUT

    def release(self) -> None:
        self._note("release")

    def reclaim(self, live: Callable[[int, int], bool]) -> int:
        self._note("reclaim")
        return 0


def house() -> House:
    made = House()
    made.store = Held(made.notes)
    made.engine = Engine(
        manager=made.core,  # type: ignore[arg-type]
        store=made.store, clock=made.clock, network=Calls(made.notes),
        settings=made.engine.settings, wake=lambda: None, fatal=made.failures.append,
    )  # fmt: skip
    made.owner = made.engine.owner(made.answered)

    def decide(item: Input) -> Decision | None:
        if isinstance(item, HoldLog):
            return Decision([], [Hold(item.owner, item.request, item.verb.value, item.number)])
        return None

    made.core.decide = decide
    return made.start()


def ask(house: House, grip: Grip, number: int = 1, owner: int = 0) -> Any:
    """The answer to a request."""
    house.answers.clear()
    house.pump(HoldLog(grip, number, owner=owner or house.owner, request=9))
    ((_, answer),) = house.answers
    return answer


def test_a_hold_is_given_kept_and_ended() -> None:
    h = house()
    assert ask(h, Grip.BEGIN) == BackupHold(1, CUT, BACKUP_HOLD_S)
    assert ask(h, Grip.KEEP) is None
    assert "release" not in h.notes
    assert ask(h, Grip.END) is None
    assert h.notes[-3:] == ["release", "reclaim", "answer 9"]
    assert h.engine.holding.due() == Due()


def test_one_at_a_time_and_the_next_when_it_is_over() -> None:
    h = house()
    ask(h, Grip.BEGIN)
    assert isinstance(ask(h, Grip.BEGIN), InsufficientResources)
    ask(h, Grip.END)
    assert ask(h, Grip.BEGIN)["number"] == 2


def test_what_nobody_speaks_of_is_let_go_in_time() -> None:
    h = house()
    ask(h, Grip.BEGIN)
    h.pass_s(BACKUP_HOLD_S - 1)
    assert ask(h, Grip.KEEP) is None, "in time"
    h.pass_s(BACKUP_HOLD_S - 1)
    h.pump(Tick())
    assert "release" not in h.notes
    due = h.engine.holding.due().timer_us
    h.pass_s(1)
    assert due == h.clock.now_us, "a timer rings then, whether anything happens or not"
    h.pump(Tick())
    assert h.notes.count("release") == 1
    over = ask(h, Grip.END)
    assert isinstance(over, BackupOver)
    assert "nothing was heard of it for 60 s" in over.text


def test_a_lost_connection_lets_go_at_once() -> None:
    h = house()
    ask(h, Grip.BEGIN)
    h.engine.owner_gone(h.owner)
    assert h.engine.next_timer() == 1, "at once"
    h.pump(Tick())
    assert "release" in h.notes
    other = h.engine.owner(h.answered)
    assert ask(h, Grip.BEGIN, owner=other)["number"] == 2


def test_the_end_of_another_connection_changes_nothing() -> None:
    h = house()
    ask(h, Grip.BEGIN)
    h.engine.owner_gone(h.engine.owner(h.answered))
    h.pump(Tick())
    assert ask(h, Grip.END) is None


@pytest.mark.parametrize("grip", [Grip.KEEP, Grip.END])
def test_whose_it_is_not_cannot_keep_or_end_it(grip: Grip) -> None:
    h = house()
    ask(h, Grip.BEGIN)
    stranger = h.engine.owner(h.answered)
    assert isinstance(ask(h, grip, owner=stranger), BackupOver)
    assert isinstance(ask(h, grip, number=7), BackupOver), "another hold of the same application"
    assert ask(h, Grip.END) is None


def test_a_disk_that_gets_full_is_freed() -> None:
    h = house()
    ask(h, Grip.BEGIN)
    h.store.free = 10
    h.pass_s(2)
    h.pump(Tick())
    assert "release" in h.notes
    over = ask(h, Grip.END)
    assert isinstance(over, BackupOver)
    assert "nearly full" in over.text
    assert isinstance(ask(h, Grip.BEGIN), StorageReserve)


def test_a_disk_that_fails_ends_the_manager_and_not_only_the_backup() -> None:
    h = house()
    h.store.fail["hold"] = SyncFailed("EIO")
    h.pump(HoldLog(Grip.BEGIN, owner=h.owner, request=9))
    assert [type(failure) for failure in h.failures] == [SyncFailed]
    assert h.answers == []


def test_what_is_in_memory_only_has_no_backup() -> None:
    h = house()
    h.engine.store = Diary(h.notes)
    assert isinstance(ask(h, Grip.BEGIN), UnsupportedOperation)
