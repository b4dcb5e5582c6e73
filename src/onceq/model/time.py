"""Time as it is handed to the core: two clocks that are never mixed.

``wall_us`` is what people and packets mean (it may jump); ``mono_us`` is what timers mean (it
never goes back while the process runs, and starts anywhere).
"""

from __future__ import annotations

from typing import NamedTuple

SECOND_US = 1_000_000
NEVER_S = 0xFFFF_FFFF
"""A lifetime or a deadline in wire seconds that never ends."""


class Now(NamedTuple):
    """One reading of both clocks, in integer microseconds."""

    wall_us: int
    mono_us: int

    @property
    def wall_s(self) -> int:
        """Whole seconds since 1970-01-01 UTC, as packets carry them."""
        return self.wall_us // SECOND_US
