"""Standard input, output and error output of the command, which cannot make it fail in silence.

* What standard output does not take ends the command with ``OutputLost``.
* What its encoding lacks is written as an escape, which JSON reads as the same text.
* Nothing is lost with the error output: what it does not take, nobody wanted to read.
* Each has its descriptor: no file or connection gets the number of one that is closed.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import Any, Final, TextIO

from onceq.cli.out import escape_json
from onceq.errors import OutputLost

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
