"""Mistakes about who is told of as working on a queue, as patches (programme P15).

See ``mistakes.py``. Every world that looks for them has operators who ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import pytest

from onceq.core.management import work_views
from onceq.core.step import units
from onceq.core.transaction import unit_of_work
from proof.sim.apps import onlookers
from tests.planted.mistakes import Mistake, Plant
from tests.planted.planted import edited

UNDONE = """\
    for key in [key for key in step.units.transactions if key[0] == owner]:
        undo(step, step.units.transactions[key])
"""
ACTIVE_PASSED = """\
            if tx.phase is not Phase.ACTIVE:
                yield tx
"""


@dataclass(frozen=True)
class InSight:
    """A mistake in worlds in which operators ask who works on queues."""

    plant: Plant

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(onlookers, "SHARE", 1.0)
        self.plant(patch)


def _one(
    old: str, new: str, *expected: str, module: ModuleType = work_views, first: int = 0
) -> Mistake:
    return Mistake(0, InSight(edited(module, old, new)), frozenset(expected), first)


CONSUMER_MISTAKES: dict[str, Mistake] = {
    "a prepared branch is not told of": _one("elif count:", "elif False:", "I20"),
    "branches at which somebody is at work are told of twice": _one(
        ACTIVE_PASSED, "            yield tx\n", "I19", module=units
    ),
    "ranges are told of in place of messages": _one(
        "count = sum(held.count for held", "count = sum(1 for held", "I19", "I20"
    ),
    "who holds messages of one priority is not told of": _one(
        "any(lane.locked for lane", "all(lane.locked for lane", "I19", "I20", first=120
    ),
    "who waits is not told of": _one(
        "for at, (owner, _) in enumerate(list(queue.waiting), 1):",
        "for at, (owner, _) in enumerate((), 1):", "I19",
    ),
    "who holds messages is told of last": _one("first = 0 if", "first = 3 if", "I19"),
    "a branch is told of by a connection": _one(
        "connection=0 if resting is not None else one.owner", "connection=one.owner",
        "I17", "I19", "I20",
    ),
    "who has gone keeps what he has taken": _one(UNDONE, "", "I17", module=unit_of_work),
}  # fmt: skip
