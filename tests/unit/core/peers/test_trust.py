"""Routers that are to be asked for who they are."""

from __future__ import annotations

import pytest

from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.model.marks import SECOND_US, Now
from onceq.model.settings import Settings
from onceq.model.shares import Thing
from tests.few import few
from tests.unit.core.alone import IDENTITY, WALL_S


def test_a_start_does_not_fail_for_lack_of_an_outgoing_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few(monkeypatch, Thing.OUTGOING, 0)
    manager = Manager(IDENTITY, Settings(), routes={b"C" * 16: "ROUTER"})
    manager.recover(Now(WALL_S * SECOND_US, 0), None, [], 0, entropy=bytes(ENTROPY_BYTES))
    assert not manager.state.outgoing
