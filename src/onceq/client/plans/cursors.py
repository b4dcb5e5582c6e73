"""Cursors, places in queues that move from message to message (RCV-5 to RCV-7), and what readers do
that look at messages and remove them once they are written elsewhere."""

from __future__ import annotations

import contextlib

from onceq.client.plans import handles
from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan, ask, do, look_at_all, tell
from onceq.client.plans.selection import SEEK, Which, chosen
from onceq.client.plans.unit_of_work import Unit
from onceq.client.session import Session
from onceq.errors import InvalidHandle, OnceqError
from onceq.model import requests
from onceq.model.message import Message
from onceq.model.record import MutableRecord
from onceq.model.views import looks
from onceq.model.views.queues import ReaderView


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


def take(unit: Unit | None, request: requests.TakeRead) -> Plan[int]:
    """Remove what was read; how many messages were there.

    Args:
        unit: With the commit of this unit of work; None: at once and for good.
    """
    return ask(request, int) if unit is None else unit.remove(request)


def renew(handle: Handle, lease_ms: int) -> Plan[None]:
    """Say that one is still there; raises InvalidHandle if the hold is over."""
    return do(requests.RenewHold(handle.number, lease_ms))


def readers(session: Session, queue: str) -> Plan[list[ReaderView]]:
    """Who has read a queue and removed what he had read, the last one first; of all queues if none
    is named."""
    found = yield from look_at_all(session, looks.READERS, queue)
    return sorted(found, key=lambda one: -one.since)


def forget(session: Session, queue: str, reader: str) -> Plan[None]:
    """Forget a reader: the next one with its name starts from the beginning."""
    return do(requests.ForgetReader(queue, reader))
