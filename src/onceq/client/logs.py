"""The log of the client library.

``logging`` is loaded when there is something to say: it takes 5 ms, of a command of 150.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def log() -> logging.Logger:
    """The logger ``onceq``."""
    import logging

    return logging.getLogger("onceq")
