"""A session of a queue manager with itself: each side hears in a later pump what the other has
said.

It carries messages that wait in an outgoing queue under a name that has become one of this computer
since. They were sent before anything that is sent to the queue here by now, and arrive before that
(``core/names/resolve.py``). It needs no network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from onceq.model.run import Buffer

ADDRESS: Final = "this queue manager"


@dataclass(eq=False, slots=True)
class End:
    """One side, as sessions use a connection.

    Attributes:
        said: What was said, and to whom; None: that side has closed.
        number: Of its session.
        other: The other side; None: it is closed.
    """

    said: deque[tuple[End, bytes | None]]
    number: int = 0
    other: End | None = None

    @property
    def writable(self) -> bool:
        """Return True if there is room for more output."""
        return not self.said

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Queue bytes for the other side."""
        if self.other is not None:
            self.said.append((self.other, b"".join(pieces)))

    def close(self) -> None:
        """Close both sides; the other one hears of it in a later pump."""
        other, self.other = self.other, None
        if other is not None:
            other.other = None
            self.said.append((other, None))


def hand_on(
    said: deque[tuple[End, bytes | None]],
    hear: Callable[[int, bytes], None],
    gone: Callable[[int, str], None],
) -> None:
    """Deliver what was said until now; the answers wait for the next call."""
    for _ in range(len(said)):
        end, data = said.popleft()
        if data is None:
            gone(end.number, "the other side has closed")
        else:
            hear(end.number, data)


def ends(said: deque[tuple[End, bytes | None]]) -> tuple[End, End]:
    """Return both sides of a session."""
    one, other = End(said), End(said)
    one.other, other.other = other, one
    return one, other
