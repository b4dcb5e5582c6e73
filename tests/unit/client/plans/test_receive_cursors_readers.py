"""Requests of readers, as they go to a queue manager."""

from __future__ import annotations

from onceq.client.link import Session
from onceq.client.plans import receive
from onceq.client.plans.unit_of_work import Unit
from onceq.model import requests
from tests.unit.client.script import Q, Script


def test_a_range_goes_with_its_transaction(script: Script, session: Session) -> None:
    unit = Unit(session)
    script.will(requests.TakeRead.code, 2)
    asked = requests.TakeRead(Q, 0, 1, 2, 7, "r")
    assert script.run(receive.take(unit, asked)) == 2
    assert script.kinds() == ["Begin", "TakeRead"]
    assert script.request(1, requests.TakeRead).transaction == unit.number > 0


def test_or_at_once(script: Script) -> None:
    script.will(requests.TakeRead.code, 2)
    assert script.run(receive.take(None, requests.TakeRead(Q, 0, 1, 2))) == 2
    assert script.request(0, requests.TakeRead).transaction == 0
