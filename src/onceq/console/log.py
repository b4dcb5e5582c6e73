"""What the console says of people: a line for each sign-in and each act, on its error output.

Each is about somebody whom the provider has named: who only knocks writes no line.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

LOG: Final = logging.getLogger("onceq.console")


def tell(what: str, **about: object) -> None:
    """Say that something was done.

    Args:
        about: Values, which are written as JSON: nothing in them begins a line.
    """
    words = " ".join(f"{name}={json.dumps(value)}" for name, value in about.items())
    LOG.info("%s: %s", what, words)


def show() -> None:
    """Have these lines on the error output, with their times, also where nothing else is shown."""
    if LOG.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s console: %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
