"""Long work in another thread leaves its turn to the one that serves applications."""

from __future__ import annotations

import threading
from typing import Final

TURN_S: Final = 0.0001
"""For so long at least the turn is left to others."""


def leave_turn() -> None:
    """Let other threads run: those that want the interpreter would wait for milliseconds else."""
    threading.Event().wait(TURN_S)
