"""Programme P4 with ``--delays``: kept worlds in which messages are delayed, and what they find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceq.core import delays
from onceq.core.state.log_space import DueTimes
from proof.sim.apps import delaying
from proof.sim.base import marks
from proof.sim.simulate import commit_of, describe, fresh, run_seed

HERE = Path(__file__).parent
KEPT = (*range(1, 11), 0xBC53FF98, 0xE0862FBD)
"""In the last ones a job sends on what was delayed: when its time had come, and before."""
FRESH = 30
FOUND_WITHIN = 12


@pytest.mark.slow
def test_worlds_in_which_messages_are_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delaying, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_DELAYS), dict(reached)


@pytest.mark.slow
def test_fresh_worlds_in_which_messages_are_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In none of the other worlds are messages delayed: the kept seeds would tell other stories."""
    monkeypatch.setattr(delaying, "SHARE", 1.0)
    seeds = fresh(FRESH, "with delays: " + commit_of(str(HERE)))
    failed = [result for result in map(run_seed, seeds) if result.violation]
    assert not failed, "\n\n".join(describe(result) for result in failed[:3])


def early(step: Any, queue: Any, due_s: int) -> tuple[Any, int]:
    return queue, 0


def a_second_early(self: DueTimes, first: int, count: int, due_s: int) -> None:
    ADD(self, first, count, due_s - 1)


ADD = DueTimes.add


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "name", "mistake"),
    [(delays, "place_for", early), (DueTimes, "add", a_second_early)],
)
def test_worlds_find_what_is_early(
    monkeypatch: pytest.MonkeyPatch, target: object, name: str, mistake: Callable[..., Any]
) -> None:
    monkeypatch.setattr(delaying, "SHARE", 1.0)
    monkeypatch.setattr(target, name, mistake)
    for module in ("arrival", "ordered_arrival"):
        if name == "place_for":
            monkeypatch.setattr(f"onceq.core.transfer.{module}.{name}", mistake)
    found = []
    for seed in range(1, FOUND_WITHIN + 1):
        found.append(run_seed(seed).violation)
        if "before its time" in found[-1]:
            return
    pytest.fail(f"no world found it: {found}")
