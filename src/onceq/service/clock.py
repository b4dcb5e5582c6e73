"""The one reader of clocks."""

from __future__ import annotations

import time
from typing import Final, Protocol

from onceq.model.time import Now

ticks_ns: Final = time.perf_counter_ns
"""Nanoseconds of a counter of the machine: for how long something took, and nothing is decided by
it. In a simulated network it is that of the computer that simulates."""


class Clock(Protocol):
    """Reads both clocks at once."""

    def read(self) -> Now:
        """Wall and monotonic time."""


class SystemClock:
    """The clocks of the machine."""

    def read(self) -> Now:
        """See Clock."""
        return Now(time.time_ns() // 1_000, time.monotonic_ns() // 1_000)
