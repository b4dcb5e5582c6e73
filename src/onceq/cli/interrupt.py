"""Ctrl-C between two steps, never in the middle of one.

A command that is interrupted while it waits for the answer to a commit could not say whether that
commit happened. So the signal is held back until the step is over; a second one does not wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from onceq.errors import InDoubt


def in_doubt(transaction: str) -> InDoubt:
    """What to say when a person would not wait for the answer to a commit."""
    return InDoubt(
        "interrupted while the answer to a commit was awaited; find out what became of it with "
        f"'onceq outcome {transaction}'",
        transaction=transaction,
    )


class Interruptible:
    """While it is entered, SIGINT and SIGTERM raise KeyboardInterrupt outside of steps only."""

    def __init__(self) -> None:
        self._in_step = False
        self._asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruptible:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._in_step and not self._asked:
            self._asked = True
            return
        raise KeyboardInterrupt

    @contextmanager
    def step(self) -> Iterator[None]:
        """Something that should be finished once it has begun."""
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False
        if self._asked:
            self._asked = False
            raise KeyboardInterrupt
