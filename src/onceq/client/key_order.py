"""Which message is next, where several workers keep the order of those with the same key.

Messages are looked at without being taken, and remembered by their places. The next one to be taken
is the first whose key no worker has at hand, so that two messages of a key are never at work at
once, and the later one not before the earlier one is gone from its place. So nothing is held but
what is being handled: whatever ends the workers counts against no other message.

Upholds: I5 (order of a key), I24 (bounded memory).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from onceq.model.message import Message

AHEAD: Final = 256
"""Messages that are looked at ahead: where one key has them all, one worker is busy."""

Key = Callable[[Message], Hashable]
"""What messages have in common that are to stay in their order."""


def of_stream(message: Message) -> Hashable:
    """Messages from one queue manager come in one stream (SND-11)."""
    return message.id.source


class KeyOrder:
    """The messages of a queue that were looked at, and those that are at work.

    Attributes:
        after: The place behind which nothing was looked at yet.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._keys: dict[int, Hashable] = {}
        self._busy: dict[int, Hashable] = {}
        self.after = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is known that is still to be done."""
        return not self._keys

    @property
    def full(self) -> bool:
        """Whether there is no room to look at more."""
        return len(self._keys) >= AHEAD

    @property
    def at_work(self) -> int:
        """So many are at work."""
        return len(self._busy)

    def seen(self, messages: Iterable[Message]) -> None:
        """These are in the queue, from ``after`` on."""
        earlier = False
        for message in messages:
            place = message.lookup_id
            if place not in self._keys:
                earlier = earlier or any(place < known for known in self._last())
                self._keys[place] = self._key(message)
            self.after = max(self.after, place)
        if earlier:  # It came back, or has a higher priority.
            self._keys = dict(sorted(self._keys.items()))

    def _last(self) -> list[int]:
        return [next(reversed(self._keys))] if self._keys else []

    def from_the_front(self) -> None:
        """Look at all of the queue again: something may have come back to its place."""
        self.after = 0

    def next(self) -> int | None:
        """The place of the message that can be worked on now; from here on it is at work."""
        taken = set(self._busy.values())
        for place, key in self._keys.items():
            if place in self._busy:
                continue
            if key not in taken:
                self._busy[place] = key
                return place
            # What stands behind it with the same key waits, too.
        return None

    def done(self, place: int, *, gone: bool) -> None:
        """It is not at work any more.

        Args:
            gone: It is not in its place any more; else it is the next of its key once more.
        """
        del self._busy[place]
        if gone:
            del self._keys[place]
