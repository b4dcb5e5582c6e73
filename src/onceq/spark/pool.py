"""Connections of a worker process, kept for a short time between its tasks.

Spark gives the tasks of a query to the same few processes, one after another. A task borrows a
connection to a queue manager and gives it back; one that nobody wants for a few seconds is closed,
so that nothing is left of a query that has ended. One that failed is never given back.

Upholds: I24 (as many connections as tasks run at once, and none without use).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Final

from onceq.spark.access import Access
from onceq.spark.patience import Patience

KEEP_S: Final = 2.0
"""How long a connection waits for the next task."""

Key = tuple[str, Patience]


class Pool:
    """Connections by queue manager. One for each process (``borrowed``)."""

    def __init__(self, keep_s: float = KEEP_S) -> None:
        self.keep_s = keep_s
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._idle: dict[Key, list[tuple[float, Access]]] = {}
        self._sweeper: threading.Thread | None = None

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    @contextlib.contextmanager
    def borrowed(self, where: str, patience: Patience) -> Iterator[Access]:
        """A connection for the time of one task."""
        access = self._take((where, patience)) or Access(where, patience)
        try:
            yield access
        except BaseException:
            access.close()
            raise
        self._give((where, patience), access)

    def close(self) -> None:
        """Close all that wait."""
        with self._changed:
            idle, self._idle = self._idle, {}
            self._changed.notify_all()
        if self._process == os.getpid():  # After a fork they are the other process's.
            for kept in idle.values():
                for _, access in kept:
                    access.close()

    def _take(self, key: Key) -> Access | None:
        if self._process != os.getpid():
            # After a fork: its connections are the parent's, and a lock that another thread held
            # stays so.
            self.__init__(self.keep_s)  # type: ignore[misc]
        with self._changed:
            kept = self._idle.get(key)
            return kept.pop()[1] if kept else None

    def _give(self, key: Key, access: Access) -> None:
        with self._changed:
            self._idle.setdefault(key, []).append((time.monotonic(), access))
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, daemon=True)
                self._sweeper.start()

    def _sweep(self) -> None:
        """Close what was not wanted for a while; ends when nothing is left."""
        while True:
            with self._changed:
                until = time.monotonic() - self.keep_s
                old = self._old(until)
                if not old and not self._idle:
                    self._sweeper = None
                    return
                if not old:
                    oldest = min(since for kept in self._idle.values() for since, _ in kept)
                    self._changed.wait(max(oldest - until, 0.01))
            for access in old:
                access.close()

    def _old(self, until: float) -> list[Access]:
        old = [a for kept in self._idle.values() for since, a in kept if since <= until]
        left = {
            key: [pair for pair in kept if pair[0] > until] for key, kept in self._idle.items()
        }  # fmt: skip
        self._idle = {key: kept for key, kept in left.items() if kept}
        return old


_POOL: Final = Pool()
atexit.register(_POOL.close)


def borrowed(where: str, patience: Patience) -> contextlib.AbstractContextManager[Access]:
    """A connection of this process for the time of one task."""
    return _POOL.borrowed(where, patience)
