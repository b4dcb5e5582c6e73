"""The judge's books of holds: who keeps others from receiving from a queue, and how long.

A hold with a lease lasts at least as long as its owner has renewed it, and may go on behind that
until somebody else wants the queue. Of each hold the books keep both: until when it lasts for sure
(counted from when its renewal was asked), and until when it may last (counted from when the renewal
was answered). Times of leases are those of the manager's monotonic clock; what comes before what is
told by the time of the world, because an inbox keeps its order. No hold outlives the process.

Watches: I16 for whole queues: two never hold one, nobody else receives from it meanwhile, a living
holder keeps it, and a dead one does not keep it for longer than its lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from onceq.model.results import Opened
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Key, Place

FOR_EVER: Final = 1 << 62


class Moment(NamedTuple):
    """A moment as the world and a process know it.

    Attributes:
        world_us: Of the world.
        mono_us: By the monotonic clock of the manager.
        life: Number of the process.
    """

    world_us: int
    mono_us: int
    life: int


@dataclass(slots=True, eq=False)
class Hold:
    """One that was granted.

    Attributes:
        sure_us, may_us: Monotonic times until which it lasts at least, and at most.
        lease_us: That was last asked for.
        over_us: When (of the world) it was over at the latest.
    """

    place: Place
    node: Node
    granted: Moment
    handle: int
    turn: int
    sure_us: int = FOR_EVER
    may_us: int = FOR_EVER
    lease_us: int = 0
    over_us: int = FOR_EVER

    @property
    def over(self) -> bool:
        """Whether it is over for sure."""
        return self.over_us < FOR_EVER or self.node.life != self.granted.life


class Holds:
    """See the module."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._of: dict[Key, list[Hold]] = {}

    def moment(self, node: Node) -> Moment:
        """Now."""
        return Moment(self.kernel.now, node.clock.mono_us(), node.life)

    # ---- opening --------------------------------------------------------------------------

    def granted(self, place: Place, node: Node, opened: Opened) -> Hold:
        """An application was told that it holds a queue: then nobody else does."""
        now = self.moment(node)
        for held in self._of.get(place.key, ()):
            if held.over:
                continue
            if now.mono_us <= held.sure_us:
                self.kernel.wrong(f"I16: {place} is held by two at once, {held.turn} and {opened}")
            self.kernel.marks[marks.HOLD_LAPSED] += held.sure_us >= 0
            held.over_us = now.world_us
        kept = [h for h in self._of.get(place.key, ()) if h.granted.life == now.life]
        if any(held.turn >= opened.turn for held in kept):
            self.kernel.wrong(f"I16: {place} counts its holds as {opened.turn}, and back")
        hold = Hold(place, node, now, opened.handle, opened.turn)
        self._of[place.key] = [*kept, hold]
        return hold

    def refused(self, place: Place, asked: Moment) -> None:
        """Somebody was refused because another one holds the queue: then that may be so."""
        for held in self._of.get(place.key, ()):
            if (
                held.granted.life == asked.life
                and held.over_us >= asked.world_us
                and held.may_us >= asked.mono_us
            ):
                self.kernel.marks[marks.HOLD_REFUSED] += 1
                return
        self.kernel.wrong(f"I16: {place} is refused, and nobody holds it (any more)")

    # ---- renewing -------------------------------------------------------------------------

    def renewing(self, hold: Hold, lease_us: int) -> None:
        """Its owner asks for so much more: it may count already."""
        hold.lease_us = lease_us
        hold.sure_us = min(hold.sure_us, hold.node.clock.mono_us() + lease_us)
        hold.may_us = FOR_EVER

    def renewed(self, hold: Hold, asked: Moment) -> None:
        """The holder was told that its renewal counts."""
        self.used(hold, asked)
        hold.sure_us = asked.mono_us + hold.lease_us
        hold.may_us = hold.node.clock.mono_us() + hold.lease_us

    # ---- what is done under it --------------------------------------------------------------

    def used(self, hold: Hold, asked: Moment) -> None:
        """Something asked under a hold was done: then it was not over."""
        if hold.over_us < asked.world_us:
            self.kernel.wrong(f"I16: {hold.place} is held by another one, and {hold.turn} goes on")
        if asked.mono_us > hold.may_us:
            self.kernel.marks[marks.HOLD_SLOW] += 1

    def denied(self, hold: Hold) -> None:
        """Something asked under a hold was refused, because it is over."""
        if not hold.over and hold.node.clock.mono_us() <= hold.sure_us:
            self.kernel.wrong(f"I16: {hold.place} was held by {hold.turn}, who is alive")
        if hold.over:
            self.kernel.marks[marks.HOLD_REPLACED] += 1
        self.ended(hold)

    def received(self, place: Place, node: Node, asked: Moment) -> None:
        """Somebody without a hold has received from a queue."""
        now = self.moment(node)
        for held in self._of.get(place.key, ()):
            if (
                held.granted.world_us <= asked.world_us
                and not held.over
                and now.mono_us <= held.sure_us
            ):
                self.kernel.wrong(f"I16: {place} gives messages to others than its holder")

    # ---- its end --------------------------------------------------------------------------

    def ending(self, hold: Hold) -> None:
        """Its owner gives it back, or its connection is about to be lost."""
        hold.sure_us = -1

    def ended(self, hold: Hold) -> None:
        """It is over now."""
        hold.sure_us = -1
        hold.over_us = min(hold.over_us, self.kernel.now)
