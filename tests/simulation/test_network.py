"""The network between simulated managers: what comes over a connection is a prefix of what left.

A TCP connection may break at any byte, but nothing behind that byte ever comes. Programs at its
ends are crashed in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from proof.sim.base.kernel import Kernel
from proof.sim.base.network import SimNetwork
from proof.sim.base.options import SECOND, draw

SEEDS = range(200)


class Program:
    """At one end; see ``Node``."""

    ip, paused_us, life = "10.0.0.1", 0, 1
    door = None

    def __init__(self, network: list[SimNetwork], name: str) -> None:
        self.network, self.name, self.index = network, name, int(name)
        self.ends: list[Any] = []
        self.got = b""
        self.sent = b""
        self.engine: Any = SimpleNamespace(sessions=self)

    def run(self, work: Any) -> None:
        if self.engine is not None:
            work(self.engine)

    def step(self, what: str) -> None:
        """No crash."""

    def connected(self, outgoing: int, end: Any, ip: str, shown: Any = None) -> int:
        self.ends.append(end)
        return 1

    def accepted(self, end: Any, ip: str, shown: Any = None) -> int:
        return self.connected(0, end, ip)

    def data(self, session: int, data: bytes) -> None:
        self.got += data

    def gone(self, session: int, reason: str) -> None:
        self.ends.clear()

    def writable(self, session: int) -> None:
        """It writes whenever it likes."""

    def write(self, data: bytes) -> None:
        if self.engine is not None and self.ends:
            self.sent += data
            self.ends[0].write([data])

    def crash(self) -> None:
        self.engine = None
        self.network[0].gone(self)  # type: ignore[arg-type]


@dataclass
class Tried:
    """Two programs that write to each other, one of which may crash."""

    seed: int
    network: list[SimNetwork] = field(default_factory=list)

    def run(self) -> tuple[Program, Program]:
        rng = Random(self.seed)
        options = replace(draw(rng), loss=1.0, jitter=rng.choice([0.0, 2.0]))
        kernel = Kernel(self.seed, options)
        kernel.faulty = True
        one, other = Program(self.network, "0"), Program(self.network, "1")
        self.network.append(SimNetwork(kernel, [one, other], SimpleNamespace()))  # type: ignore[list-item, arg-type]
        self.network[0]._connect(one, 1, other)  # type: ignore[arg-type]
        for number in range(40):
            writer = rng.choice([one, other])
            data = bytes([number]) * rng.randrange(1, 50)
            kernel.at(rng.randrange(SECOND), writer.write, data)
        kernel.at(rng.randrange(SECOND), one.crash)
        kernel.run_until(600 * SECOND, lambda: False)
        return one, other


@pytest.mark.parametrize("seed", SEEDS)
def test_what_comes_is_the_beginning_of_what_was_sent(seed: int) -> None:
    one, other = Tried(seed).run()
    assert one.sent.startswith(other.got)
    assert other.sent.startswith(one.got)


def test_something_comes_and_something_is_lost() -> None:
    worlds = [Tried(seed).run() for seed in SEEDS]
    assert any(other.got == one.sent != b"" for one, other in worlds)
    assert any(other.got != one.sent for one, other in worlds)
