"""When housekeeping is to be looked at: one moment, and one length of the log, for all its parts.

A pump compares these with now and asks nobody; so what is rarely due costs a message nothing.

Invariant: nothing is due earlier than what is said here. All parts are asked after they were looked
at (``soonest``), and a part whose wish becomes an earlier one between two looks says so in that
moment (``by``). Earlier than needed does no harm: each part knows by itself what it has to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 1 << 62
"""A time or a position that does not come."""


@dataclass(slots=True)
class Due:
    """What one part wants, or all of them together. Times are monotonic microseconds.

    Attributes:
        look_us: A pump from then on looks at it, whatever the pump is made for.
        timer_us: A pump is to be made then if none comes by itself; not before ``look_us``.
        position: A pump that finds the log so long looks at it.
    """

    look_us: int = NEVER
    timer_us: int = NEVER
    position: int = NEVER

    def by(self, time_us: int) -> None:
        """A part wants to be looked at then, and a pump for that."""
        self.look_us = min(self.look_us, time_us)
        self.timer_us = min(self.timer_us, time_us)


def at(time_us: int | None) -> Due:
    """To be looked at then, with a pump for that; None: not at all."""
    return Due() if time_us is None else Due(time_us, time_us)


def soonest(*wanted: Due) -> Due:
    """What several parts want together."""
    found = Due()
    for one in wanted:
        found.look_us = min(found.look_us, one.look_us)
        found.timer_us = min(found.timer_us, one.timer_us)
        found.position = min(found.position, one.position)
    return found
