"""The way between two queue managers, in hand: what happens to each packet, and what was seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onceq.testing.links import Passing, Relay, faithful

if TYPE_CHECKING:
    from tests.conformance.world import World


@dataclass
class Link:
    """Both directions between two managers.

    Attributes:
        policy: Says for each user packet, by its direction and kind (data, order and final
            acknowledgments), which copies go on and when.
        up: Whether anything can be connected.
        muted: Names of managers that get no session acknowledgments.
        connections: How many were made.
    """

    policy: Callable[[Passing], list[tuple[int, Passing]]] = faithful
    up: bool = True
    seen: list[Passing] = field(default_factory=list)
    relays: list[Relay] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    muted: set[str] = field(default_factory=set)
    connections: int = 0

    def decide(self, passing: Passing) -> list[tuple[int, Passing]]:
        self.seen.append(passing)
        return self.policy(passing)

    def data(self) -> list[Passing]:
        return [p for p in self.seen if p.kind == 0 and p.transactional]

    def order_acks(self) -> list[Passing]:
        return [p for p in self.seen if p.kind == 1]

    def inject(self, passing: Passing) -> None:
        """Let a packet that was kept from before go on now."""
        (wire, *_) = self.wires
        wire.relay.inject(passing, wire.world.now_us)
        wire.move()


class Wire:
    """One connection with a relay in its middle; how bytes get to its ends is for subclasses."""

    def __init__(
        self, world: World, names: tuple[str, str], guids: tuple[bytes, bytes], link: Link
    ) -> None:
        self.world, self.names, self.link = world, names, link
        self.cut = False
        self.relay = Relay(
            initiator_id=guids[0],
            acceptor_id=guids[1],
            settings=world.settings,
            policy=link.decide,
            now_us=world.now_us,
        )
        self.relay.muted = {side for side in (0, 1) if names[side] in link.muted}
        link.relays.append(self.relay)
        link.wires.append(self)
        link.connections += 1

    def sent(self, side: int, data: bytes) -> None:
        """One end has written this."""

        def arrive() -> None:
            if not self.cut:
                self.relay.receive(side, data, self.world.now_us)
                self.move()

        self.world.after(self.world.turn.latency_us, arrive)

    def move(self) -> None:
        """Hand on what the relay has, and see to its timers."""
        if self.cut:
            return
        self.relay.tick(self.world.now_us)
        for side in (0, 1):
            data = self.relay.take_output(side)
            if data:
                self.world.after(self.world.turn.latency_us, self._deliverer(side, data))
        if self.relay.closed:
            self.break_(self.relay.closed)
            return
        due = self.relay.next_timer()
        if due is not None:
            self.world.at(max(due, self.world.now_us + 1), self.move)

    def _deliverer(self, side: int, data: bytes) -> Callable[[], None]:
        def deliver() -> None:
            if not self.cut:
                self.deliver(side, data)

        return deliver

    def break_(self, reason: str) -> None:
        """Both ends lose the connection."""
        if self.cut:
            return
        self.cut = True
        self.link.relays.remove(self.relay)
        self.link.wires.remove(self)
        if self in self.world.wires:
            self.world.wires.remove(self)
        for side in (0, 1):
            self.lost(side, reason)

    def deliver(self, side: int, data: bytes) -> None:
        """Bytes have come to an end."""
        raise NotImplementedError

    def lost(self, side: int, reason: str) -> None:
        """An end is to hear that the connection is gone."""
        raise NotImplementedError
