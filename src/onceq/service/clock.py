"""The one reader of clocks.

It also keeps when housekeeping is due: one time and one length of the log for all its parts, which
a pump compares with now.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Protocol

from onceq.model.marks import Now

# ---- clock ---------------------------------------------------------------------------------------


ticks_ns: Final = time.perf_counter_ns
"""Nanoseconds of a machine counter: it measures durations, and no decision depends on it. In a
simulated network it is the counter of the simulating computer."""


class Clock(Protocol):
    """Reads both clocks at once."""

    def read(self) -> Now:
        """Return wall and monotonic time."""


class SystemClock:
    """The clocks of the machine."""

    def read(self) -> Now:
        """Return wall and monotonic time."""
        return Now(time.time_ns() // 1_000, time.monotonic_ns() // 1_000)


# ---- due -----------------------------------------------------------------------------------------
#
# When housekeeping is due: one time, and one length of the log, for all its parts.


NEVER: Final = 1 << 62
"""A time or a position that does not come."""


@dataclass(slots=True)
class Due:
    """When one part is due, or all of them together. Times are monotonic microseconds.

    Attributes:
        look_us: Any pump from then on checks it.
        timer_us: A pump is to be made then if none comes by itself; not before ``look_us``.
        position: A pump that finds the log this long checks it.
    """

    look_us: int = NEVER
    timer_us: int = NEVER
    position: int = NEVER

    def by(self, time_us: int) -> None:
        """Make it due at a time, with a pump for that."""
        self.look_us = min(self.look_us, time_us)
        self.timer_us = min(self.timer_us, time_us)


def at(time_us: int | None) -> Due:
    """Return a check due at a time, with a pump for it; None: not at all."""
    return Due() if time_us is None else Due(time_us, time_us)


def soonest(*wanted: Due) -> Due:
    """Return the earliest of several due checks."""
    found = Due()
    for one in wanted:
        found.look_us = min(found.look_us, one.look_us)
        found.timer_us = min(found.timer_us, one.timer_us)
        found.position = min(found.position, one.position)
    return found
