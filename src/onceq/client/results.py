"""Identifiers of messages that were sent together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from onceq.model.identity import MessageId


class MessageIds(Sequence[MessageId]):
    """Identifiers of messages that were sent together, in order: ranges of numbers."""

    __slots__ = ("_count", "_ranges", "_source")

    def __init__(self, source: bytes, first: int = 0, count: int = 0) -> None:
        self._source = source
        self._ranges = [(first, count)] if count else []
        self._count = count

    def add(self, first: int, count: int) -> None:
        """More of them (a batch that was sent in several parts)."""
        if count:
            self._ranges.append((first, count))
            self._count += count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if 0 <= index < self._count:
            for first, count in self._ranges:
                if index < count:
                    return MessageId(self._source, first + index)
                index -= count
        raise IndexError(index)

    def __repr__(self) -> str:
        first = f" from {self._ranges[0][0]}" if self._ranges else ""
        return f"<{self._count} message identifiers{first}>"
