"""Time as it is handed to the core: two clocks that are never mixed.

``wall_us`` is what people and packets mean (it may jump); ``mono_us`` is what timers mean (it
never goes back while the process runs, and starts anywhere).
"""

from __future__ import annotations

SECOND_US = 1_000_000
DAY_S = 86_400
NEVER_S = 0xFFFF_FFFF
"""A lifetime or a deadline in wire seconds that never ends."""
FOR_EVER_US = 1 << 62
"""A monotonic time that never comes."""


class Now:
    """One reading of both clocks, in integer microseconds. Nobody changes it.

    Attributes:
        wall_s: Whole seconds since 1970-01-01 UTC, as packets carry them. It is kept, because the
            rules ask for it several times for each message.
    """

    __slots__ = ("mono_us", "wall_s", "wall_us")

    def __init__(self, wall_us: int, mono_us: int) -> None:
        self.wall_us = wall_us
        self.mono_us = mono_us
        self.wall_s = wall_us // SECOND_US

    def __repr__(self) -> str:
        return f"Now({self.wall_us}, {self.mono_us})"
