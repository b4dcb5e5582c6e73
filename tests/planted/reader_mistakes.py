"""Mistakes about readers that remove what they have written, as patches (programme P15).

They break what is remembered of readers, or the leases of their holds; see ``mistakes.py``. Every
world that looks for them has readers.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onceq.core.names import find_source
from onceq.core.peers import lives
from onceq.core.receive import entrance, receive
from onceq.core.state.client_memory import Readings
from onceq.core.state.queues import QueueHandle
from onceq.core.step.step import Step
from onceq.model.requests import OpenQueue, Share
from onceq.model.results import Opened
from proof.sim.apps import readers
from proof.sim.faults import lives as faults
from tests.planted.mistakes import Mistake, Plant
from tests.planted.planted import edited, replaced

ONE_RECORD = """\
        build.change.marks = Marks(reads=(read,))
        step.record(build.change)
"""
NO_RECORD = """\
        step.record(build.change)
        step.state.readings.read(read, step.now.wall_s)
"""


@dataclass(frozen=True)
class InReaders:
    """A mistake in worlds with readers."""

    plants: tuple[Plant, ...]

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(readers, "SHARE", 1.0)
        for plant in self.plants:
            plant(patch)


def hold_outlives_its_manager(patch: pytest.MonkeyPatch) -> None:
    """Who has held a queue with a lease is still believed to be there after a restart."""
    known: dict[tuple[str, int], tuple[object, QueueHandle]] = {}

    def open_to_receive(step: Step, item: OpenQueue) -> tuple[QueueHandle, Opened]:
        queue = find_source(step, item.name)
        key = step.identity.name, queue.number
        process, before = known.get(key, (step.readers, None))
        if before is not None and process is not step.readers:
            if before.until_us > step.now.mono_us:
                raise entrance._denied(step, queue, before)  # type: ignore[arg-type]
            del known[key]
        found = original(step, item)
        if item.share is Share.DENY_RECEIVE:
            known[key] = step.readers, found[0]
        return found

    original = entrance._open_to_receive
    patch.setattr(entrance, "_open_to_receive", open_to_receive)


def order_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint has readers by their names: another one makes room than the oldest."""
    dump = Readings.dump
    patch.setattr(Readings, "dump", lambda self: sorted(dump(self)))


def restores_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Every world puts managers back, or lets copies take turns."""
    patch.setattr(faults, "SHARE", 1.0)


def _one(plant: Plant, *more: Plant, expected: str) -> Mistake:
    return Mistake(0, InReaders((plant, *more)), frozenset({expected}))


READER_MISTAKES: dict[str, Mistake] = {
    "removed, and nobody has read": _one(
        edited(receive, "        tx.reads.append(read)\n", ""), expected="I2"
    ),
    "readers remembered in memory alone": _one(
        edited(receive, ONE_RECORD, NO_RECORD), expected="I2"
    ),
    "order of readers forgotten": _one(order_forgotten, expected="I2"),
    "one message more is removed": _one(
        edited(
            receive,
            "range_places(queue, item.first, item.last)\n    if item.keep",
            "range_places(queue, item.first, item.last + 1)\n    if item.keep",
        ),
        expected="I4",
    ),
    "a life gives the places of one that is undone": _one(
        restores_everywhere,
        replaced(lives, "_places", lambda state, random: 0),
        expected="I18",
    ),
    "copies for readers forgotten": _one(
        edited(receive, "CopiedRange if item.keep else HeldRange", "HeldRange"), expected="I14"
    ),
    "leases renewed in vain": _one(
        edited(
            entrance,
            "held.until_us = step.now.mono_us + item",
            "held.until_us = held.until_us or step.now.mono_us + item",
        ),
        expected="I16",
    ),
    "leases end for nobody": _one(
        replaced(entrance, "end_overdue", lambda step, queue: None), expected="I16"
    ),
    "leases end for everybody": _one(
        edited(entrance, "held.until_us and held.until_us <= now_us", "held.until_us"),
        expected="I16",
    ),
    "a hold is given to two": _one(
        edited(
            entrance,
            "for held in (queue.handles if denies else queue.denying).values():",
            "for held in ():",
        ),
        expected="I16",
    ),
    "a hold outlives its manager": _one(hold_outlives_its_manager, expected="I16"),
    "a receive asks no holder": _one(
        edited(
            entrance,
            "        for held in queue.denying.values():\n            raise",
            "        for held in ():\n            raise",
        ),
        expected="I16",
    ),
    "a reader that was replaced removes": _one(
        edited(
            receive,
            "    queue = _source(step, item)\n",
            "    queue = find_queue(step, item.queue)\n",
        ),
        expected="I16",
    ),
}
