"""Whose portion of long work a pump does: one portion at most, and each kind in its turn.

What may be long is done in portions: the ends of very many messages and whatever else the core has
at work, acknowledgments that are owed, housekeeping. Nobody is served while a portion lasts, and
the host comes by its sockets between two pumps only. So a pump does one portion, whatever waits:
who asks for something waits for one of them, and not for one of each kind.

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
"""Who comes after the kind that was last; after none of them, the first."""


class Portions:
    """See the module.

    Attributes:
        core: Whether the core is to go on with what takes several steps.
    """

    __slots__ = ("_last", "core")

    def __init__(self) -> None:
        self.core = False
        self._last = Kind.NONE

    def next(self, *, owing: bool, house: bool) -> Kind:
        """The kind whose turn it is, of those that want one.

        Args:
            owing: Whether acknowledgments may be owed.
            house: Whether housekeeping is due.
        """
        wanted = (False, self.core, owing, house)
        return next((kind for kind in _TURNS[self._last] if wanted[kind]), Kind.NONE)

    def done(self, kind: Kind) -> None:
        """A portion of this kind was done: it comes last now."""
        self._last = kind
