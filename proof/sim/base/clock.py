"""Clocks that are wrong: off by minutes, drifting, jumping both ways, also across a restart.

The monotonic clock of a manager drifts too, but never goes back while the process runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from onceq.model.marks import SECOND_US, Now

EPOCH_US = 1_790_000_000 * SECOND_US
"""Wall time at which every world begins."""
MILLION = 1_000_000


class Time(Protocol):
    """Knows the true time of a world."""

    now: int
    """Microseconds since the world began."""


@dataclass(slots=True)
class SimClock:
    """Both clocks of one computer.

    Attributes:
        offset_us: What is added to true time; changed by ``jump``.
        drift_ppm: Millionths by which both clocks run fast (or slow).
    """

    time: Time
    offset_us: int = 0
    drift_ppm: int = 0
    booted_us: int = 0
    mono_start_us: int = SECOND_US
    ahead_us: int = 0
    """What the wall clock showed when it was set, at most."""

    def read(self) -> Now:
        """What the clocks show."""
        now, drift = self.time.now, self.drift_ppm
        past = now - self.booted_us
        return Now(
            EPOCH_US + now + now * drift // MILLION + self.offset_us,
            self.mono_start_us + past + past * drift // MILLION,
        )

    def wall_us(self) -> int:
        """Wall time, microseconds since 1970."""
        now = self.time.now
        return EPOCH_US + now + now * self.drift_ppm // MILLION + self.offset_us

    def latest_s(self) -> int:
        """The latest second that the wall clock has shown."""
        return max(self.ahead_us, self.wall_us()) // SECOND_US

    def mono_us(self) -> int:
        """Monotonic time, microseconds."""
        past = self.time.now - self.booted_us
        return self.mono_start_us + past + past * self.drift_ppm // MILLION

    def true_us(self, mono_us: int) -> int:
        """When the monotonic clock will show (at least) that."""
        past = mono_us - self.mono_start_us
        return self.booted_us + past * MILLION // (MILLION + self.drift_ppm) + 2

    def boot(self) -> None:
        """The process starts: its monotonic clock starts again."""
        self.booted_us = self.time.now

    def jump(self, by_us: int) -> None:
        """Somebody sets the wall clock."""
        self.ahead_us = max(self.ahead_us, self.wall_us())
        self.offset_us += by_us
