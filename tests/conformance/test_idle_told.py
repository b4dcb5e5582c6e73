"""A session that is closed because nothing happened on it is no trouble (finding U5)."""

from __future__ import annotations

from onceq.client.why import why
from onceq.model import requests
from tests.conformance.world import World

Q = r"DIRECT=OS:B\private$\q"
IDLE_S = 1_000
"""Longer than a session lives on which nothing happens."""


def test_a_queue_that_was_paused_long_is_not_called_unreachable_when_it_is_resumed() -> None:
    world = World("A", "B")
    world["B"].create("q")
    a = world["A"]
    a.once(Q, b"1")
    world.run(10)
    a.ask(requests.SteerOutgoing(Q, requests.Steer.PAUSE))
    a.once(Q, b"2")
    world.run(IDLE_S)
    view = a.ask(requests.Look("outgoing-queue", Q))
    assert (view.state, view.trouble, view.attempts) == ("ONHOLD", "", 0)
    assert "paused by an operator" in why(view)
    assert view.history[-1].reason, "that it was closed stands in its history"
    a.ask(requests.SteerOutgoing(Q, requests.Steer.RESUME))
    assert "unreachable" not in why(a.ask(requests.Look("outgoing-queue", Q)))
    world.run(60)
    assert world["B"].bodies(r"private$\q") == [b"1", b"2"]
