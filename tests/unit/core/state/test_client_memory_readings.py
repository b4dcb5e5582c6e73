"""What is known of readers is kept no longer than their queue is there."""

from __future__ import annotations

from array import array

from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.queue import QueueProperties
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import Core

LAST = (1 << 63) - 1


def test_what_is_known_of_readers_goes_with_their_queue() -> None:
    """Nothing shows what is known of a queue that is gone: it would only stand in checkpoints."""
    core = Core()
    properties = QueueProperties(name="q", transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
    bodies = Run(b"x", array(LENGTH_TYPE, [1]))
    core.ask(requests.Begin(1))
    core.ask(
        requests.Commit(1, (requests.SendItem(r"DIRECT=OS:.\private$\q", PLAIN, bodies=bodies),))
    )
    core.ask(requests.TakeRead(r"private$\q", 0, 1, LAST, reader="r", query="one"))
    assert [reader for _, reader, _ in core.manager.state.readings] == ["r"]
    core.ask(requests.DeleteQueue(r"private$\q"))
    assert not list(core.manager.state.readings)
    assert not list(core.again().state.readings), "nor by what the records say"
