"""Messages that pass through: what is told of them, and what room they have."""

from __future__ import annotations

from onceq.core.inputs import Reconfigure
from onceq.model.settings import Settings
from tests.unit.core.ending.situations import too_many_hops
from tests.unit.core.ending.stage import THERE, Asked, Stage


def test_too_many_hops_are_told_once() -> None:
    stage = Stage(Asked(), transactional=True)
    too_many_hops(stage)
    told = stage.left()
    assert any("final acknowledgment" in one for one in told)
    too_many_hops(stage)
    assert stage.left() == told


def test_what_passes_through_counts_towards_the_quota_of_the_computer() -> None:
    stage = Stage(Asked(), transactional=True)
    stage.step(Reconfigure(Settings(forward_messages=True, computer_quota_bytes=1_000), {}))
    stage.arrive(to=THERE)
    assert not stage.present()
