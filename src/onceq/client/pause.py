"""Waits that a signal ends for certain.

A signal that arrives in the moment before ``time.sleep``, or any other blocking call, begins is
only noted by the interpreter; its handler runs when the call is over, after a minute or never.
So the main thread waits for a descriptor besides, which the interpreter writes to when a signal
comes, whenever that is. Other threads run no handlers and wait as they like.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

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
