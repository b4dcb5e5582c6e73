"""What a step puts on record, and what it passes over."""

from __future__ import annotations

from onceq.core.peers.lives import next_stream
from onceq.core.state.records import Change
from tests.unit.core.alone import WALL_S, Core


def test_a_stream_that_was_only_announced_is_on_record_and_never_given_again() -> None:
    core = Core()
    step, change = core.manager._step, Change(WALL_S)
    stream, records = next_stream(step, change), len(step.decision.records)
    step.record(change)
    assert len(step.decision.records) == records + 1
    assert next_stream(step, Change(WALL_S)) == stream + 1


def test_a_change_with_nothing_in_it_is_not_recorded() -> None:
    core = Core()
    step = core.manager._step
    records = len(step.decision.records)
    step.record(Change(WALL_S, next_message=7))
    assert len(step.decision.records) == records
