"""Numbers of queues in their order: what a long list of queues goes on from.

Queues are numbered as they are made, and stand in tables by name. A list that is told a page at a
time needs the next ones behind a number, without a look at all the others.

Upholds: the numbers rise, and each stands here once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class Numbers:
    """Numbers that rise."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[int] = []

    def add(self, number: int) -> None:
        """One more, which is not there; most are greater than all others."""
        if self._all and number < self._all[-1]:
            insort(self._all, number)
        else:
            self._all.append(number)

    def drop(self, number: int) -> None:
        """One less, which is there."""
        del self._all[bisect_left(self._all, number)]

    def behind(self, number: int) -> list[int]:
        """Those that are greater, the smallest first."""
        return self._all[bisect_right(self._all, number) :]
