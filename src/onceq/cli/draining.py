"""Whether what was written was taken: a file has it at once, a pipe only when somebody has read it.

A pipe holds up to 64 KiB that its reader may never look at: ``onceq receive QUEUE | head -3`` would
take a thousand messages out of the queue in order to show three.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import stat
import termios
from typing import Final

LOOKS: Final = 200
"""Looks at a pipe, with the processor left to others between them, before the waits begin."""
WAIT_MS: Final = (1, 2, 5, 10, 20, 50)
"""Waits between looks at a pipe whose reader takes its time; the last one is repeated."""
_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Drain:
    """The far end of a descriptor that is written to.

    Attributes:
        takes_all: What is written is taken at once, and not lost when somebody goes away.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        self._pipe = stat.S_ISFIFO(mode)
        self.takes_all = stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(descriptor))
        self._poll = select.poll()
        self._poll.register(descriptor, 0)

    def wait(self) -> None:
        """Wait until everything that was written was read.

        Raises:
            BrokenPipeError: Nobody will: the reader is gone.
        """
        if not self._pipe:
            return
        looks = 0
        while self._unread():
            if looks < LOOKS:
                os.sched_yield()
                wait = 0
            else:
                wait = WAIT_MS[min(looks - LOOKS, len(WAIT_MS) - 1)]
            looks += 1
            if any(event & _GONE for _, event in self._poll.poll(wait)):
                if self._unread():
                    raise BrokenPipeError("nobody reads the output any more")
                return

    def _unread(self) -> int:
        """Bytes in the pipe; 0 also where the system does not tell."""
        found = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._descriptor, termios.FIONREAD, found)
        return found[0]
