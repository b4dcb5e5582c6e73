"""Give unneeded segments back a few at a time.

A drained queue may leave hundreds of them at once, and the file system needs some milliseconds to
remove a file. So a pump gives back a few, and the next one goes on; an orderly stop and a disk that
is nearly full do not wait.

Upholds: I24 (no pump is longer the more there is to give back).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onceq.store.contract import Store

GIVEN_BACK_AT_ONCE: Final = 4
"""Segments given back in one pump."""


class GivingBack:
    """Gives back segments of one store.

    Attributes:
        more: Whether the last check left some.
    """

    def __init__(self, store: Store, needed: Callable[[int, int], bool]) -> None:
        self._store = store
        self._needed = needed
        self.more = False

    def some(self, *, at_once: bool = False) -> int:
        """Give back a few segments; return the number of bytes.

        Args:
            at_once: All that there are.
        """
        left, self.more = GIVEN_BACK_AT_ONCE, False

        def keep(base: int, end: int) -> bool:
            nonlocal left
            if self._needed(base, end):
                return True
            self.more = not left and not at_once
            left = max(left - 1, 0)
            return self.more

        return self._store.reclaim(keep)
