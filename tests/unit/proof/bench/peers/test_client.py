"""The clients of ``make bench-peers`` do what they say, and notice what a system does wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceq.cli.bench import Bodies, WrongMessages
from proof.bench.client import SENDER_SHIFT
from proof.bench.peers import client
from proof.bench.peers.contract import BODY, Link

Spoil = Callable[[list[bytes]], list[bytes]]


class Memory(Link):
    """A queue that is gone with its process. It gives at most three messages at once."""

    def __init__(self) -> None:
        self.queue: list[bytes] = []
        self.sent: list[int] = []
        self.spoil: Spoil = list

    def send(self, bodies: list[bytes]) -> None:
        self.sent.append(len(bodies))
        self.queue += self.spoil(bodies)

    def receive(self, count: int) -> list[bytes]:
        got = self.queue[: min(count, 3)]
        del self.queue[: len(got)]
        return got

    def close(self) -> None:
        self.sent.append(0)


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """What every client of the test is connected to."""
    made = Memory()
    monkeypatch.setattr(client, "_link", lambda options: made)
    monkeypatch.setattr(client, "go", lambda: None)
    return made


def options(**more: Any) -> dict[str, Any]:
    return {
        "sender": 5, "sizes": [1, 4], "seconds": 0.0, "messages": 1, "warm": 0.0, "per": 4,
        "threads": 1, **more,
    }  # fmt: skip


def test_everything_that_was_sent_is_received(link: Memory) -> None:
    found = client.alone(options())
    assert link.sent == [1, 4, 1, 0]
    assert link.queue == []
    rates = {f"{way} {per}" for way in ("send", "receive") for per in (1, 4)}
    times = {"commit p50", "commit p99", "whole p50", "whole p99", "singles"}
    assert set(found) == rates | times


def test_the_last_transaction_ends_the_receiver(link: Memory) -> None:
    sent = client.source(options())
    assert link.sent == [4, 4, 4, 0]  # before the time, in it, the last one
    assert sent["messages"] == 8
    assert set(client.sink(options())) == {"ended"}
    assert link.queue == []


def test_several_senders_are_drained_together(link: Memory) -> None:
    client.several(options())
    first = [0, *link.sent]
    client.several(options(sender=9))
    assert len(link.queue) == 4 == sum(first) * 2
    assert client.drain(options(messages=4)) == {"senders": 2}


SPOILED: dict[str, Spoil] = {
    "lost": lambda bodies: bodies[1:],
    "repeated": lambda bodies: [bodies[0], *bodies],
    "reordered": lambda bodies: bodies[::-1],
    "cut": lambda bodies: [bodies[0][:-1], *bodies[1:]],
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_what_a_system_does_wrong_is_noticed(link: Memory, spoil: Spoil) -> None:
    link.spoil = spoil
    with pytest.raises(WrongMessages):
        client.alone(options(sizes=[4]))


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_so_it_is_while_another_sends(link: Memory, spoil: Spoil) -> None:
    link.send(Bodies(BODY, first=5 << SENDER_SHIFT).make(4))
    link.spoil = spoil
    bodies = Bodies(BODY, first=(5 << SENDER_SHIFT) + 4)
    link.send(bodies.make(4))
    link.send(Bodies(BODY, first=client.ENDING | bodies.made).make(4))
    with pytest.raises(WrongMessages):
        client.sink(options())


@pytest.mark.parametrize("name", ["lost", "repeated", "reordered"])
def test_and_with_several_senders(link: Memory, name: str) -> None:
    link.send(Bodies(BODY).make(3))
    link.queue = SPOILED[name](link.queue)
    with pytest.raises(WrongMessages):
        client.drain(options(messages=len(link.queue)))
