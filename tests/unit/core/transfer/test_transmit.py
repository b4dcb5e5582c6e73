"""What a session is given to carry, of several outgoing queues."""

from __future__ import annotations

from array import array

from onceq.core.decision import Decision, Transmit
from onceq.core.inputs import inputs
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import PLAIN
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import Core

PEER = b"P" * 16


class Sender(Core):
    """A core with two outgoing queues to one manager."""

    def __post_init__(self) -> None:
        self.sent: list[int] = []
        super().__post_init__()

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        for action in decision.actions:
            if isinstance(action, Transmit):
                self.sent += [number for number, _, _ in action.before]

    def send(self, queue: int, count: int) -> None:
        name = f"PRIVATE={guid_text(PEER)}\\{queue:08x}"
        bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
        tx = self.asked + 1
        self.ask(requests.Begin(tx))
        self.ask(requests.Commit(tx, (requests.SendItem(name, PLAIN, bodies=bodies),)))


def test_a_queue_that_is_always_full_holds_up_no_other() -> None:
    core = Sender()
    core.step(inputs.SessionOpened(1, PEER, "10.0.0.9", 0, True, False, b"x" * 16, 100))
    core.send(1, 100)
    core.send(2, 100)
    core.send(3, 100)
    for _ in range(6):
        core.step(inputs.Room(1, 4, 1 << 20))
    one, two, three = sorted(set(core.sent))
    assert core.sent == [one, two, three, one, two, three]
