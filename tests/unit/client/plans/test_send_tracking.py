"""The queue for what becomes of tracked messages: made once, whoever comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from onceq.client.plans.send import tracking_queue
from onceq.errors import QueueExists, QueueNotFound, ReceiveTimeout
from onceq.model import requests
from onceq.model.views.queues import QueueView


@pytest.mark.parametrize("made", [None, QueueExists("another thread has made it")])
def test_it_is_made_once_however_many_begin_at_the_same_time(made: Exception | None) -> None:
    session: Any = SimpleNamespace(tracking="", now_s=lambda: 0)
    plan = tracking_queue(session)
    assert isinstance(next(plan).asked, requests.Look)
    asked = plan.throw(QueueNotFound("not yet")).asked
    assert isinstance(asked, requests.CreateQueue)
    looked = plan.send(None) if made is None else plan.throw(made)
    assert isinstance(looked.asked, requests.Look)
    plan.send(QueueView(format_name="PRIVATE=x"))
    with pytest.raises(StopIteration) as over:
        plan.throw(ReceiveTimeout("nothing in it"))
    assert over.value.value == session.tracking == "PRIVATE=x"
