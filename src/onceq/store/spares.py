"""File descriptors that the store never loses to other users of the process.

A process may have only a limited number of files open. Connections are counted
(``service/admission.py``), but a queue manager inside an application shares its process with all
files that the application opens. So a few descriptors are held ready: if there is none left when
the store needs one, a spare is given up for it, and taken back as soon as there is room. On a
working disk the store never fails because others have opened too much.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from onceq.model.limits import SPARE_DESCRIPTORS

T = TypeVar("T")
SHORT: Final = frozenset((errno.EMFILE, errno.ENFILE))
"""The system's errors when there are no descriptors left."""


class Spares:
    """Descriptors held ready; any thread may ask."""

    def __init__(self, wanted: int = SPARE_DESCRIPTORS) -> None:
        self._wanted = wanted
        self._held: list[int] = []
        self._given = False
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._held)

    def refill(self) -> bool:
        """Hold the wanted number again; return False if the system has none to give."""
        with self._lock, contextlib.suppress(OSError):
            while len(self._held) < self._wanted:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            self._given = False
        return not self._given

    def call_when_short(self, listener: Callable[[], None]) -> None:
        """Register a listener, which is called, in any thread, each time that a spare was given
        up."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        with contextlib.suppress(ValueError):
            self._listeners.remove(listener)

    def use(self, work: Callable[[], T]) -> T:
        """Run work that needs a descriptor; a spare is given up for it if there is no other."""
        while True:
            try:
                done = work()
            except OSError as error:
                if error.errno not in SHORT or not self._give_up():
                    raise
            else:
                if self._given:
                    self.refill()
                return done

    def _give_up(self) -> bool:
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            self._given = True
        for listener in list(self._listeners):
            listener()
        return True


SPARES: Final = Spares()
"""The spares of this process, for all its queue managers. The first that starts takes them."""
