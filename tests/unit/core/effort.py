"""What a step of the core costs, counted so that the machine does not matter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

SMALL: Final = 100
LARGE: Final = 10_000
SLACK: Final = 10
"""Lines by which two counts may differ that are the same: a bisection takes a step more."""


def lines(step: Callable[[], Any]) -> int:
    """How many lines of Python a step runs: work, whatever the machine."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return count


def stays_the_same(
    make: Callable[[int], Callable[[], Any]], *, small: int = SMALL, large: int = LARGE
) -> None:
    """A step must cost as much where there is little of something as where there is much of it.

    Args:
        make: Sees to so many of it, and gives the step.
    """
    few, many = lines(make(small)), lines(make(large))
    assert many <= few + SLACK, f"{few} lines with {small:,}, {many} with {large:,}"
