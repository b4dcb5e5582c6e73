"""Choose the kind of long work that a pump does: one portion at most, and each kind in its turn.

Long work is done in portions: the ends of very many messages and other long work of the core,
acknowledgments that are owed, housekeeping. No request is served while a portion lasts, and the
host reads its sockets between two pumps only. So a pump does one portion, however much waits: a
request waits for one of them, and not for one of each kind.

Upholds: I24 (no pump is longer the more kinds of long work there are).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """Kinds of long work, in the order of their turns."""

    NONE = 0
    CORE = 1
    ACKS = 2
    HOUSE = 3


_TURNS: Final = {
    last: tuple(Kind((last + after) % 3 + 1) for after in range(3)) for last in range(4)
}
"""The kinds to try after the last one, in order; after none, from the first."""


class Portions:
    """The turns of the kinds of long work.

    Attributes:
        core: Whether the core is to go on with work in several steps.
    """

    __slots__ = ("_last", "core")

    def __init__(self) -> None:
        self.core = False
        self._last = Kind.NONE

    def next(self, *, owing: bool, house: bool) -> Kind:
        """Return the kind whose turn it is, of those that want one.

        Args:
            owing: Whether acknowledgments may be owed.
            house: Whether housekeeping is due.
        """
        wanted = (False, self.core, owing, house)
        return next((kind for kind in _TURNS[self._last] if wanted[kind]), Kind.NONE)

    def done(self, kind: Kind) -> None:
        """Note that a portion of this kind was done: it comes last now."""
        self._last = kind
