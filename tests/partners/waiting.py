"""Waiting for what another process or thread is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.daemon.applications import WAIT_S


def until(true: Callable[[], object]) -> None:
    """What another process or thread is about to do; only a defect makes that long."""
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it never came"
