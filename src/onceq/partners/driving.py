"""Work that is written as a generator of what is to be done, carried out from a thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

Step = TypeVar("Step")
Made = TypeVar("Made")


def drive(steps: Generator[Step, Any, Made], do: Callable[[Step], Any]) -> Made:
    """Do each step and hand its result in, or throw in what it raised.

    Returns:
        What the generator returns.
    """
    try:
        step = next(steps)
        while True:
            try:
                result = do(step)
            except Exception as error:  # noqa: BLE001 - the steps see every error
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        made: Made = stop.value
        return made
