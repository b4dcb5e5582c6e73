"""Delayed messages in simulated worlds: which messages are delayed, and whether none came early.

In some worlds a part of what is sent, in transactions and outside, to queues here and elsewhere, is
not to be received before a time. Crashes, power cuts, clocks that are set, purges and deletions
happen as everywhere. The judge follows these messages as all others: what is never received has to
have a reason (``judge/endings.py``), so a message that is never let go is lost. Here stands what
is asked of them besides.

Watches: I15 (nothing is handed out before its time), I22, I26.
"""

from __future__ import annotations

import os
from typing import Final

from onceq.packet.decode import decode
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Message, Place

EVERYWHERE: Final = "ONCEQ_SIM_DELAYS"
"""Environment variable, for the processes of a batch: every world has delayed messages."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.0
"""Of all worlds that are not of copies; 1 with ``make sim ARGS=--delays``."""
FROM: Final = 0.0
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any is among them."""
DELAYED: Final = 0.4
"""Of sends in such a world."""
DELAYS_S: Final = (1, 1, 5, 60, 600, 3_600)


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have delayed messages."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Delaying:
    """See the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node], *, fit: bool) -> None:
        """Draw whether a world has delayed messages.

        Args:
            fit: Whether it may: no manager is put back or copied.
        """
        self.kernel, self.nodes = kernel, nodes
        self.active = fit and (kernel.fresh("delays").random() - FROM) % 1 < SHARE
        self.rng = kernel.fresh("delayed")

    def draw(self) -> int:
        """For how long the next send is delayed, in seconds; 0: not at all."""
        if not self.active or self.rng.random() >= DELAYED:
            return 0
        return self.rng.choice(DELAYS_S)

    def handed(self, place: Place, packet: memoryview, message: Message) -> None:
        """A message was handed out, or shown."""
        delay = message.properties.delay
        if not delay:
            return
        found = decode(packet)
        due_s = found.deliver_at
        # Where it is now may be a subqueue, of which no copy is kept.
        worked = any(copy.worked for copy in message.copies.values())
        if not due_s and worked:
            return  # Its time had come, and a job has sent it on since, without one.
        # What a job sends on before its time keeps that, and was sent later: less is left of it.
        least = 0 if worked else delay
        # By a clock that was set back meanwhile it was sent earlier, and more is left.
        by_another_clock = worked and bool(self.kernel.options.clock_every_us)
        # Parts of a second are rounded up.
        if not by_another_clock and not least <= due_s - found.sent_time <= delay + 1:
            self.kernel.wrong(
                f"I15: message {message.uid} was delayed by {delay} s, and says "
                f"{due_s - found.sent_time} s"
            )
        self.kernel.marks[marks.DELAYED] += 1
        self.kernel.marks[marks.DELAYED_AFAR] += place.node != message.node
        # A clock that was set back shows a time at which it was not yet due.
        if self.kernel.options.clock_every_us:
            return
        now_us = self.nodes[place.node].clock.wall_us()
        if now_us < due_s * 1_000_000:
            self.kernel.wrong(
                f"I15: {place} hands out message {message.uid} at {now_us / 1e6:.6f}, "
                f"{due_s - now_us / 1e6:.6f} s before its time"
            )
