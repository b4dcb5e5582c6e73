"""The one reader of clocks."""

from __future__ import annotations

import time
from typing import Final, Protocol

from onceq.model.time import Now

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
