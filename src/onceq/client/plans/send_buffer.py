"""Messages of a transaction that wait on the application's side until they are shipped.

Neighbours of one kind are put together, so that one by one sent they travel as a batch.
"""

from __future__ import annotations

from typing import Any

from onceq.client.properties import BARE_BYTES
from onceq.client.properties import weight as properties_weight
from onceq.model.message import PLAIN
from onceq.model.requests import SendItem
from onceq.model.run import Buffer, Run


class Gathered:
    """Messages of the same destination, properties and second.

    The bytes of bodies, and of headers of their own, are pieces: they are joined when they are
    wanted.
    """

    __slots__ = ("_bodies", "_headers", "_own", "_run", "destination", "second", "values")

    def __init__(self, destination: str, values: dict[str, Any], second: int, run: Run,
                 own: Run | None) -> None:  # fmt: skip
        self.destination = destination
        self.values = values
        self.second = second
        self._run, self._own = run, own
        self._bodies: list[Buffer] = []
        self._headers: list[Buffer] = []
        """What came after the first."""

    def took(self, destination: str, values: dict[str, Any], second: int, run: Run,
             own: Run | None) -> bool:  # fmt: skip
        """Add more messages if they are of this kind; whether they are."""
        if (
            self.second != second
            or self.destination != destination
            or self.values != values
            or (own is None) != (self._own is None)
        ):
            return False
        self._bodies.append(run.data)
        self._run.lengths.extend(run.lengths)
        if own is not None and self._own is not None:
            self._headers.append(own.data)
            self._own.lengths.extend(own.lengths)
        return True

    def item(self, now: int) -> SendItem:
        """All of them, as a batch."""
        run, own = self._run, self._own
        if self._bodies:
            run.data, self._bodies = b"".join([run.data, *self._bodies]), []
        if own is not None and self._headers:
            own.data, self._headers = b"".join([own.data, *self._headers]), []
        return SendItem(self.destination, PLAIN, run, now - self.second, own, self.values)


def weight(run: Run, own: Run | None, values: dict[str, Any]) -> int:
    """About how many bytes messages take in a frame."""
    size = len(run.data) + (properties_weight(values) if values else BARE_BYTES)
    return size if own is None else size + len(own.data)
