"""How long to go on with a queue manager that does not answer, and what is said of it meanwhile.

A queue manager that is started again is away for a moment, and with many messages for half a
minute; a computer that is started again for some minutes. A query that ends because of that has to
be started by somebody, so it waits: at first for a tenth of a second, then for longer and longer,
until ``retry_s`` are over. The log says once that it waits, and once that this is over.

``BackOff`` decides and knows no clock; ``Spell`` carries it out.

Upholds: I24 (a bounded time, and a bounded number of attempts in it).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from onceq.client.pause import pause

FIRST_WAIT_S: Final = 0.1
"""Before the second attempt; the wait before each later one is twice as long..."""
LONGEST_WAIT_S: Final = 5.0
"""... up to this: so much later than need be it is noticed that a queue manager is back."""
SHORTEST_WAIT_S: Final = 0.01
"""Whatever is asked for: a minute of attempts without any would be some million."""
RETRY_S: Final = 60.0
"""How long it is tried by default: longer than a queue manager with some million messages takes to
start, shorter than anybody waits for an error."""

log = logging.getLogger("onceq.spark")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try with a queue manager that does not answer.

    Attributes:
        timeout_s: For a connection, and for each answer.
        retry_s: For all attempts together, from the first failure on.
        retries: Attempts after the first, at most; None: as many as there is time for.
        interval_s: Wait before each of them; None: it grows.
    """

    timeout_s: float = 10.0
    retry_s: float = RETRY_S
    retries: int | None = None
    interval_s: float | None = None


class BackOff:
    """When the next attempt is made. Knows no clock: whoever asks says how long it has been.

    Attributes:
        failed: Attempts so far.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.failed = 0

    def next_s(self, elapsed_s: float) -> float | None:
        """An attempt has failed: seconds until the next one; None: give up.

        The last one is made when the time is over, so that nobody gives up before.

        Args:
            elapsed_s: Seconds since the first attempt has failed.
        """
        self.failed += 1
        patience = self._patience
        left = patience.retry_s - elapsed_s
        if patience.retries is not None and self.failed > patience.retries:
            return None
        if patience.retries is None and left <= 0:
            return None
        wait = patience.interval_s
        if wait is None:
            wait = min(FIRST_WAIT_S * 2.0 ** min(self.failed - 1, 16), LONGEST_WAIT_S)
        # A number of attempts that is asked for is made, however long that takes.
        return wait if patience.retries is not None else min(max(wait, SHORTEST_WAIT_S), left)


class Spell:
    """One time that somebody is away: begins with the first failure, ends with ``over``."""

    def __init__(
        self, patience: Patience, who: str, *, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            who: Does not answer, in words, for the log.
        """
        self._back_off = BackOff(patience)
        self._patience = patience
        self._who = who
        self._clock = clock
        self._sleep = sleep or pause
        self._since = clock()

    @property
    def attempts(self) -> int:
        """How many have failed."""
        return self._back_off.failed

    @property
    def seconds(self) -> float:
        """Since the first of them."""
        return self._clock() - self._since

    def again(self, error: Exception) -> bool:
        """An attempt has failed: wait, and then make another one; False: give up."""
        wait = self._back_off.next_s(self.seconds)
        if wait is None:
            return False
        if self.attempts == 1:
            log.warning("%s does not answer (%s); trying again %s", self._who, error,
                        self._how_long())  # fmt: skip
        self._sleep(wait)
        return True

    def over(self) -> None:
        """It answers again."""
        if self.attempts:
            log.warning("%s answers again, after %.1f s", self._who, self.seconds)

    def said(self) -> str:
        """What was done about it, for the error that ends it; "" if that is not worth saying."""
        if self.attempts <= 1:
            return ""
        return f", tried {self.attempts} times in {self.seconds:.0f} s"

    def _how_long(self) -> str:
        if self._patience.retries is not None:
            return f"{self._patience.retries} times (numRetries)"
        return f"for {self._patience.retry_s:g} s (retryTimeout)"
