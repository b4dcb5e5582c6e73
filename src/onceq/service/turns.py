"""Let long work in another thread yield the interpreter to the thread that serves applications."""

from __future__ import annotations

import threading
from typing import Final

TURN_S: Final = 0.0001
"""Seconds for which the interpreter is yielded at least."""


def leave_turn() -> None:
    """Let other threads run, which would wait for milliseconds otherwise."""
    threading.Event().wait(TURN_S)
