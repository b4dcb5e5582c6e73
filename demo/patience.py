"""How long the demo waits: as long as something moves, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from demo.proofs import Off

STILL_S_MAX: Final = 120.0
"""Without any progress for so long something hangs."""
WHOLE_S_MAX: Final = 3_600.0
"""Of one stage, whatever moves."""


class Patience:
    """Waits for one thing, and says when that has taken too long."""

    def __init__(
        self, what: str, still_s: float = STILL_S_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._still_s = still_s
        self._clock = clock
        self._begun = self._moved = clock()
        self._state: object = None

    def look(self, state: object) -> None:
        """Note how far it is.

        Args:
            state: Anything that differs when there was progress.

        Raises:
            Off: Nothing has moved for long, or it never ends.
        """
        now = self._clock()
        if state != self._state:
            self._state, self._moved = state, now
        if now - self._moved > self._still_s:
            raise Off(f"{self._what}: nothing has moved for {self._still_s:.0f} s; at {state}")
        if now - self._begun > WHOLE_S_MAX:
            raise Off(f"{self._what}: not over after {WHOLE_S_MAX:.0f} s; at {state}")
