"""What a queue manager tells its operator: one line for each event, to be read and to be searched.

    2026-11-20T21:14:03.250Z INFO session opened: session=3 peer=… address=10.0.0.7 outgoing=12

The words before the colon are the same for the same kind of event; the values after it are
quoted when they hold anything that could break the line, because some of them come from outside.
Library code logs to "onceq" and never configures logging; the daemon does.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import IO

log = logging.getLogger("onceq")
log.addHandler(logging.NullHandler())

LEVELS = ("debug", "info", "warning", "error")
VALUE_CHARS_MAX = 500


def event(what: str, *, level: int = logging.INFO, **values: object) -> None:
    """Log one event.

    Args:
        what: The kind of event, in the same words every time.
        values: What it was about.
    """
    if log.isEnabledFor(level):
        said = " ".join(f"{name}={_plain(value)}" for name, value in values.items())
        log.log(level, "%s: %s" if said else "%s%s", what, said)


def _plain(value: object) -> str:
    text = str(value)
    if len(text) > VALUE_CHARS_MAX:
        text = text[:VALUE_CHARS_MAX] + "…"
    if text and text.isprintable() and not set(text) & {" ", '"', "="}:
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


class _Lines(logging.Formatter):
    """Coordinated universal time with milliseconds, level, and the event on one line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


def set_up(level: str, stream: IO[str] | None = None) -> logging.Handler:
    """Let a process that is a queue manager write its log; returns the handler.

    Args:
        level: One of LEVELS.
        stream: Where to; standard error by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


def change_level(level: str) -> None:
    """Log from now on what is as bad as that, if this process writes its log (``set_up``)."""
    root = logging.getLogger()
    if any(isinstance(handler.formatter, _Lines) for handler in root.handlers):
        root.setLevel(level.upper())
