"""Stopping in order when the system asks for it: SIGTERM and Ctrl-C as an event."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets while the block runs; for ``work`` and ``consume``.

    What is under way is finished; a second signal does what it would have done without this. In
    the main thread only, as Python wants it.
    """
    event = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def heard(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, heard)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
