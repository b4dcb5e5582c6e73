"""Messages of a transaction that wait on the application's side until they are shipped.

Neighbours of one kind are put together, so that one by one sent they travel as a batch.
"""

from __future__ import annotations

from typing import Any

from onceq.client.properties import weight as properties_weight
from onceq.model.message import PLAIN
from onceq.model.requests import SendItem
from onceq.model.run import Buffer, Run


class _Pile:
    """Runs one behind another, joined when they are wanted."""

    __slots__ = ("lengths", "pieces")

    def __init__(self, run: Run) -> None:
        self.pieces: list[Buffer] = [run.data]
        self.lengths = run.lengths

    def add(self, run: Run) -> None:
        """One more."""
        self.pieces.append(run.data)
        self.lengths += run.lengths

    def run(self) -> Run:
        """All of them."""
        if len(self.pieces) > 1:
            self.pieces = [b"".join(self.pieces)]
        return Run(self.pieces[0], self.lengths)


class Gathered:
    """Messages of the same destination, properties and second."""

    __slots__ = ("bodies", "destination", "own", "second", "values")

    def __init__(self, destination: str, values: dict[str, Any], second: int, run: Run,
                 own: Run | None) -> None:  # fmt: skip
        self.destination = destination
        self.values = values
        self.second = second
        self.bodies = _Pile(run)
        self.own = None if own is None else _Pile(own)

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
        self.bodies.add(run)
        if own is not None and self.own is not None:
            self.own.add(own)
        return True

    def item(self, now: int) -> SendItem:
        """All of them, as a batch."""
        own = None if self.own is None else self.own.run()
        return SendItem(
            self.destination, PLAIN, self.bodies.run(), now - self.second, own, self.values
        )


def weight(run: Run, own: Run | None, values: dict[str, Any]) -> int:
    """About how many bytes messages take in a frame."""
    return len(run.data) + properties_weight(values) + (0 if own is None else len(own.data))
