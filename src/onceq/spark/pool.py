"""Connections of a worker process, kept for a short time between its tasks.

Spark gives the tasks of a query to the same few processes, one after another. A task borrows a
connection to a queue manager and gives it back; one that nobody wants for a few seconds is closed,
so that nothing is left of a query that has ended. While one is borrowed nobody else has it. One
whose task failed is never given back: nobody knows what it was at. A connection is somebody's, so
it serves only tasks with the same files of credentials.

What is borrowed for reading is an ``Access``, for writing the plain connection.

Upholds: I24 (as many connections as tasks run at once, and none without use).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol, TypeVar, cast

from onceq.client.opening import connect_for_job
from onceq.client.threads.manager import QueueManager
from onceq.spark.access import Access
from onceq.spark.credential_files import CredentialFiles
from onceq.spark.patience import Patience

KEEP_S: Final = 2.0
"""How long a connection waits for the next task."""
CONNECT_S_MAX: Final = 10.0
"""Of those for writing: for connecting."""
ANSWER_S_MAX: Final = 60.0
"""Of those for writing: for each answer. A commit of two million messages takes some seconds, more
if they leave for other queue managers; from a computer that is gone nothing ever comes."""


class Closable(Protocol):
    """What is kept."""

    def close(self) -> None:
        """End it."""


C = TypeVar("C", bound=Closable)


class Pool:
    """Connections by what they are for. One for each process (``borrowed``, ``connection``)."""

    def __init__(self, keep_s: float = KEEP_S) -> None:
        self.keep_s = keep_s
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._idle: dict[Hashable, list[tuple[float, Closable]]] = {}
        self._sweeper: threading.Thread | None = None

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    @contextlib.contextmanager
    def borrowed(self, key: Hashable, make: Callable[[], C]) -> Iterator[C]:
        """A connection for the time of one task.

        Args:
            key: Says what ``make`` makes, and where to: those with one key may stand for each
                other.
        """
        kept = self._take(key)
        made = cast("C", kept) if kept is not None else make()
        try:
            yield made
        except BaseException:
            made.close()
            raise
        self._give(key, made)

    def close(self) -> None:
        """Close all that wait."""
        with self._changed:
            idle, self._idle = self._idle, {}
            self._changed.notify_all()
        if self._process == os.getpid():  # After a fork they are the other process's.
            for kept in idle.values():
                for _, made in kept:
                    made.close()

    def _take(self, key: Hashable) -> Closable | None:
        if self._process != os.getpid():
            # After a fork: its connections are the parent's, and a lock that another thread held
            # stays so.
            self.__init__(self.keep_s)  # type: ignore[misc]
        with self._changed:
            kept = self._idle.get(key)
            return kept.pop()[1] if kept else None

    def _give(self, key: Hashable, made: Closable) -> None:
        with self._changed:
            self._idle.setdefault(key, []).append((time.monotonic(), made))
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
            for made in old:
                made.close()

    def _old(self, until: float) -> list[Closable]:
        old = [one for kept in self._idle.values() for since, one in kept if since <= until]
        left = {
            key: [pair for pair in kept if pair[0] > until] for key, kept in self._idle.items()
        }  # fmt: skip
        self._idle = {key: kept for key, kept in left.items() if kept}
        return old


_POOL: Final = Pool()
atexit.register(_POOL.close)


def borrowed(
    where: str, patience: Patience, credentials: CredentialFiles
) -> contextlib.AbstractContextManager[Access]:
    """A connection of this process for reading, for the time of one task."""
    return _POOL.borrowed(
        (Access, where, patience, credentials), lambda: Access(where, patience, credentials)
    )


def connection(
    where: str, *, credentials: CredentialFiles
) -> contextlib.AbstractContextManager[QueueManager]:
    """A connection of this process for writing, for the time of one task; raises
    ServiceNotAvailable, AccessDenied, ConfigurationError."""
    return _POOL.borrowed(
        (QueueManager, where, credentials),
        lambda: connect_for_job(
            where, timeout=CONNECT_S_MAX, answers=ANSWER_S_MAX,
            credentials=credentials.credentials(),
        ),
    )  # fmt: skip
