"""The log of a queue manager: one line for each event, to be read and to be searched.

    2026-11-20T21:14:03.250Z INFO session opened: session=3 peer=… address=10.0.0.7 outgoing=12
    {"time": "2026-11-20T21:14:03.250Z", "level": "INFO", "event": "session opened", "session": 3}

The words before the colon are the same for the same kind of event; the values after it are
quoted when they hold anything that could break the line, because some of them come from outside.
The second form, for programs, has the same values with their types.
Library code logs to "onceq" and never configures logging; the daemon does.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import threading
import time
from collections import deque
from typing import IO

from onceq.model.limits import LOG_FLUSH_S_MAX, LOG_LINES_MAX
from onceq.model.wording import plural

log = logging.getLogger("onceq")
log.addHandler(logging.NullHandler())

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
VALUE_CHARS_MAX = 500
TRACE_CHARS_MAX = 20_000
_PLAIN = (bool, int, float, type(None))
_OWN = ("time", "level", "event", "trace")


def event(what: str, *, level: int = logging.INFO, **values: object) -> None:
    """Log one event.

    Args:
        what: The kind of event, in the same words every time.
        values: What it was about.
    """
    if log.isEnabledFor(level):
        said = " ".join(f"{name}={_plain(value)}" for name, value in values.items())
        more = {"onceq_event": what, "onceq_values": values}
        log.log(level, "%s: %s" if said else "%s%s", what, said, extra=more)


def _cut(text: str, most: int = VALUE_CHARS_MAX) -> str:
    return text[:most] + "…" if len(text) > most else text


def _plain(value: object) -> str:
    text = _cut(str(value))
    if text and text.isprintable() and not set(text) & {" ", '"', "="}:
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


class _Lines(logging.Formatter):
    """Formats UTC time with milliseconds, level, and the event on one line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class _Json(_Lines):
    """Formats the same as a JSON object, in ASCII: no character of any value can break the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        what = getattr(record, "onceq_event", None)
        said: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "event": what if what is not None else _cut(record.getMessage()),
        }
        for name, value in getattr(record, "onceq_values", {}).items():
            shown = value if isinstance(value, _PLAIN) else _cut(str(value))
            if isinstance(shown, float) and not math.isfinite(shown):
                shown = str(shown)  # JSON has no such number
            said[f"{name}_" if name in _OWN else name] = shown
        if record.exc_info:
            said["trace"] = _cut(self.formatException(record.exc_info), TRACE_CHARS_MAX)
        return json.dumps(said)


class Lines:
    """Lines on their way to a pipe, a terminal or a file that nobody may read.

    A call never waits: a loop that waited for the reader of its log would serve nobody (finding
    K14). A thread writes the lines. Lines without room are counted, and the next line that is
    written says so.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._waiting: deque[str] = deque()
        self._missing = 0
        self._changed = threading.Condition()
        self._writes = False
        self._thread: threading.Thread | None = None

    def say(self, line: str) -> None:
        """Queue a line to be written, if there is room for it."""
        with self._changed:
            if len(self._waiting) >= LOG_LINES_MAX:
                self._missing += 1
                return
            self._waiting.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="onceq-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, wait_s: float = LOG_FLUSH_S_MAX) -> bool:
        """Wait for a limited time until everything is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._writes), wait_s)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._writes = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting))
                lines, missing = [*self._waiting], self._missing
                self._waiting.clear()
                self._missing, self._writes = 0, True
            if missing:
                lines.append(f"{plural(missing, 'line')} of the log could not be written: nobody "
                             "had read those before")  # fmt: skip
            with contextlib.suppress(OSError, ValueError):  # It was closed: nobody reads it.
                for line in lines:
                    _put(self._stream, f"{line}\n")


def _put(stream: IO[str], text: str) -> None:
    """Write to a stream past the interpreter's own buffer: at its end the process would wait for
    a thread that holds the buffer, and waits for a reader."""
    try:
        where = stream.fileno()
    except (OSError, AttributeError):
        stream.write(text)
        return
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    while data:
        data = data[os.write(where, data) :]


class _Handler(logging.Handler):
    """Hands the lines of the log to ``Lines``."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record."""
        try:
            self._lines.say(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of logging does
            self.handleError(record)

    def flush(self) -> None:
        """Wait until the lines are written."""
        self._lines.flush()


def _formatter(form: str) -> _Lines:
    return _Json() if form == "json" else _Lines()


def set_up(level: str, stream: IO[str] | None = None, *, form: str = "text") -> logging.Handler:
    """Let a process that is a queue manager write its log; return the handler.

    Args:
        level: One of LEVELS.
        stream: Where to; standard error by default.
        form: One of FORMATS.
    """
    handler = _Handler(Lines(stream or sys.stderr))
    handler.setFormatter(_formatter(form))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


def change(level: str, form: str) -> None:
    """Change the level and the form of the log, if this process writes its log (``set_up``)."""
    root = logging.getLogger()
    own = [handler for handler in root.handlers if isinstance(handler.formatter, _Lines)]
    for handler in own:
        handler.setFormatter(_formatter(form))
    if own:
        root.setLevel(level.upper())
