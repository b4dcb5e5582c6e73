"""Both clocks of each computer of a world: the wall clocks may differ, and somebody may set them.

The true time of a world is one (``World.now_us``); what a queue manager sees of it is what its own
clock shows. The monotonic clock of a process begins anew with each start, as it does on a computer.
"""

from __future__ import annotations

from typing import Final, Protocol

from onceq.model.marks import SECOND_US, Now

START_S: Final = 1_700_000_000
"""What a wall clock that is right shows when a world begins."""


class TrueTime(Protocol):
    """Whoever knows the true time."""

    now_us: int
    """Microseconds since the world began."""


class HostClock:
    """See the module."""

    def __init__(self, world: TrueTime) -> None:
        self._world = world
        self._ahead_us = self._before_us = 0

    def read(self) -> Now:
        """What both clocks show."""
        now_us = self._world.now_us
        wall_us = START_S * SECOND_US + now_us + self._ahead_us
        return Now(wall_us, now_us - self._before_us)

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock by so much; nobody tells the queue manager."""
        self._ahead_us += int(seconds * SECOND_US)

    def boot(self) -> None:
        """The monotonic clock begins anew."""
        self._before_us = self._world.now_us - SECOND_US

    def true_us(self, mono_us: int) -> int:
        """The time of the world at which the monotonic clock shows that."""
        return mono_us + self._before_us
