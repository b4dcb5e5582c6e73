"""Who has queues open, waits for messages, or stands at a place in a queue.

Running tables, written by the room ``receive``: they end with the process of this manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from onceq.core.state.queues import Handle, Queue
from onceq.model.requests import Receive
from onceq.model.shares import OwnerCounts

K = TypeVar("K")


@dataclass(slots=True)
class Cursor:
    """A place in a queue: lookup identifier of the message that it stands at, or of the one that
    was received through it; 0 and 0: fresh."""

    owner: int
    queue: int
    handle: int
    at: int = 0
    behind: int = 0
    by: str = ""
    """Whose it is (``Step.known_by``), also if its owner is somebody else by now."""


class Readers:
    """See the module."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], Receive] = {}
        """By owner and request: receives that wait for a message."""
        self._at: dict[tuple[int, int], tuple[Queue, str]] = {}
        """The queue that each of them waits at, and who waits (``Step.known_by``)."""
        self.waits_by, self.handles_by, self.cursors_by = (
            OwnerCounts(),
            OwnerCounts(),
            OwnerCounts(),
        )
        """Whose receives, handles and cursors these are."""
        self.through: dict[int, dict[tuple[int, int], None]] = {}
        """Those that wait through a handle."""
        self.of: dict[int, dict[tuple[int, int], None]] = {}
        """Those of an owner."""
        self.handles: dict[int, Handle] = {}
        self.handles_of: dict[int, dict[int, None]] = {}
        """Those of an owner."""
        self.cursors: dict[int, Cursor] = {}
        self.timers_kept = 0
        """Timers that were left when those of receives that are over were taken out."""
        self.next_handle = 1
        """Number of the next handle or cursor."""
        self.retries: dict[int, int] = {}
        """When (monotonic us) the next message of a queue has waited long enough in ``;retry``."""

    def opened(self, handle: Handle) -> None:
        """A queue is held open; the handle has the next number."""
        number = self.next_handle
        self.handles[number] = handle
        self.handles_of.setdefault(handle.owner, {})[number] = None
        self.handles_by.add(handle.by)
        self.next_handle = number + 1

    def closed(self, number: int) -> Handle:
        """A handle is given up."""
        handle = self.handles.pop(number)
        _drop(self.handles_of, handle.owner, number)
        self.handles_by.drop(handle.by)
        for cursor in list(handle.cursors):
            self.taken_away(cursor)
        return handle

    def placed(self, cursor: Cursor) -> int:
        """A cursor is made; its number."""
        number = self.next_handle
        self.cursors[number] = cursor
        self.handles[cursor.handle].cursors[number] = None
        self.cursors_by.add(cursor.by)
        self.next_handle = number + 1
        return number

    def taken_away(self, number: int) -> None:
        """A cursor is given up."""
        cursor = self.cursors.pop(number)
        held = self.handles.get(cursor.handle)
        if held is not None:
            del held.cursors[number]
        self.cursors_by.drop(cursor.by)

    def wait(self, queue: Queue, item: Receive, by: str) -> None:
        """A receive waits at a queue, behind all others.

        Args:
            by: Who waits (``Step.known_by``).
        """
        key = (item.owner, item.request)
        self.waiting[key] = queue.waiting[key] = item
        if item.peek:
            queue.looking[key] = item
        if item.handle:
            self.through.setdefault(item.handle, {})[key] = None
        self.of.setdefault(item.owner, {})[key] = None
        self._at[key] = queue, by
        self.waits_by.add(by)

    def queue_of(self, key: tuple[int, int]) -> Queue:
        """The queue that a receive waits at."""
        return self._at[key][0]

    def leave(self, key: tuple[int, int]) -> Receive | None:
        """A receive waits no longer; None if it did not.

        Its queue must forget it as well: nothing may come into it for years, while readers try
        again every second.
        """
        item = self.waiting.pop(key, None)
        if item is not None:
            queue, by = self._at.pop(key)
            self.waits_by.drop(by)
            del queue.waiting[key]
            queue.looking.pop(key, None)
            _drop(self.of, item.owner, key)
            if item.handle:
                _drop(self.through, item.handle, key)
        return item


def _drop(table: dict[int, dict[K, None]], one: int, key: K) -> None:
    """Forget an entry of somebody, and him with the last one."""
    entries = table[one]
    del entries[key]
    if not entries:
        del table[one]
