"""What the policy of a queue does where it cannot do what it says."""

from __future__ import annotations

import pytest

from onceq.core.receive import subqueues
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from tests.unit.core.alone import Core

Q = r"private$\q"


def test_a_message_stays_where_there_can_be_no_subqueue_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Core()
    rule = QueueProperties("q", transactional=True, poison_attempts=1, poison_then="move:poison")
    core.ask(requests.CreateQueue(properties=rule, instance=b"Q" * 16))
    monkeypatch.setattr(subqueues, "SUBQUEUES_MAX", 0)
    item = requests.SendItem(r"DIRECT=OS:.\private$\q", Properties(), Run.of((b"a",)))
    core.ask(requests.Commit(0, (item,)))
    core.ask(requests.Begin(1))
    core.ask(requests.Receive(Q, 1))
    assert core.ask(requests.Abort(1)) is None
    assert core.present() == {"q": 1}
    core.again()
    monkeypatch.undo()
    core.manager = core.again()
    assert core.present() == {"q;poison": 1}, "this start finds room"
