"""What goes wrong in a world, and when: everything drawn from the seed.

Crashes at any door or between two steps, of one manager or all; partitions one way or both; pauses;
clocks that jump; disks that fill up or fail; packets that come again after hours or days.
"""

from __future__ import annotations

from onceq.packet.acks import parse_order_ack
from onceq.packet.arrived import ORDER_ACK
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.network import SimNetwork
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR, MINUTE, SECOND
from proof.sim.base.packet_faults import OldPackets, runs_of


class Faults:
    """Plans the next fault of each kind after each one."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], network: SimNetwork, old_packets: OldPackets,
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.network, self.old_packets = (
            kernel,
            nodes,
            network,
            old_packets,
        )
        self.rng = kernel.stream("faults")
        options = kernel.options
        for every, fault in (
            (options.crash_every_us, self.crash),
            (options.partition_every_us, self.partition),
            (options.pause_every_us, self.pause),
            (options.clock_every_us, self.clock),
            (options.space_every_us, self.space),
            (options.ghosts_every_us, self.ghost),
        ):
            if every:
                kernel.at_times(self.rng, every, fault)

    def _node(self) -> Node:
        return self.rng.choice(self.nodes)

    def crash(self) -> None:
        """One process ends, or all at once; or the disk of one fails."""
        rng = self.rng
        node = self._node()
        if rng.random() < self.kernel.options.sync_failure:
            node.sync_fails_in = rng.randint(1, 10)
            return
        victims = self.nodes if rng.random() < 0.1 else [node]
        for victim in victims:
            if victim.engine is None:
                continue
            kind = rng.random()
            if kind < 0.3:
                victim.down(power=rng.random() < self.kernel.options.power)
            elif kind < 0.6:
                victim.crash_within(rng.choice([1, 3, 10, 40, 200]))
            else:
                victim.crash_at(rng.choice(["create", "rename", "sync-directory", "unlink"]))
            if self.kernel.options.clock_every_us and rng.random() < 0.3:
                victim.clock.jump(-rng.choice([MINUTE, HOUR]))

    def partition(self) -> None:
        """Nothing goes between two managers for a while, one way or both."""
        rng, kernel, network = self.rng, self.kernel, self.network
        a, b = rng.sample(self.nodes, 2)
        until = kernel.now + rng.choice([10 * SECOND, 10 * MINUTE, HOUR])
        both = rng.random() < 0.6
        kernel.note("partition", a.name, b.name, both, until)
        network.block(a, b, until)
        if both:
            network.block(b, a, until)

    def pause(self) -> None:
        """A process stands still."""
        node = self._node()
        us = self.rng.choice([SECOND, MINUTE, HOUR])
        self.kernel.note("pause", node.name, us)
        node.pause(us)

    def clock(self) -> None:
        """Somebody sets a wall clock."""
        node = self._node()
        by = self.rng.choice([SECOND, MINUTE, HOUR]) * self.rng.choice([-1, 1])
        self.kernel.note("clock", node.name, by)
        node.clock.jump(by)

    def space(self) -> None:
        """A disk becomes full, or nearly."""
        node = self._node()
        until = self.kernel.now + self.rng.choice([MINUTE, 10 * MINUTE, HOUR])
        free = self.rng.choice([0, 20 << 10, 60 << 10])
        self.kernel.note("disk full", node.name, free, until)
        node.fill_disk(free, until)

    def ghost(self) -> None:
        """An old packet comes once more."""
        kernel = self.kernel
        found = self.old_packets.pick(self.rng.randrange(1 << 20))
        if found is None:
            return
        node, source, packet = found
        if node.engine is None:
            return
        (run,) = runs_of([packet])
        if run.kind == ORDER_ACK:
            ack = parse_order_ack(packet)
            outgoing = node.engine.manager.state.streams.get(ack.stream)
            if outgoing is None or outgoing.head.stream != ack.stream:
                kernel.marks[marks.LEFT_STREAM] += 1
        kernel.note("ghost", node.name, run.kind, run.stream & 0xFFFF, run.first_number)
        node.run(lambda engine: engine.put_in(source, [packet]))  # type: ignore[attr-defined]
