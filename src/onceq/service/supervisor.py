"""What the service manager of the system (systemd) is told: ready, alive, stopping.

Alive is said by the loop itself, and only if it has worked off what there was: a thread that said
it would say it of a loop that hangs. Whoever hears nothing for the time that the unit names as
``WatchdogSec`` ends the process and starts another one, which goes on from what is durable.
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
"""So often it is said within the time that the supervisor waits."""


def notify(state: str) -> None:
    """Tell the supervisor, if there is one that wants to know."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        name = "\0" + address[1:] if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            # A supervisor that hangs must not stop the loop: what it does not take is not said.
            to.setblocking(False)
            to.sendto(state.encode(), name)


def watchdog_s() -> float:
    """How often (seconds) it must be said that this process is alive; 0: nobody waits for that."""
    wait = os.environ.get("WATCHDOG_USEC", "")
    # It may be meant for the process that has started this one.
    meant = os.environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return (read_number(wait) or 0) / 1e6 / TURNS_A_WAIT if meant else 0.0


class Watchdog:
    """Says that a loop is alive, as long as it is."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turns: Callable[[], int], idle: Callable[[], bool]
    ) -> None:
        """Watch nothing yet.

        Args:
            turns: How often the loop has worked off what there was.
            idle: Whether there is nothing to work off now.
        """
        self._loop = loop
        self._turns = turns
        self._idle = idle
        self._seen = -1
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on, if somebody waits for it."""
        self._every_s = watchdog_s()
        if self._every_s:
            self._look()

    def stop(self) -> None:
        """Say nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        turns = self._turns()
        if turns != self._seen or self._idle():
            self._seen = turns
            notify(ALIVE)
        self._timer = self._loop.call_later(self._every_s, self._look)
