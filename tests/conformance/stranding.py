"""Streams of a manager that its receiver has left."""

from __future__ import annotations

import struct
from dataclasses import replace

from onceq.packet.arrived import ORDER_ACK, SETTLING
from proof.sim.base.packets import names_end
from tests.conformance.policies import up_to
from tests.conformance.world import Node, World

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"
PLAIN = "DIRECT=OS:B\\private$\\p"


def newer(world: World, node: Node) -> None:
    """A message in a newer stream of a manager comes to B, as another life of it would send it."""
    link = world.link(node.identity.name, "B")
    kept = link.data()[0]
    packet = bytearray(kept.packet)
    at, _ = names_end(packet, 0)
    struct.pack_into("<QII", packet, at + 4, kept.stream + (1 << 32), 1, 0)
    start = packet.index(b"1", at + 20 + 56)
    packet[start : start + 1] = b"N"
    link.inject(replace(kept, packet=bytes(packet)))
    world.run(0.5)


def stranded(world: World, *bodies: bytes) -> None:
    """A has messages in a stream of which B has taken the first, and which B has left."""
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind in (ORDER_ACK, SETTLING) else up_to(1)(p)
    world["A"].once(Q, *bodies)
    world.run(0.5)
    newer(world, world["A"])


def forget_all(node: Node) -> None:
    """A receiver has left more streams than it remembers."""
    assert node.engine is not None
    state = node.engine.manager.state
    state.memories.lost()
    state.memories.forgotten.update(dict.fromkeys(state.progress, 1 << 63))
