"""Receiving, looking, removing and moving, at once and for good."""

from __future__ import annotations

from onceq.client.plans.plan import Plan, ask
from onceq.client.plans.selection import (
    chosen,
    moved,
    some,
    wait_ms,
    which,
)
from onceq.client.session import Session
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.message import Message, MessageHeaders
from onceq.model.requests import PickBy
from onceq.packet.arrived import Batch
from onceq.packet.survey import split_bodiless


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
