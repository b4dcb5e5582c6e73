"""Messages of a transaction that wait on the application's side until they are shipped.

Neighbours of one kind are put together, so that one by one sent they travel as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onceq.model.record import field
from onceq.model.requests import SendItem
from onceq.model.run import Buffer, Run


class Gathered(SendItem):
    """A batch that grows by messages of the same destination, properties and second.

    The bytes of bodies, and of headers of their own, are pieces: they are joined when they are
    wanted.

    Attributes:
        second: In which they were sent.
    """

    second: int = 0
    _bodies: list[Buffer] = field(default_factory=list)
    _headers: list[Buffer] = field(default_factory=list)
    """What came after the first."""

    def took(self, destination: str, values: dict[str, Any], second: int, run: Run,
             own: Run | None) -> bool:  # fmt: skip
        """Add more messages if they are of this kind; whether they are."""
        if (
            self.second != second
            or self.destination != destination
            or self.values != values
            or (own is None) != (self.own is None)
        ):
            return False
        self._bodies.append(run.data)
        self.bodies.lengths.extend(run.lengths)
        if own is not None and self.own is not None:
            self._headers.append(own.data)
            self.own.lengths.extend(own.lengths)
        return True


def offered(gathered: list[Gathered], clock: Callable[[], float]) -> list[Gathered]:
    """What was gathered, for a frame: whole, and as old as it is now."""
    now = int(clock()) if gathered else 0
    for item in gathered:
        item.age_s = now - item.second
        if item._bodies:
            item.bodies.data = b"".join([item.bodies.data, *item._bodies])
            item._bodies = []
        if item._headers and item.own is not None:
            item.own.data = b"".join([item.own.data, *item._headers])
            item._headers = []
    return gathered


def named(items: Sequence[SendItem]) -> str:
    """Where gathered sends go, for an error of one of them: the queue manager names it better."""
    names = dict.fromkeys(item.destination for item in items)
    return next(iter(names)) if len(names) == 1 else "one of " + ", ".join(names)
