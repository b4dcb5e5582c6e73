"""What happened in a world: a hash of all of it, and the last events as a story.

The hash makes determinism checkable (I27): the same seed gives the same trace, byte for byte, on
any machine and with any hash seed.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

STORY_EVENTS = 80
BLOCK_EVENTS = 256
"""Events whose text goes into the hash together."""


class Violation(Exception):
    """An invariant does not hold; the text names it."""


class Trace:
    """See the module."""

    def __init__(self, *, whole: bool = False) -> None:
        """Begin; ``whole`` keeps the story from its beginning."""
        self._hash = blake2b(digest_size=16)
        self._story: deque[tuple[object, ...]] = deque(maxlen=None if whole else STORY_EVENTS)
        self._block: list[tuple[object, ...]] = []
        self.events = 0

    def note(self, *what: object) -> None:
        """Something happened; only text and whole numbers may be in it."""
        self.events += 1
        block = self._block
        block.append(what)
        if len(block) == BLOCK_EVENTS:
            self._take_in()

    def _take_in(self) -> None:
        self._hash.update("".join(map(repr, self._block)).encode())
        self._story.extend(self._block)
        self._block.clear()

    @property
    def hash(self) -> str:
        """Of everything so far."""
        self._take_in()
        return self._hash.hexdigest()

    def story(self) -> list[str]:
        """The last events, one a line."""
        self._take_in()
        lines = []
        for when, what, *more in self._story:
            assert isinstance(when, int)
            lines.append(f"{when / 1e6:14.6f}s  {what} " + " ".join(map(str, more)))
        return lines
