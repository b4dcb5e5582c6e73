"""Receiving, looking, removing and moving, at once and for good.

It also has cursors (RCV-5 to RCV-7), and what readers do that look at messages and remove them once
they are written elsewhere.
"""

from __future__ import annotations

import contextlib

from onceq.client.link import Session
from onceq.client.plans import handles
from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan, ask, do, look_at_all, tell
from onceq.client.plans.selection import SEEK, Which, chosen, moved, some, wait_ms, which
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import InvalidHandle, InvalidParameter, OnceqError
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.message import Message, MessageHeaders
from onceq.model.record import MutableRecord
from onceq.model.requests import PickBy
from onceq.model.views import looks
from onceq.model.views.queues import ReaderView
from onceq.packet.arrived import Batch
from onceq.packet.survey import split_bodiless

# ---- receive -------------------------------------------------------------------------------------


def receive(
    session: Session,
    queue: str,
    *,
    timeout: float | None = None,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
) -> Plan[Message]:
    """Take one message, at once and for good: the first one, or the one that is wanted.

    Args:
        timeout: Seconds to wait for one; None: no limit. By its place a message is there or it is
            not: such a receive never waits (RCV-8).
        lookup_id: Place of the message, or with ``seek`` of one beside it.
        seek: "current"; "next" or "previous" of ``lookup_id``; "first" or "last".
        correlation_id: 20 bytes: the first message that has it.
        message_id: The same by its identifier (MessageId, or its text).

    Raises:
        ReceiveTimeout: There was none in time.
        MessageNotFound: There is none at that place, or a transaction holds it.
        MessageAlreadyReceived: A cursor stands there, and somebody else was faster.
    """
    wanted = which(
        lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
    )
    return (yield from chosen(session, queue, wanted, timeout=timeout))[0]


def peek(
    session: Session,
    queue: str,
    *,
    timeout: float | None = 0.0,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
) -> Plan[Message]:
    """Look at one message: the first one, or chosen as for ``receive``."""
    wanted = which(
        lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
    )
    return (yield from chosen(session, queue, wanted, timeout=timeout, peek=True))[0]


def receive_many(
    session: Session, queue: str, max: int = 1000, *, timeout: float | None = None
) -> Plan[Batch]:
    """Take what is there, at least one message and at most ``max``, at once and for good."""
    return some(session, queue, count=max, timeout=timeout)


def peek_many(
    session: Session, queue: str, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
) -> Plan[Batch]:
    """Look at messages behind the lookup identifier ``after``."""
    return some(session, queue, count=max, timeout=timeout, peek=True, after=after)


def peek_tops(
    session: Session, queue: str, max: int = 1000, *, after: int = 0, size: int = 512
) -> Plan[Batch]:
    """Look at the beginnings of messages, without what makes them large: their bodies.

    Args:
        after: Lookup identifier behind which to look.
        size: Bytes of each packet; what is longer is cut off, and cannot be decoded. With 0 only
            places and times are told.

    Raises:
        ReceiveTimeout: There is none.
    """
    if max < 1 or not 0 <= size < 1 << 32:
        raise InvalidParameter(f"cannot look at {size} bytes of {max} messages")
    request = requests.Receive(
        queue, 0, min(max, RECEIVE_MESSAGES_MAX), RECEIVE_BYTES, 0, True, after, 0, 0,
        pick=PickBy.TOPS, value=size.to_bytes(4, "little"),
    )  # fmt: skip
    return ask(request, Batch)


def peek_headers(
    session: Session, queue: str, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
) -> Plan[list[MessageHeaders]]:
    """Look at messages behind the lookup identifier ``after`` without seeing what they say; the
    right ``peek`` is enough for that.

    Raises:
        ReceiveTimeout: There is none.
    """
    if max < 1:
        raise InvalidParameter(f"cannot look at {max} messages")
    request = requests.Receive(
        queue, 0, min(max, RECEIVE_MESSAGES_MAX), RECEIVE_BYTES, wait_ms(timeout), True, after,
        pick=PickBy.BODILESS,
    )  # fmt: skip
    batch = yield from ask(request, Batch)
    packets, sizes = split_bodiless(batch.run)
    return list(map(MessageHeaders, batch.over(packets), sizes))


def remove(session: Session, queue: str, first: int, last: int) -> Plan[int]:
    """Take a range that was peeked before, at once and for good, without its bytes.

    Args:
        first, last: Lookup identifiers, both included.

    Returns:
        How many messages were there; those that a transaction holds stay.
    """
    return ask(requests.Remove(queue, 0, first, last), int)


def move(session: Session, queue: str, message: Message | int, to: str) -> Plan[int]:
    """Move a message between a queue and its subqueues, at once.

    Args:
        queue: Where it is.
        message: The message, or its lookup identifier.
        to: The target: a name, ``;retry`` for a subqueue of the same queue, or "" for the queue
            itself.

    Returns:
        Its lookup identifier in the target.

    Raises:
        InvalidParameter: They are not parts of one queue.
        MessageNotFound, MessageLocked.
    """
    return moved(queue, message if isinstance(message, int) else message.lookup_id, to)


# ---- cursors -------------------------------------------------------------------------------------
#
# Cursors, places in queues that move from message to message (RCV-5 to RCV-7), and what readers do
# that look at messages and remove them once they are written elsewhere.


class CursorPlace(MutableRecord):
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


def of_handle(handle: Handle) -> Plan[CursorPlace]:
    """A cursor of an open queue."""
    return CursorPlace(handle, (yield from ask(requests.OpenCursor(handle.number), int)))


def cursor(session: Session, queue: str, *, access: str = "receive") -> Plan[CursorPlace]:
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


def peek_current(place: CursorPlace, *, timeout: float | None = 0.0) -> Plan[Message]:
    """Look at the message that it stands at; first of all at the first one."""
    return place.looking("current", timeout)


def peek_next(place: CursorPlace, *, timeout: float | None = 0.0) -> Plan[Message]:
    """Go on to the next message."""
    return place.looking("next", timeout)


def peek_previous(place: CursorPlace) -> Plan[Message]:
    """Go back to the message before; raises MessageNotFound."""
    return place.looking("previous", 0.0)


def peek_first(place: CursorPlace) -> Plan[Message]:
    """Go to the first message; raises MessageNotFound."""
    return place.looking("first", 0.0)


def peek_last(place: CursorPlace) -> Plan[Message]:
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
    """List the readers that have removed messages of a queue after reading them, the last one
    first; those of all queues if none is named."""
    found = yield from look_at_all(session, looks.READERS, queue)
    return sorted(found, key=lambda one: -one.since)


def forget(session: Session, queue: str, reader: str) -> Plan[None]:
    """Forget a reader: the next one with its name starts from the beginning."""
    return do(requests.ForgetReader(queue, reader))
