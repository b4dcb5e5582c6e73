"""Named points at which a queue manager can be made to die.

They lie where the product already has doors: around the calls of the store's contract, and where
bytes leave on a connection. So the product's code knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from onceq.model.run import Buffer
from onceq.store.checkpoints import PendingCheckpoint
from onceq.store.log import LogStore

BEFORE_APPEND: Final = "before-append"
"""Something was decided; nothing of it is written."""
AFTER_APPEND: Final = "after-append"
"""A record is in memory, and nowhere else."""
BEFORE_SYNC: Final = "before-sync"
"""Records were handed to the operating system; a power cut may take them."""
AFTER_SYNC: Final = "after-sync"
"""Records are durable; nobody has heard of it."""
BEFORE_CHECKPOINT: Final = "before-checkpoint"
AFTER_CHECKPOINT: Final = "after-checkpoint"
BEFORE_ANSWER: Final = "before-answer"
AFTER_ANSWER: Final = "after-answer"
BEFORE_PACKET: Final = "before-packet"
AFTER_PACKET: Final = "after-packet"
"""Around what is written to an application, and to another queue manager."""
STORE_POINTS: Final = (BEFORE_APPEND, AFTER_APPEND, BEFORE_SYNC, AFTER_SYNC)
CHECKPOINT_POINTS: Final = (BEFORE_CHECKPOINT, AFTER_CHECKPOINT)
WIRE_POINTS: Final = (BEFORE_ANSWER, AFTER_ANSWER, BEFORE_PACKET, AFTER_PACKET)
POINTS: Final = STORE_POINTS + CHECKPOINT_POINTS + WIRE_POINTS


class Points:
    """Which points are armed."""

    def __init__(self, die: Callable[[], None]) -> None:
        """Args:
        die: Ends the queue manager; does not return.
        """
        self._die = die
        self._armed: dict[str, int] = {}

    def arm(self, name: str, count: int = 1) -> None:
        """Die when that point is reached for the ``count``-th time from now."""
        if name not in POINTS or count < 1:
            raise ValueError(f"{name!r} is not one of {', '.join(POINTS)}")
        self._armed[name] = count

    def armed(self, name: str) -> bool:
        """Whether that point waits to be reached."""
        return name in self._armed

    def reach(self, name: str) -> None:
        """This is such a point."""
        left = self._armed.get(name)
        if left is None:
            return
        if left > 1:
            self._armed[name] = left - 1
            return
        del self._armed[name]
        self._die()


class PointedStore(LogStore):
    """The store, with points around what it is asked. Set ``points`` after opening it."""

    points: Points | None = None

    def _reach(self, name: str) -> None:
        if self.points is not None:
            self.points.reach(name)

    def append(self, payload: bytes, head: int = 0) -> int:
        """See Store."""
        self._reach(BEFORE_APPEND)
        position = super().append(payload, head)
        self._reach(AFTER_APPEND)
        return position

    def sync(self) -> None:
        """See Store."""
        if self.points is not None and self.points.armed(BEFORE_SYNC):
            self.flush()  # so that it is written, and only not safe yet
        self._reach(BEFORE_SYNC)
        super().sync()
        self._reach(AFTER_SYNC)

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> PendingCheckpoint:
        """See LogStore."""
        self._reach(BEFORE_CHECKPOINT)
        return super().checkpoint_begin(state, position)

    def checkpoint_install(self, pending: PendingCheckpoint) -> None:
        """See LogStore."""
        super().checkpoint_install(pending)
        self._reach(AFTER_CHECKPOINT)
