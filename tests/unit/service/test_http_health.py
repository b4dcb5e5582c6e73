"""What makes a manager unready, and what is only noted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from onceq.service.http import FULL, STOPPING, Health, health_of

DAY_S = 86_400
NOW_S = 1_000_000


def manager(**changes: Any) -> Any:
    state = SimpleNamespace(
        damages=changes.pop("damages", ()), offline_s=changes.pop("offline_s", 0)
    )
    clock = SimpleNamespace(read=lambda: SimpleNamespace(wall_s=NOW_S))
    parts = {"stopped": False, "low": False, "trail_export": None, **changes}
    return SimpleNamespace(manager=SimpleNamespace(state=state), clock=clock, **parts)


def doors(ends_s: int | None = None, problem: str = "") -> Any:
    own = None if ends_s is None else SimpleNamespace(ends_s=ends_s, problem=problem)
    return SimpleNamespace(own=own)


def test_one_that_is_well_has_nothing_to_say() -> None:
    assert health_of(manager(), doors(NOW_S + DAY_S)) == Health()
    assert Health().ready


@pytest.mark.parametrize(("change", "reason"), [("stopped", STOPPING), ("low", FULL)])
def test_what_makes_it_unready(change: str, reason: str) -> None:
    found = health_of(manager(**{change: True}), doors())
    assert found.reasons == (reason,)
    assert not found.ready


def test_what_needs_a_person_is_noted_and_takes_no_work_away() -> None:
    damages = (SimpleNamespace(count=2), SimpleNamespace(count=1))
    found = health_of(manager(damages=damages, offline_s=5), doors(NOW_S - 1))
    assert found.ready
    damaged, offline, certificate = found.notes
    assert "3 messages set aside" in damaged
    assert "onceq qm connect" in offline
    assert "it has expired" in certificate
    export = SimpleNamespace(trouble="the disk is full", lost=2)
    told = health_of(manager(trail_export=export), doors()).notes
    assert [("full" in note, "2 acts" in note) for note in told] == [(True, False), (False, True)]
    assert "not of ours" in health_of(manager(), doors(NOW_S + 1, "not of ours")).notes[0]
