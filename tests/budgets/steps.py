"""Counts calls of Python functions in the steps of a core."""

from __future__ import annotations

import sys
from collections.abc import Callable

from onceq.core.inputs import Tick
from onceq.model import requests
from tests.unit.core.alone import WAITS, Core


def calls(work: Callable[[], object]) -> int:
    """Calls of Python functions."""
    found = [0]

    def count(frame: object, event: str, arg: object) -> None:
        found[0] += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found[0]


def longest(core: Core, asked: requests.Request, *, owner: int = 1) -> tuple[int, object]:
    """Calls of Python functions in the longest step of what is asked, and the answer."""
    counts = [0]

    def count(frame: object, event: str, arg: object) -> None:
        counts[-1] += event == "call"

    def counted(work: Callable[[], object]) -> object:
        counts.append(0)
        sys.setprofile(count)
        try:
            return work()
        finally:
            sys.setprofile(None)

    answer = counted(lambda: core.ask(asked, owner=owner))
    number = core.asked
    while answer is WAITS:
        counted(lambda: core.step(Tick()))
        answer = core.answers.get(number, WAITS)
    return max(counts), answer
