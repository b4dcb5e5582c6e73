"""What a host does to a program, at any line of what the program does (``make hosts``).

A deed happens once, at the n-th line that a thread runs in the files of the client library and in
``threading``: a signal handler, the garbage collector or a fork can come between any two of these
lines.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

FILES = ("/onceq/client/", "/onceq/embedded/", "/onceq/partners/", "/threading.py")


class AtLine:
    """Does something once at the n-th line that this thread runs in those files.

    Attributes:
        seen: How many lines there were.
        done: Where it was done; "": not at all.
    """

    def __init__(self, line: int, do: Callable[[], object]) -> None:
        self._line = line
        self._do = do
        self.seen = 0
        self.done = ""

    def __enter__(self) -> AtLine:
        sys.settrace(self._called)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._local if not self.done and any(part in name for part in FILES) else None

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.done:
            return None
        if event == "line":
            self.seen += 1
            if self.seen >= self._line > 0 and not (_gives_back(frame) or _hands_over(frame)):
                file = frame.f_code.co_filename.rpartition("/")[2]
                self.done = f"{file}:{frame.f_lineno}"
                self._do()
        return self._local


def _gives_back(frame: FrameType) -> bool:
    """Whether a line gives a lock back. The interpreter looks for signals inside of calls alone, so
    that no handler comes between the end of a block and the release of its lock."""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return text.startswith(("with ", "finally")) or ".release()" in text or ".discard(" in text


def _hands_over(frame: FrameType | None) -> bool:
    """Whether something is handed to a thread of a pool, or back: there the pool holds a lock that
    each fork waits for, and an event loop forgets results if an exception comes."""
    while frame is not None:
        if "/concurrent/futures/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


class Broken(Exception):
    """What a signal handler of the program raises."""
