"""Cursors: positions in a queue that move from message to message (RCV-5 to RCV-7, case 110).

A cursor is fresh, is at a message, or is behind one that was received through it. It belongs to the
handle that it was made with, and to the running process.
"""

from __future__ import annotations

from onceq.core.receive import lookup
from onceq.core.receive.lookup import Place
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import AnyQueue, lookup_id, place_of
from onceq.core.step.readers import Cursor
from onceq.core.step.step import Step
from onceq.core.step.step import check as check_share
from onceq.errors import (
    IllegalCursorAction,
    InvalidHandle,
    InvalidParameter,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueDeleted,
)
from onceq.model.requests import Access, CloseCursor, OpenCursor, Receive, Seek
from onceq.model.shares import Thing


def open_cursor(step: Step, item: OpenCursor) -> None:
    """Make a cursor at a queue that is held open."""
    held = step.readers.handles.get(item.handle)
    if held is None or held.owner != item.owner:
        raise InvalidHandle("the queue is not open, or was closed")
    if held.deleted:
        raise QueueDeleted("the queue was deleted meanwhile; close it")
    if held.access not in (Access.RECEIVE, Access.PEEK):
        raise InvalidHandle("a cursor needs a queue that is open for receive or peek")
    by = step.known_by(item.owner)
    check_share(step, by, Thing.CURSORS, step.readers.cursors_by)
    number = step.readers.placed(Cursor(item.owner, held.queue, item.handle, by=by))
    step.answer(item.owner, item.request, number)


def close_cursor(step: Step, item: CloseCursor) -> None:
    """Close a cursor."""
    find_cursor(step, item.owner, item.cursor)
    step.readers.taken_away(item.cursor)
    step.answer(item.owner, item.request, None)


def find_cursor(step: Step, owner: int, number: int) -> Cursor:
    """Return a cursor of this owner; raises InvalidHandle."""
    cursor = step.readers.cursors.get(number)
    if cursor is None or cursor.owner != owner:
        raise InvalidHandle("there is no such cursor: it was closed, or its queue was")
    return cursor


def check(step: Step, item: Receive, queue: AnyQueue) -> None:
    """Refuse what a cursor cannot do now, or ever."""
    cursor = find_cursor(step, item.owner, item.cursor)
    if cursor.queue != queue.number or (item.handle and item.handle != cursor.handle):
        raise InvalidHandle("the cursor belongs to another queue")
    if not item.peek and item.seek is not Seek.CURRENT:
        raise InvalidParameter("a cursor receives its current message only")
    if item.seek in (Seek.NEXT, Seek.PREV) and not (cursor.at or cursor.behind):
        raise IllegalCursorAction("peek at the current message of this cursor before the next one")


def place(step: Step, item: Receive, queue: AnyQueue) -> Place | None:
    """Return the message that a receive through a cursor means; None if there is none yet."""
    cursor = find_cursor(step, item.owner, item.cursor)
    stands = cursor.at or cursor.behind
    if item.seek is Seek.CURRENT:
        if not cursor.at:
            return lookup.behind(queue, stands or -1, peek=item.peek)
        index, counter = place_of(cursor.at)
        lane = queue.lanes.get(index)
        seen = (index, counter) in lookup.visible(queue, peek=item.peek)
        if not seen and (lane is None or lane.state(counter) != AVAILABLE):
            raise MessageAlreadyReceived(
                "the current message of this cursor is gone; go on with the next"
            )
        return index, counter, 1
    found = lookup.find(queue, item.seek, stands, peek=item.peek)
    if found is None and item.seek is not Seek.NEXT:
        raise MessageNotFound("there is no message before this one" if stands else "it is empty")
    return found


def stand(step: Step, item: Receive, found: Place) -> None:
    """Move a cursor to the message that was handed out through it, or behind that."""
    cursor = step.readers.cursors[item.cursor]
    lookup = lookup_id(found[0], found[1])
    # A received message is gone: the cursor has no current message, only a position to start from.
    cursor.at, cursor.behind = (lookup, 0) if item.peek else (0, lookup)


def referenced(step: Step, queue: AnyQueue, lookup: int) -> bool:
    """Return whether a cursor is at that message (RCV-8)."""
    return any(c.at == lookup and c.queue == queue.number for c in step.readers.cursors.values())
