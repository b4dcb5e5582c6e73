"""Segments that nothing needs any more go a few at a time.

A drained queue may leave hundreds of them at once, and to remove a file takes the file system some
milliseconds. So a pump gives back a few, and the next one goes on; an orderly stop and a disk that
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
    """See the module.

    Attributes:
        more: Whether there were more, when it was looked last.
    """

    def __init__(self, store: Store, needed: Callable[[int, int], bool]) -> None:
        self._store = store
        self._needed = needed
        self.more = False

    def some(self, *, at_once: bool = False) -> int:
        """Give back a few segments; returns how many bytes.

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
