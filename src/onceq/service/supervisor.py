"""Report to the service manager of the system (systemd): ready, alive, stopping.

The loop itself reports that it is alive, and only if it has processed its work: a separate thread
would also report it of a loop that hangs. If no report comes within the time that the unit names as
``WatchdogSec``, the service manager ends the process and starts another one, which goes on from
what is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

from onceq.model.numbers import read_number

READY: Final = "READY=1"
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"
TURNS_A_WAIT: Final = 2
"""Number of reports within the time that the supervisor waits."""


def notify(state: str) -> None:
    """Send a state to the supervisor, if there is one that wants it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        name = "\0" + address[1:] if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            # A supervisor that hangs must not stop the loop: a report that it does not take is
            # dropped.
            to.setblocking(False)
            to.sendto(state.encode(), name)


def watchdog_s() -> float:
    """Return the interval (seconds) in which this process must report; 0 if no one waits for
    that."""
    wait = os.environ.get("WATCHDOG_USEC", "")
    # It may be meant for the process that has started this one.
    meant = os.environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return (read_number(wait) or 0) / 1e6 / TURNS_A_WAIT if meant else 0.0


class Watchdog:
    """Reports that a loop is alive while it turns."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turns: Callable[[], int], idle: Callable[[], bool]
    ) -> None:
        """Watch nothing yet.

        Args:
            turns: Counts how often the loop has processed its work.
            idle: Whether there is no work now.
        """
        self._loop = loop
        self._turns = turns
        self._idle = idle
        self._seen = -1
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to report, if a supervisor waits for it."""
        self._every_s = watchdog_s()
        if self._every_s:
            self._look()

    def stop(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        turns = self._turns()
        if turns != self._seen or self._idle():
            self._seen = turns
            notify(ALIVE)
        self._timer = self._loop.call_later(self._every_s, self._look)
