"""Cursors: places in queues that move from message to message (RCV-5 to RCV-7)."""

from __future__ import annotations

import contextlib

from onceq.client.plans import handles
from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan, ask, tell
from onceq.client.plans.selection import SEEK, Which, chosen
from onceq.client.plans.unit_of_work import Unit
from onceq.client.session import Session
from onceq.errors import InvalidHandle, OnceqError
from onceq.model import requests
from onceq.model.message import Message
from onceq.model.record import MutableRecord


class Place(MutableRecord):
    """Where a cursor is.

    Attributes:
        number: Of the cursor; 0 once it was closed.
    """

    handle: Handle
    number: int

    def looking(self, seek: str, timeout: float | None, *, peek: bool = True) -> Plan[Message]:
        """Move, and look at or take the message there."""
        handle = self.handle
        if not self.number:
            raise InvalidHandle(f"this cursor of {handle.name} was closed")
        plan = chosen(
            handle.session, handle.name, Which(seek=SEEK[seek]), timeout=timeout,
            handle=handle.number, cursor=self.number, peek=peek,
        )  # fmt: skip
        return (yield from plan)[0]

    def taking(self, unit: Unit, timeout: float | None) -> Plan[Message]:
        """Take the message that it stands at in a transaction."""
        handle = self.handle
        plan = unit.receive(
            handle.name, count=1, timeout=timeout, handle=handle.number, cursor=self.number
        )
        return (yield from plan)[0]

    def closing(self) -> Plan[None]:
        """Give it back."""
        number, self.number = self.number, 0
        if number:
            with contextlib.suppress(OnceqError):
                yield from tell(requests.CloseCursor(number))


def of_handle(handle: Handle) -> Plan[Place]:
    """A cursor of an open queue."""
    return Place(handle, (yield from ask(requests.OpenCursor(handle.number), int)))


def cursor(session: Session, queue: str, *, access: str = "receive") -> Plan[Place]:
    """A cursor of its own: the queue is open as long as the cursor.

    Args:
        access: "receive", or "peek" for one that only looks.
    """
    handle = yield from handles.open_queue(session, queue, access=access)
    try:
        return (yield from of_handle(handle))
    except GeneratorExit:
        raise
    except BaseException:
        yield from handles.close(handle)
        raise


def peek_current(place: Place, *, timeout: float | None = 0.0) -> Plan[Message]:
    """Look at the message that it stands at; first of all at the first one."""
    return place.looking("current", timeout)


def peek_next(place: Place, *, timeout: float | None = 0.0) -> Plan[Message]:
    """Go on to the next message."""
    return place.looking("next", timeout)


def peek_previous(place: Place) -> Plan[Message]:
    """Go back to the message before; raises MessageNotFound."""
    return place.looking("previous", 0.0)


def peek_first(place: Place) -> Plan[Message]:
    """Go to the first message; raises MessageNotFound."""
    return place.looking("first", 0.0)


def peek_last(place: Place) -> Plan[Message]:
    """Go to the last message; raises MessageNotFound."""
    return place.looking("last", 0.0)
