"""What tests of plans share: a scripted manager, a session, and limits that are soon reached."""

from __future__ import annotations

import pytest

from onceq.client import properties
from onceq.client.link import Greeting, Session
from onceq.client.plans import sending_unit
from tests.unit.client.script import Script


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def session() -> Session:
    return Session(Greeting("A", bytes(range(16)), 1_000), clock=lambda: 5.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything flushes early."""
    monkeypatch.setattr(sending_unit, "FLUSH_BYTES", 1_000)
    monkeypatch.setattr(sending_unit, "FLUSH_MESSAGES", 20)
    monkeypatch.setattr(properties, "PART_BYTES_MAX", 500)
