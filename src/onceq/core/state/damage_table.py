"""Messages that are damaged: what was set aside, where it came from, and when.

A durable table of ``State``, changed by ``apply`` only; the rules are in
``core/management/damage.py``. What still has a place in the log stands in the hidden queue DAMAGED,
so that its part of the log is kept and can be looked at; an entry says where those messages were.

Bounded by the damage of the disk: one entry for each run of neighbours. No remote party makes any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from onceq.core.state.rows import read_fields
from onceq.core.state.setups import FoundDamaged
from onceq.model.record import MutableRecord


class Damage(MutableRecord):
    """Neighbouring messages that were set aside together.

    Attributes:
        number: For operators.
        queue: Title of the queue, or name of the outgoing queue, that they were in.
        lookup: Lookup identifier of the first.
        first: Counter of the first in DAMAGED; 0: they have no place there (they had left their
            queue before anybody looked at their bytes).
        at_s: When, in seconds since 1970.
        reason: Class with which they ended in an outgoing queue; 0 in others.
    """

    number: int
    queue: str
    lookup: int
    count: int
    first: int
    bytes: int
    address: int
    at_s: int
    reason: int = 0


class Damages:
    """All that was set aside and not dropped yet."""

    def __init__(self) -> None:
        self._entries: dict[int, Damage] = {}
        self.next_number = 1

    def __iter__(self) -> Iterator[Damage]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def apply(self, setup: FoundDamaged) -> None:
        """Apply a setup."""
        self.add(
            setup.queue, setup.lookup, 1, first=0, bytes=setup.bytes, address=setup.address,
            at_s=setup.at_s,
        )  # fmt: skip

    def add(
        self, queue: str, lookup: int, count: int, *, first: int, bytes: int, address: int,
        at_s: int, reason: int = 0,
    ) -> None:  # fmt: skip
        """One more run; neighbours of the last one join it."""
        last = self._entries.get(self.next_number - 1)
        if (
            last is not None
            and (last.queue, last.reason) == (queue, reason)
            and last.lookup + last.count == lookup
            and (last.first + last.count == first if last.first else not first)
        ):
            last.count += count
            last.bytes += bytes
            return
        self._entries[self.next_number] = Damage(
            self.next_number, queue, lookup, count, first, bytes, address, at_s, reason
        )
        self.next_number += 1

    def get(self, number: int) -> Damage | None:
        """The entry with a number."""
        return self._entries.get(number)

    def drop(self, number: int) -> None:
        """Forget an entry."""
        del self._entries[number]

    def dump(self) -> dict[str, Any]:
        """The member of a checkpoint, in which entries have names for their fields."""
        return {"next": self.next_number, "entries": [asdict(entry) for entry in self]}

    def load(self, values: dict[str, Any]) -> None:
        """Take the member of a checkpoint."""
        self.next_number = values.get("next", 1)
        for entry in values.get("entries", ()):
            damage = read_fields(Damage, entry)
            self._entries[damage.number] = damage
