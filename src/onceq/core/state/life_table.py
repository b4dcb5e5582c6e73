"""The lives of a queue manager: which stream identifiers each of them may have given.

A life begins with each start of the process. Its stream identifiers have a stamp of their own in
the high half, above that of every life before it, and its ordinals (the low half) begin at random.
So a life that went on from a copy of this store, or from which a backup has taken this store back,
gives others; and an identifier that is none of those here was given by such a life.

A durable table of ``State``, changed by ``apply_setup`` only; the rules are in
``core/peers/lives.py``.

Upholds: I7 (numbers for ever, also over copies and backups), I24 (a bounded list), I25.
"""

from __future__ import annotations

from typing import Any

from onceq.core.state.rows import read_row
from onceq.core.state.setups import LifeBegun
from onceq.model.limits import LIVES_MAX
from onceq.model.record import Record


class Given(Record, frozen=True):
    """Identifiers that were given: this stamp with the ordinals from ``first`` to before
    ``end``."""

    stamp: int
    first: int
    end: int


class Lives:
    """See the module.

    Attributes:
        id: Of the present life: random, told to other onceq managers.
        message: Message number with which the present life has begun.
        first: Ordinal with which the present stamp has begun.
        made_ns: When the directory was made that the present life was started in; 0: not known.
    """

    def __init__(self) -> None:
        self.id = bytes(16)
        self.message = 1
        self.first = 1
        self.made_ns = 0
        self._before: list[Given] = []

    def enter(self, life: LifeBegun, stamp: int, end: int) -> bool:
        """A life begins; the last one had that stamp, and gave the ordinals before ``end``.

        Returns:
            Whether the directory was copied since.
        """
        copied = self.copied(life.made_ns)
        self.leave(stamp, end, life.ordinal)
        self.id, self.message = life.id, life.message
        self.made_ns = life.made_ns or self.made_ns
        return copied

    def leave(self, stamp: int, end: int, first: int) -> None:
        """Another stamp begins, with the ordinal ``first``; of the last one the ordinals before
        ``end`` were given."""
        # One that has begun no stream has given nothing.
        if end > self.first:
            self._before = [*self._before[1 - LIVES_MAX :], Given(stamp, self.first, end)]
        self.first = first

    def gave(self, stream: int, stamp: int, end: int) -> bool:
        """Whether one of these lives has given a stream identifier, or one so long ago that it is
        not remembered.

        Args:
            stamp, end: The present stamp, and the ordinal that it gives next.
        """
        high, low = stream >> 32, stream & 0xFFFF_FFFF
        if high == stamp:
            return self.first <= low < end
        before = self._before
        if len(before) == LIVES_MAX and high < before[0].stamp:
            return True
        return any(g.stamp == high and g.first <= low < g.end for g in before)

    def copied(self, made_ns: int) -> bool:
        """Whether a directory that was made then is another one than that of the present life."""
        return 0 < self.made_ns != made_ns > 0

    def dump(self) -> dict[str, Any]:
        """The member of a checkpoint."""
        return {
            "id": self.id, "message": self.message, "first": self.first, "given": self._before,
            "made_ns": self.made_ns,
        }  # fmt: skip

    def load(self, values: dict[str, Any]) -> None:
        """Take the member of a checkpoint."""
        self.id = bytes.fromhex(values["id"])
        self.message, self.first = values["message"], values["first"]
        self.made_ns = values.get("made_ns", 0)
        self._before = [read_row(Given, row) for row in values["given"]]
