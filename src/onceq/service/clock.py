"""The one reader of clocks."""

from __future__ import annotations

import time
from typing import Protocol

from onceq.model.time import Now


class Clock(Protocol):
    """Reads both clocks at once."""

    def read(self) -> Now:
        """Wall and monotonic time."""


class SystemClock:
    """The clocks of the machine."""

    def read(self) -> Now:
        """See Clock."""
        return Now(time.time_ns() // 1_000, time.monotonic_ns() // 1_000)
