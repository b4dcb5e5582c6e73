"""A hold that says every few seconds that its owner is still there.

The computer of a driver can die without a word, and its connection with it. A queue manager notices
that after minutes, and nobody else can receive from the queue until then. So a hold has a lease: a
thread of the driver renews it, whatever Spark is at, and one that nobody has renewed for LEASE_MS
ends as soon as somebody else wants the queue. A driver that was only slow, or stopped, and that
nobody has replaced goes on with it. One that was replaced is told so by its next request: each
removal names the hold under which it is made.

Upholds: I4 at the connector (of two readers one removes).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

LEASE_MS: Final = 10_000
"""How long a hold lasts that nobody renews: far longer than a busy computer makes a thread wait."""
RENEW_S: Final = 2.5
"""How often it is renewed: three times may fail before it ends."""


class Heartbeat:
    """Does something again and again, in a thread of its own, until it is stopped."""

    def __init__(self, work: Callable[[], None], every_s: float) -> None:
        self._work = work
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceq lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more; what is under way may still end."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._work()
