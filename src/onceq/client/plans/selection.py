"""Which message to receive: by its place, by correlation identifier, by message identifier.

By an identifier is no primitive (RCV-10): the queue is searched by peeking, page by page, and what
was found is received by its place; if somebody else was faster the search goes on. The queue
manager compares, so no body crosses that is not wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from onceq import errors
from onceq.client.link import LinkRequest, Session
from onceq.client.plans.plan import Plan, ask
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.message import CORRELATION_BYTES
from onceq.model.record import Record
from onceq.model.requests import PickBy, Seek
from onceq.packet.arrived import Batch

WAIT_S_MAX: Final = 1e9
"""A longer timeout waits without limit."""
SEEK: Final = {
    "current": Seek.CURRENT,
    "next": Seek.NEXT,
    "previous": Seek.PREV,
    "first": Seek.FIRST,
    "last": Seek.LAST,
}
LOOK_AGAIN_S: Final = (0.25, 0.5, 1.0, 2.0)
"""What is wanted may also come back to a place that was searched already (an abort, or a higher
priority), so that the search starts again after these times."""


class Which(Record, frozen=True):
    """What a receive or peek is about, if not the first message there is."""

    lookup: int = 0
    seek: Seek = Seek.CURRENT
    pick: PickBy = PickBy.NOTHING
    value: bytes = b""
    allow_peek: bool = False


FIRST: Final = Which()
"""The first message there is; nothing else is about that."""


def which(
    *,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
    allow_peek: bool = False,
    callback: object = None,
) -> Which:
    """The options of ``receive`` and ``peek``.

    Raises:
        InvalidParameter: They make no sense, together or alone.
        TransactionUsage: ``callback``: a transaction has answers only, no notifications.
    """
    if callback is not None:
        raise errors.TransactionUsage(
            "a receive in a transaction has no callback (RCV-11); call receive, or await it"
        )
    if seek not in SEEK:
        raise errors.InvalidParameter(f"there is no seek {seek!r}; say one of {', '.join(SEEK)}")
    places = bool(lookup_id) or seek != "current"
    if places + (correlation_id is not None) + (message_id is not None) > 1:
        raise errors.InvalidParameter(
            "say a place, a correlation identifier or a message identifier"
        )
    if correlation_id is not None:
        if len(correlation_id) != CORRELATION_BYTES:
            raise errors.InvalidParameter(f"a correlation identifier has {CORRELATION_BYTES} bytes")
        return Which(pick=PickBy.CORRELATION, value=bytes(correlation_id), allow_peek=allow_peek)
    if message_id is not None:
        try:
            id = MessageId.parse(message_id) if isinstance(message_id, str) else message_id
        except ValueError as error:
            raise errors.InvalidParameter(str(error)) from None
        return Which(pick=PickBy.MESSAGE, value=id.pack(), allow_peek=allow_peek)
    if not places and not allow_peek:
        return FIRST
    return Which(lookup_id, SEEK[seek], allow_peek=allow_peek)


def wait_ms(timeout: float | None) -> int:
    """Seconds to wait as they go into a frame: None and very long are without end.

    Raises:
        InvalidParameter: That is no number of seconds.
    """
    if timeout is None:
        return -1
    if not isinstance(timeout, (int, float)):
        raise errors.InvalidParameter(
            f"a timeout is a number of seconds, or None; not {timeout!r} (of a timedelta take "
            "total_seconds())"
        )
    if timeout >= WAIT_S_MAX:
        return -1
    if not timeout >= 0:
        raise errors.InvalidParameter(
            f"a timeout is a number of seconds from 0, or None, which never ends; not {timeout}"
        )
    return math.ceil(timeout * 1000)


def some(
    session: Session, queue: str, *, count: int, timeout: float | None, transaction: int = 0,
    handle: int = 0, peek: bool = False, after: int = 0, lookup: int = 0, hold: bool = False,
) -> Plan[Batch]:  # fmt: skip
    """Receive or peek: at least one message, at most ``count``."""
    if count < 1:
        raise errors.InvalidParameter(f"cannot receive {count} messages")
    late = None
    if not (transaction or peek):
        late = partial(session.keep, queue)
        kept = session.take(queue, count) if session.late and not lookup else None
        if kept is not None:
            return kept
    request = requests.Receive(
        queue, transaction, min(count, RECEIVE_MESSAGES_MAX), RECEIVE_BYTES, wait_ms(timeout),
        peek, after, lookup, handle, hold=hold,
    )  # fmt: skip
    if late is not None and session.owed.get(queue):
        return (yield from _beside_owed(session, request, count, timeout, late))
    try:
        batch: Batch = yield LinkRequest(request, late=late)
    except errors.AnswerOverdue:
        if late is not None:
            session.owe(queue)
        raise
    return batch


def _beside_owed(
    session: Session, request: requests.Receive, count: int, timeout: float | None,
    late: Callable[[Batch | None], None],
) -> Plan[Batch]:  # fmt: skip
    """Receive while a receive that was given up may still bring messages: they are looked for."""
    until = None if timeout is None else session.clock() + timeout
    while True:
        owed = bool(session.owed.get(request.queue))
        left = math.inf if until is None else max(until - session.clock(), 0.0)
        request.wait_ms = wait_ms(min(left, LOOK_AGAIN_S[0]) if owed else left)
        try:
            batch: Batch = yield LinkRequest(request, late=late)
        except errors.ReceiveTimeout:
            kept = session.take(request.queue, count)
            if kept is not None:
                return kept
            if left <= LOOK_AGAIN_S[0] or not owed:
                raise
        else:
            return batch


def chosen(
    session: Session, queue: str, wanted: Which, *, timeout: float | None, transaction: int = 0,
    handle: int = 0, cursor: int = 0, peek: bool = False, hold: bool = False,
) -> Plan[Batch]:  # fmt: skip
    """One message: the one that is wanted."""
    if wanted is FIRST and not cursor:
        return some(
            session, queue, count=1, timeout=timeout, transaction=transaction, handle=handle,
            peek=peek, hold=hold,
        )  # fmt: skip
    if wanted.pick:
        return _search(
            session, queue, wanted, timeout=timeout, transaction=transaction, handle=handle,
            peek=peek, hold=hold,
        )  # fmt: skip
    late = None if transaction or peek else partial(session.keep, queue)
    request = requests.Receive(
        queue, transaction, 1, RECEIVE_BYTES, wait_ms(timeout), peek, 0, wanted.lookup, handle,
        wanted.seek, cursor, wanted.allow_peek, hold=hold,
    )  # fmt: skip
    return ask(request, Batch, late=late)


def _search(
    session: Session, queue: str, wanted: Which, *, timeout: float | None, transaction: int,
    handle: int, peek: bool, hold: bool,
) -> Plan[Batch]:  # fmt: skip
    until = None if timeout is None else session.clock() + timeout
    rounds = 0
    kept: errors.ReceiveTimeout | None = None
    while True:
        after = 0
        slice_s = LOOK_AGAIN_S[min(rounds, len(LOOK_AGAIN_S) - 1)]
        rounds += 1
        while True:
            left = slice_s if until is None else min(until - session.clock(), slice_s)
            request = requests.Receive(
                queue, 0, RECEIVE_MESSAGES_MAX, RECEIVE_BYTES, wait_ms(max(left, 0.0)), True,
                after, 0, handle, pick=wanted.pick, value=wanted.value,
            )  # fmt: skip
            try:
                found = yield from ask(request, Batch)
            except errors.ReceiveTimeout:
                break
            if not len(found):
                after = found.scanned
                continue
            if peek:
                return found
            try:
                return (
                    yield from _found(
                        session, queue, wanted, found.lookup_ids[0], transaction=transaction,
                        handle=handle, hold=hold,
                    )
                )  # fmt: skip
            except (errors.MessageNotFound, errors.MessageAlreadyReceived):
                after = found.lookup_ids[0]  # Somebody else was faster.
            except errors.ReceiveTimeout as error:
                after, kept = found.lookup_ids[0], error  # An operator has paused the queue.
        if until is not None and session.clock() >= until:
            raise kept or errors.ReceiveTimeout(f"no such message came to {queue} in time")


def _found(
    session: Session, queue: str, wanted: Which, lookup: int, *, transaction: int, handle: int,
    hold: bool,
) -> Plan[Batch]:  # fmt: skip
    """Take what a search has found. The queue manager is told which search that was: a pause keeps
    it then, because nobody has named that message."""
    request = requests.Receive(
        queue, transaction, 1, RECEIVE_BYTES, 0, False, 0, lookup, handle,
        allow_peek=wanted.allow_peek, pick=wanted.pick, value=wanted.value, hold=hold,
    )  # fmt: skip
    return ask(request, Batch, late=None if transaction else partial(session.keep, queue))


def subqueue(queue: str, to: str) -> str:
    """The name of a target: ``;retry`` is a subqueue of the same queue, "" the queue itself."""
    parent = queue.partition(";")[0]
    return parent + to if not to or to.startswith(";") else to


def moved(queue: str, lookup: int, to: str, *, transaction: int = 0) -> Plan[int]:
    """Move a message between a queue and its subqueues; returns its new lookup identifier."""
    request = requests.MoveMessage(queue, subqueue(queue, to), lookup, transaction, 0)
    return (yield from ask(request, int))
