"""What sessions have shown is remembered of so many managers."""

from __future__ import annotations

import pytest

from onceq.core.step.connections import PeerSessions
from onceq.model import limits


def test_the_names_of_managers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEERS_REMEMBERED_MAX", 3)
    known = PeerSessions()
    for at in range(5):
        known.called(bytes([at]) * 16, f"m{at}")
    assert list(known.computer_names.values()) == ["m2", "m3", "m4"]
    known.called(bytes([3]) * 16, "other")
    assert len(known.computer_names) == 3


def test_return_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEERS_REMEMBERED_MAX", 3)
    known = PeerSessions()
    for at in range(5):
        known.came_from(bytes([at]) * 16, f"10.0.0.{at}")
    known.came_from(bytes([4]) * 16, "")
    assert list(known.return_to.values()) == ["10.0.0.2", "10.0.0.3"]
