"""Reading ahead: the next page is asked for while Spark takes the one before.

Upholds: I24 (two pages of a task at a time).
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from onceq.spark.access import Access

if TYPE_CHECKING:
    from onceq import Batch


class Prefetch:
    """The pages of one queue, up to a place. Close it before its connection is used otherwise."""

    def __init__(self, access: Access, queue: str, to: int) -> None:
        self._access = access
        self._queue = queue
        self._to = to
        self._thread: ThreadPoolExecutor | None = None
        self._next: Future[Batch | None] | None = None

    def page(self, after: int, top: int | None) -> Batch | None:
        """The page behind a place, now; what was begun before is let go of."""
        self._settle()
        return self._access.page(self._queue, after, self._to, top) if after < self._to else None

    def begin(self, after: int, top: int | None) -> None:
        """Ask for the page behind a place."""
        assert self._next is None, "one page at a time"
        if after < self._to:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._next = self._thread.submit(self._access.page, self._queue, after, self._to, top)

    def take(self) -> Batch | None:
        """The page that was begun; None if there is none."""
        begun, self._next = self._next, None
        return begun.result() if begun is not None else None

    def close(self) -> None:
        """Wait until nothing is under way."""
        self._settle()
        if self._thread is not None:
            self._thread.shutdown()

    def _settle(self) -> None:
        begun, self._next = self._next, None
        if begun is not None:
            # Waited for, and not heard: one connection carries out one request at a time.
            begun.exception()
