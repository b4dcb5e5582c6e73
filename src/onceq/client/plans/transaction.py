"""What applications do in a transaction: sends that its commit makes happen, receives that its
abort undoes.

The state is in ``unit_of_work``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from onceq.client.plans import send as tracking
from onceq.client.plans.plan import Plan
from onceq.client.plans.selection import FIRST, Which, which
from onceq.client.plans.send import MessageTrail
from onceq.client.plans.unit_of_work import SenderTransaction, Unit
from onceq.client.properties import (
    NOTHING,
    BatchProperties,
    Body,
    Nothing,
    SendProperties,
    answering,
    json_bodies,
    json_body,
)
from onceq.errors import TransactionUsage
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.requests.request import kept_failure
from onceq.packet.arrived import Batch


def send(
    unit: Unit, /, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
    **properties: Unpack[SendProperties],
) -> Plan[None]:  # fmt: skip
    """Send one message with the commit; what it takes is as in ``QueueManager.send``."""
    if json is not NOTHING:
        body = json_body(body, json, properties)
    return unit.send(destination, (body,), properties)


def send_many(
    unit: Unit, /, destination: str, bodies: Iterable[Body] | Nothing = NOTHING, *,
    json: Iterable[object] | Nothing = NOTHING, **properties: Unpack[BatchProperties],
) -> Plan[None]:  # fmt: skip
    """Send several messages with the commit, in this order; what it takes is as in
    ``QueueManager.send_many``."""
    if json is not NOTHING:
        bodies = json_bodies(bodies, json, properties)
    return unit.send(destination, bodies, properties)


def send_tracked(
    unit: Unit, /, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
    **properties: Unpack[SendProperties],
) -> Plan[MessageTrail]:  # fmt: skip
    """Send one message with the commit, and follow it to its ends from then on."""
    if json is not NOTHING:
        body = json_body(body, json, properties)
    unit.check_open()
    queue = yield from tracking.tracking_queue(unit.session)
    names = yield from tracking.copies(destination)
    index = unit.total
    yield from unit.send(destination, (body,), tracking.wishes(properties, queue))
    return MessageTrail(unit.session, None, names, unit, index)


def reply(
    unit: Unit, /, message: Message, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
    **properties: Unpack[SendProperties],
) -> Plan[None]:  # fmt: skip
    """Answer a request with the commit: that it was received, what was done because of it and the
    reply happen together, or none of it does.

    Args:
        message: The request, as this transaction has received it.
        body, json, properties: As in ``send``. Times hold for the whole transaction (SND-12).

    Raises:
        InvalidParameter: The message wants no reply.
    """
    if json is not NOTHING:
        body = json_body(body, json, properties)
    values = answering(message, properties)
    return unit.send(message.response_queue, (body,), values)


def hold(
    unit: Unit, queue: str, max: int, *, timeout: float | None, lookup_id: int = 0,
    wanted: Which = FIRST,
) -> Plan[Batch]:  # fmt: skip
    """Take from a queue of any kind, for loops that work one off (for the classes of this
    package and the command line)."""
    return unit.hold(queue, count=max, timeout=timeout, at=lookup_id, wanted=wanted)


def receive(
    unit: Unit,
    queue: str,
    *,
    timeout: float | None = None,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
    allow_peek: bool = False,
    callback: object = None,
) -> Plan[Message]:
    """Take one message; it goes back to its place if the transaction aborts.

    Args:
        timeout, lookup_id, seek, correlation_id, message_id: As in ``QueueManager.receive``.
        allow_peek: Others may look at it until the outcome (RCV-9).
        callback: Refused: a transaction has answers only, no notifications (RCV-11).
    """
    wanted = which(
        lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id,
        allow_peek=allow_peek, callback=callback,
    )  # fmt: skip
    return (yield from unit.receive(queue, count=1, timeout=timeout, wanted=wanted))[0]


def receive_many(
    unit: Unit, queue: str, max: int = 1000, *, timeout: float | None = None
) -> Plan[Batch]:
    """Take at least one message and at most ``max``."""
    return unit.receive(queue, count=max, timeout=timeout)


def receive_transaction(
    unit: Unit,
    queue: str,
    *,
    timeout: float | None = None,
    deadline: float | None = None,
    incomplete: str = "wait",
) -> Plan[SenderTransaction]:
    """Take the messages of one transaction of a sender together, when all have arrived.

    Args:
        timeout: Seconds to wait; None: no limit.
        deadline: Seconds after the arrival of a transaction's first message when what is there of
            it is no longer waited for.
        incomplete: What then: "wait" (go on waiting), "give" (hand out what is there, with
            ``complete`` False), "dead-letter" (refuse it, and keep it in the dead-letter queue of
            this computer, with the commit).

    Raises:
        ReceiveTimeout: None was there entirely in time.
    """
    return unit.receive_transaction(
        queue, timeout=timeout, deadline=deadline, incomplete=incomplete
    )


def remove(unit: Unit, queue: str, first: int, last: int) -> Plan[int]:
    """Take the messages between two lookup identifiers without their bytes; how many."""
    return unit.remove(requests.Remove(queue, 0, first, last))


def reject(unit: Unit, message: Message, why: str = "", *, queue: str | None = None) -> Plan[None]:
    """Refuse a message that this transaction has received (MQMarkMessageRejected).

    At the commit it is gone from the queue, and ends for its sender with class 0xC004: an
    acknowledgment, if it asked for one, and a dead letter, if it wanted that.

    Args:
        why: What is kept with a dead letter of it on this computer (``Message.failure``).
        queue: Where it was received from, if this transaction has received from several.

    Raises:
        TransactionUsage: This transaction does not hold it.
    """
    return unit.reject(message, kept_failure(why), queue)


def move(unit: Unit, message: Message | int, to: str, *, queue: str | None = None) -> Plan[None]:
    """Move a message to a subqueue, or back, with the commit.

    It may be one that this transaction has received: then it is not removed, but moved.

    Args:
        to: As in ``QueueManager.move``.
        queue: Where it is, if it was not received here.

    Raises:
        InvalidParameter, MessageNotFound, MessageLocked.
    """
    return unit.move(message, to, queue)


def peek(unit: Unit, /, queue: str, **options: Any) -> Plan[None]:
    """Raises TransactionUsage: peek has no meaning in a transaction."""
    raise TransactionUsage("peek has no meaning in a transaction (RCV-11)")
