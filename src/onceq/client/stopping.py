"""Stopping in order when the system asks for it: SIGTERM and Ctrl-C as an event.

A signal handler may run at any line of what its thread does, also of an event that is waited for.
So what it does here takes no lock: it sets a mark and writes into a pipe, and a thread of its own
tells the log (finding K5).

The log of the client library is here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


import _thread
import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from onceq.client.pause import SLICE_S, wait_readable

if TYPE_CHECKING:
    import asyncio


def log() -> logging.Logger:
    """The logger ``onceq``."""
    import logging

    return logging.getLogger("onceq")


NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopEvent(threading.Event):
    """An event that may be set in a signal handler, no matter what its thread does with it."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = False
        self._process = os.getpid()
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)

    def __del__(self) -> None:
        for end in (self._reads, self._writes):
            os.close(end)

    def is_set(self) -> bool:
        """See Event."""
        return self._asked

    def set(self) -> None:
        """See Event."""
        self._asked = True
        if self._own:
            with contextlib.suppress(BlockingIOError):  # It is full: everybody is awake.
                os.write(self._writes, b"\0")

    def clear(self) -> None:
        """See Event."""
        self._asked = False
        if self._own:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._reads, 4096):
                    pass

    def wait(self, timeout: float | None = None) -> bool:
        """See Event."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not self._asked and (left := until - time.monotonic()) > 0:
            if self._own:
                wait_readable(self._reads, None if left == math.inf else left)
            else:
                wait_readable(None, min(left, SLICE_S))
        return self._asked

    @property
    def _own(self) -> bool:
        """Whether the pipe is of this process, and not of the one that it was forked from."""
        return self._process == os.getpid()


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets while the block runs; for ``work`` and ``consume``.

    What is under way is finished; a second signal does what it would have done without this. In
    the main thread only, as Python wants it.
    """
    event = StopEvent()
    with _heard(NUMBERS, event.set):
        yield event


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """The same for a call that was given no event: where it can be, and for those signals only that
    the application does not handle by itself."""
    event = StopEvent()
    with _heard(_free(), event.set):
        yield event


@contextmanager
def asked_to_stop_in_task() -> Iterator[asyncio.Event]:
    """The same for a task."""
    import asyncio  # which takes 25 ms to load, and threads need nothing of it

    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell() -> None:
        # Twice: the handler of another signal may raise at the first line of one of them.
        for _ in range(2):
            loop.call_soon_threadsafe(event.set)

    with _heard(_free(), tell):
        yield event


def _free() -> list[signal.Signals]:
    """Signals whose handlers are those of Python, or of ``asyncio.run``."""
    if threading.current_thread() is not threading.main_thread():
        return []
    free = []
    for number in NUMBERS:
        handler: Any = signal.getsignal(number)
        function = getattr(handler, "func", handler)
        default = handler in (signal.SIG_DFL, signal.default_int_handler)
        if default or getattr(function, "__module__", "") == "asyncio.runners":
            free.append(number)
    return free


@contextmanager
def _heard(numbers: Iterable[signal.Signals], tell: Callable[[], object]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}

    def heard(number: int, frame: FrameType | None) -> None:
        tell()
        with contextlib.suppress(RuntimeError):  # The interpreter ends, and can begin no thread.
            _thread.start_new_thread(_say, (signal.Signals(number).name,))
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(name: str) -> None:
    log().info("%s: what is at hand is finished", name)
