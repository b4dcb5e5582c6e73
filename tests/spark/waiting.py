"""Waiting for what other processes do in their own time."""

from __future__ import annotations

from collections.abc import Callable

from onceq.client.stopping import pause

LOOK_S = 0.05


def until(true: Callable[[], bool], give_up_s: float = 30.0) -> None:
    """Wait for something that comes by itself.

    Raises:
        AssertionError: It has not come in so many seconds.
    """
    for _ in range(int(give_up_s / LOOK_S)):
        if true():
            return
        pause(LOOK_S)
    raise AssertionError("it did not come")
