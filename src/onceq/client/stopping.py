"""Stopping in order when the system asks for it: SIGTERM and Ctrl-C as an event."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from onceq.client.logs import log

if TYPE_CHECKING:
    import asyncio

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets while the block runs; for ``work`` and ``consume``.

    What is under way is finished; a second signal does what it would have done without this. In
    the main thread only, as Python wants it.
    """
    event = threading.Event()
    with _heard(NUMBERS, event.set):
        yield event


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """The same for a call that was given no event: where it can be, and for those signals only that
    the application does not handle by itself."""
    event = threading.Event()
    with _heard(_free(), event.set):
        yield event


@contextmanager
def asked_to_stop_in_task() -> Iterator[asyncio.Event]:
    """The same for a task."""
    import asyncio  # which takes 25 ms to load, and threads need nothing of it

    event, loop = asyncio.Event(), asyncio.get_running_loop()
    with _heard(_free(), lambda: loop.call_soon_threadsafe(event.set)):
        yield event


def _free() -> list[signal.Signals]:
    """Signals whose handlers are those of Python, or of ``asyncio.run``."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in NUMBERS if _is_default(signal.getsignal(number))]


def _is_default(handler: Any) -> bool:
    function = getattr(handler, "func", handler)
    return (
        handler in (signal.SIG_DFL, signal.default_int_handler)
        or getattr(function, "__module__", "") == "asyncio.runners"
    )


@contextmanager
def _heard(numbers: Iterable[signal.Signals], tell: Callable[[], object]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}

    def heard(number: int, frame: FrameType | None) -> None:
        tell()
        log().info("%s: what is at hand is finished", signal.Signals(number).name)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
