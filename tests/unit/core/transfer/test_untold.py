"""What it costs to tell of which messages the end will be told."""

from __future__ import annotations

from functools import partial

from onceq.core.state.queues import Peer, Progress
from onceq.core.transfer.untold import tell
from onceq.packet.settle import EndsAsked
from tests.unit.core.alone import Core
from tests.unit.core.effort import lines

PEER = b"P" * 16


def test_a_question_about_many_streams_walks_the_tables_once() -> None:
    cost = []
    for streams in (1, 30):
        core = Core()
        step = core.manager._step
        for at in range(1000):
            source = at.to_bytes(16, "big")
            step.state.progress[source, "q"] = Progress(source, "q", stream=7, last=10)
        asked = EndsAsked(tuple((stream, 1, 10) for stream in range(1, streams + 1)))
        cost.append(lines(partial(tell, step, Peer(1, PEER, "10.0.0.9"), asked)))
    assert cost[1] < 3 * cost[0]
