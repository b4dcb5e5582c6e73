"""Standard input, output and error output of the command, which cannot make it fail in silence.

* What standard output does not take ends the command with ``OutputLost``.
* What its encoding lacks is written as an escape, which JSON reads as the same text.
* Nothing is lost with the error output: what it does not take, nobody wanted to read.
* Each has its descriptor: no file or connection gets the number of one that is closed.
"""

from __future__ import annotations

import array
import codecs
import contextlib
import fcntl
import io
import os
import select
import signal
import stat
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TextIO

from onceq.cli.out import escape_json
from onceq.errors import InDoubt, OutputLost

# ---- standard ------------------------------------------------------------------------------------


_ESCAPES: Final = "onceq-escapes"
CLOSED: Final = (
    "standard output is closed, so nothing was done: give the command a file or a pipe, or "
    ">/dev/null"
)


def write_some(descriptor: int, data: bytes | memoryview) -> int:
    """Write to standard output past all memory; returns how many bytes it has taken.

    Raises:
        OutputLost: It takes no more.
        BrokenPipeError: Its reader has gone.
    """
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(
                f"the output cannot be written: {error.strerror}; not all of it is there, and what "
                "the command has done before stays done"
            ) from error


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        return write_some(self.fileno(), data)


class _Errors(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escape_json(error.object[error.start : error.end]), error.end


def _text(raw: io.FileIO, before: io.TextIOWrapper) -> io.TextIOWrapper:
    # Where the interpreter was told not to buffer (-u), each line goes out, too.
    live = raw.isatty() or isinstance(raw, _Errors) or before.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=before.encoding, errors=_ESCAPES, line_buffering=live
    )


def _nothing(mode: str) -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_RDWR), mode))


def open_streams() -> None:
    """Put the streams in the places of the interpreter's own; those that somebody has put there
    before stay.

    Raises:
        OutputLost: There is no standard output.
    """
    codecs.register_error(_ESCAPES, _escape)
    # The interpreter has None for one that is closed; the lowest number that is free comes first.
    output, errors = sys.__stdout__, sys.__stderr__
    if sys.stdin is None:
        sys.stdin = _nothing("r")
    closed = sys.stdout is None
    if closed:
        sys.stdout = _nothing("w")
    if sys.stderr is None:
        sys.stderr = _nothing("w")
    elif errors is sys.stderr:
        sys.stderr = _text(_Errors(errors.fileno(), "w", closefd=False), errors)
    if closed:
        raise OutputLost(CLOSED)
    if output is sys.stdout:
        sys.stdout = _text(_Output(output.fileno(), "w", closefd=False), output)


def forget_output() -> None:
    """Keep the interpreter from writing at its end what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---- interrupt -----------------------------------------------------------------------------------
#
# Ctrl-C between two steps, never in the middle of one.
#
# A command that is interrupted while it waits for the answer to a commit could not say whether
# that commit happened. So the signal is held back until the step is over; a second one does not
# wait.


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


# ---- draining ------------------------------------------------------------------------------------
#
# Whether what was written was taken: a file has it at once, a pipe only when somebody has read
# it.
#
# A pipe holds up to 64 KiB that its reader may never look at: `onceq receive QUEUE | head -3`
# would take a thousand messages out of the queue in order to show three.


LOOKS: Final = 200
"""Looks at a pipe, with the processor left to others between them, before the waits begin."""
WAIT_MS: Final = (1, 2, 5, 10, 20, 50)
"""Waits between looks at a pipe whose reader takes its time; the last one is repeated."""
_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Drain:
    """The far end of a descriptor that is written to.

    Attributes:
        takes_all: What is written is taken at once, and not lost when somebody goes away.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        self._pipe = stat.S_ISFIFO(mode)
        self.takes_all = stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(descriptor))
        self._poll = select.poll()
        self._poll.register(descriptor, 0)

    def wait(self) -> None:
        """Wait until everything that was written was read.

        Raises:
            BrokenPipeError: Nobody will: the reader is gone.
        """
        if not self._pipe:
            return
        looks = 0
        while self._unread():
            if looks < LOOKS:
                os.sched_yield()
                wait = 0
            else:
                wait = WAIT_MS[min(looks - LOOKS, len(WAIT_MS) - 1)]
            looks += 1
            if any(event & _GONE for _, event in self._poll.poll(wait)):
                if self._unread():
                    raise BrokenPipeError("nobody reads the output any more")
                return

    def _unread(self) -> int:
        """Bytes in the pipe; 0 also where the system does not tell."""
        found = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._descriptor, termios.FIONREAD, found)
        return found[0]
