"""Final acknowledgments for which there is no room."""

from __future__ import annotations

import pytest

from onceq.model.message import Journal
from onceq.model.shares import Thing
from tests.few import few
from tests.unit.core.ending.stage import Asked, Stage


def test_a_commit_does_not_fail_for_lack_of_an_outgoing_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(Asked(Journal.DEADLETTER), transactional=True)
    stage.arrive()
    queue = stage.manager.state.queues[stage.queue]
    assert len(queue) == 1
    few(monkeypatch, Thing.OUTGOING, 0)
    stage.receive()
    assert not len(queue), "neither there, nor locked by a transaction that is over"
