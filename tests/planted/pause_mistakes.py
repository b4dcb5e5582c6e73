"""Mistakes about queues that operators pause, as patches (programme P15).

See ``mistakes.py``. Every world that looks for them has pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from onceq.core.management import operations
from onceq.core.receive import entrance, receive
from onceq.core.state import snapshot
from onceq.core.state.setups import dump_properties
from onceq.model.queue import QueueProperties
from proof.sim.apps import pausing
from tests.planted.mistakes import ASSERTED, Mistake, Plant
from tests.planted.planted import edited, replaced

SERVE_NONE = """\
    if queue.properties.paused_since and not queue.sub:
        return  # those that peek have got it
    # Each in its turn; those that only peek, or wait elsewhere, are passed over and stay.
    passed = 0
    while queue.available:
        found = next(islice(queue.waiting.items(), passed, None), None)
        if found is None:
            break
        key, item = found
        if not item.peek and _over(step, item, queue):
"""
SERVE_ALL = """\
    passed = 0
    while queue.available:
        found = next(islice(queue.waiting.items(), passed, None), None)
        if found is None:
            break
        key, item = found
        if not item.peek and not _hand_out(step, item, queue, _choose(item, queue)):
"""
CHECKED = "        expire_at(step, queue, *place_of(item.lookup))\n    index, counter = place_of"
CHECKED_PAUSED = """\
        if queue.properties.paused_since:
            raise nothing(replace(item, peek=False), queue)
        expire_at(step, queue, *place_of(item.lookup))
    index, counter = place_of"""


@dataclass(frozen=True)
class InPauses:
    """A mistake in worlds with pauses."""

    plant: Plant

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(pausing, "SHARE", 1.0)
        self.plant(patch)


def open_again(properties: QueueProperties) -> dict[str, Any]:
    return dump_properties(properties) | {"paused_since": 0}


def _one(plant: Plant, *expected: str) -> Mistake:
    return Mistake(0, InPauses(plant), frozenset(expected))


PAUSE_MISTAKES: dict[str, Mistake] = {
    "a paused queue hands out": _one(
        edited(receive, "queue.properties.paused_since and paused(item, queue):", "False:"), "I16"
    ),
    "who waits at a paused queue is served": _one(edited(receive, SERVE_NONE, SERVE_ALL), "I16"),
    "who waits is not served at the resume": _one(
        edited(operations, "    if not paused:\n        serve_waiting(step, queue)\n", ""), ASSERTED
    ),
    "a pause is forgotten in a checkpoint": _one(
        replaced(snapshot, "dump_properties", open_again), "I16"
    ),
    "a pause is remembered in memory alone": _one(
        edited(
            operations,
            "step.setup(QueueSet(replace(queue.properties, paused_since=since)))",
            "queue.properties = replace(queue.properties, paused_since=since)",
        ),
        "I16",
    ),
    "a resume is remembered in memory alone": _one(
        edited(
            operations,
            "step.setup(QueueSet(replace(queue.properties, paused_since=since)))",
            "paused and step.setup(QueueSet(replace(queue.properties, paused_since=since)))\n"
            "    queue.properties = replace(queue.properties, paused_since=since)",
        ),
        "I26",
    ),
    "a pause is not told of": _one(
        edited(entrance, "    if paused(item, queue):\n", "    if False:\n"), "I16"
    ),
    "who names a message of a paused queue gets none": _one(
        edited(receive, CHECKED, CHECKED_PAUSED), "I16"
    ),
}
