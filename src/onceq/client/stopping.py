"""Stopping in order when the system asks for it: SIGTERM and Ctrl-C as an event.

It also has waits that a signal ends for certain.

A signal handler may run at any line of what its thread does, also of an event that is waited for.
So what it does here takes no lock: it sets a mark and writes into a pipe, and a thread of its own
tells the log (finding K5).

The log of the client library is here, too.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    import logging


# ---- pause ---------------------------------------------------------------------------------------
#
# Waits that a signal ends for certain.


SLICE_S = 0.5
"""Where the descriptor is somebody else's (an event loop's) a signal is heard after this time."""
LOCK_SLICE_S = 1.0
"""And where a lock is waited for."""

_pair: tuple[int, socket.socket, socket.socket] | None = None
"""Of this process: the interpreter writes at one end."""


def pause(seconds: float, over: Callable[[], object] = lambda: False) -> None:
    """Sleep; a handler that raises ends it, and so does one after which ``over()`` is true."""
    until = time.monotonic() + seconds
    while not over() and (left := until - time.monotonic()) > 0:
        wait_readable(None, left)


def wait_readable(file: int | None, seconds: float | None) -> bool:
    """Wait until a descriptor can be read, or for so long; whether it can.

    It may return before, when a signal has come. None: no limit (no descriptor: nothing to read).
    """
    if threading.current_thread() is not threading.main_thread():
        return _waited(file, None, seconds)
    with _wakeup() as wake:
        if wake is None:
            seconds = SLICE_S if seconds is None else min(seconds, SLICE_S)
        return _waited(file, wake, seconds)


def acquire(lock: threading.Lock, until: float | None = None) -> None:
    """Acquire a lock, however long that takes; a signal is heard within LOCK_SLICE_S.

    Args:
        until: Give up then, by ``time.monotonic``.
    """
    while True:
        left = LOCK_SLICE_S if until is None else min(LOCK_SLICE_S, until - time.monotonic())
        if lock.acquire(timeout=max(left, 0.0)) or left <= 0:
            return


def _waited(file: int | None, wake: socket.socket | None, seconds: float | None) -> bool:
    poll = select.poll()
    if file is not None:
        poll.register(file, select.POLLIN)
    if wake is not None:
        poll.register(wake, select.POLLIN)
    found = poll.poll(None if seconds is None else max(int(seconds * 1000) + 1, 1))
    if wake is not None and any(number == wake.fileno() for number, _ in found):
        with contextlib.suppress(BlockingIOError):
            wake.recv(4096)
    return any(number == file for number, _ in found)


@contextlib.contextmanager
def _wakeup() -> Iterator[socket.socket | None]:
    """A socket that can be read when a signal has come; None if somebody else has that."""
    global _pair
    if _pair is None or _pair[0] != os.getpid():
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
        _pair = (os.getpid(), *ends)
    _, ours, theirs = _pair
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        yield None
        return
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(-1)


# ---- stopping ------------------------------------------------------------------------------------


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
        """Whether it is set."""
        return self._asked

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._asked = True
        if self._own:
            with contextlib.suppress(BlockingIOError):  # It is full: everybody is awake.
                os.write(self._writes, b"\0")

    def clear(self) -> None:
        """Make it unset again."""
        self._asked = False
        if self._own:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._reads, 4096):
                    pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or the time is over; return whether it is set."""
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
    with _handling(NUMBERS, event.set):
        yield event


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """The same for a call that was given no event: where it can be, and for those signals only that
    the application does not handle by itself."""
    event = StopEvent()
    with _handling(_free(), event.set):
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

    with _handling(_free(), tell):
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
def _handling(numbers: Iterable[signal.Signals], tell: Callable[[], object]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}

    def handle(number: int, frame: FrameType | None) -> None:
        tell()
        with contextlib.suppress(RuntimeError):  # The interpreter ends, and can begin no thread.
            _thread.start_new_thread(_say, (signal.Signals(number).name,))
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(name: str) -> None:
    log().info("%s: what is at hand is finished", name)
