"""Messages that are sent at once, by one call: as they are, or each call as one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from onceq.client.link import Request
from onceq.client.plans.handles import know_destination
from onceq.client.plans.plan import Plan, ask
from onceq.client.plans.unit_of_work import Unit, not_committed
from onceq.client.properties import (
    NOTHING,
    BatchProperties,
    Bodies,
    Body,
    Nothing,
    SendProperties,
    json_bodies,
    json_body,
    parted,
    parts,
    run_of,
)
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.errors import InvalidParameter, OnceqError, OperationCancelled, WrongQueueKind
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.message import PLAIN, Delivery
from onceq.model.requests import SendItem
from onceq.model.results import Sent
from onceq.model.run import Run


def send(
    session: Session, /, destination: str, body: Body | Nothing = NOTHING, *,
    json: object = NOTHING, transactional: bool | None = None, **properties: Unpack[SendProperties],
) -> Plan[MessageId]:  # fmt: skip
    """Send one message now.

    Args:
        destination: Format name of one or more elements, or a path name.
        body: Bytes, or text that is sent as UTF-8.
        json: In place of a body a value that becomes one: JSON, and its body type says so
            (``Message.json``).
        transactional: True: as a transaction of its own (MQ_SINGLE_MESSAGE); False: outside of
            any. None: as the queues of this manager that it goes to take it (Q-4); where it goes
            to others alone, in a transaction, unless its delivery is express.
        properties: label, priority, delivery, journal, acknowledge, correlation_id,
            time_to_reach_queue, ... (``onceq.Properties``).

    Returns:
        Its identifier, once it is durable.

    Raises:
        WrongQueueKind: A queue of this manager does not take what is sent so.
    """
    if json is not NOTHING:
        body = json_body(body, json, properties)
    return (yield from _send(session, destination, (body,), properties, transactional))[0]


def send_many(
    session: Session, /, destination: str, bodies: Iterable[Body] | Nothing = NOTHING, *,
    json: Iterable[object] | Nothing = NOTHING, transactional: bool | None = None,
    **properties: Unpack[BatchProperties],
) -> Plan[MessageIds]:  # fmt: skip
    """Send a batch now: all or none if it is sent in a transaction (``transactional``).

    Args:
        destination, transactional, properties: As in ``send``; label, correlation_id,
            app_specific, body_type, extension and traceparent may be lists, with a value for each
            message.
        bodies: Bytes or texts.
        json: In place of bodies values that become JSON.
    """
    if json is not NOTHING:
        bodies = json_bodies(bodies, json, properties)
    return _send(session, destination, bodies, properties, transactional)


def _send(
    session: Session, destination: str, bodies: Bodies,
    properties: Mapping[str, Any], transactional: bool | None,
) -> Plan[MessageIds]:  # fmt: skip
    if not isinstance(destination, str):
        raise InvalidParameter(f"a destination is a name, not {destination!r}")
    if transactional is not None and not isinstance(transactional, bool):
        raise InvalidParameter(f"transactional is True, False or None, not {transactional!r}")
    run = run_of(bodies)
    values, own = parted(properties, len(run))
    if transactional is not None:
        return _send_as(session, destination, run, values, own, transactional)
    return _send_fitting(session, destination, run, values, own)


def _send_fitting(
    session: Session, destination: str, run: Run, values: dict[str, Any], own: Run | None
) -> Plan[MessageIds]:  # fmt: skip
    """Send what the queues there take."""
    known = destination in session.destinations
    kind = yield from kind_of_send(session, destination, values)
    try:
        return (yield from _send_as(session, destination, run, values, own, kind))
    except WrongQueueKind:
        if not known:
            raise
    # Nothing was sent: another queue has the name that this session knew.
    session.destinations.pop(destination, None)
    kind = yield from kind_of_send(session, destination, values)
    return (yield from _send_as(session, destination, run, values, own, kind))


def kind_of_send(session: Session, destination: str, values: Mapping[str, Any]) -> Plan[bool]:
    """Whether a send for which nothing was said is transactional (Q-4): as the queues of this
    manager take it, and in a transaction elsewhere, unless it is express.

    Raises:
        WrongQueueKind: No send reaches all its queues.
    """
    kind = yield from know_destination(session, destination)
    return values.get("delivery") != Delivery.EXPRESS if kind is None else kind


def _send_as(
    session: Session, destination: str, run: Run, values: dict[str, Any], own: Run | None,
    transactional: bool,
) -> Plan[MessageIds]:  # fmt: skip
    pieces = list(parts(run, own)) if len(run) else []
    # Several frames are one transaction only if they are sent in one.
    if transactional and len(pieces) > 1:
        unit = Unit(session)
        try:
            yield from unit.add_apart(destination, run, values, own)
            return (yield from unit.commit())
        except OnceqError:
            if not unit.over:
                yield from unit.abort()
            raise
    ids = MessageIds(session.source)
    for piece, heads in pieces:
        item = SendItem(destination, PLAIN, piece, own=heads, values=values)
        if transactional:
            sent = yield from _commit(session, item)
        else:
            sent = yield from _put(session, item, ids)
        ids.add(sent.first_message, sent.messages)
    return ids


def _put(session: Session, item: SendItem, before: MessageIds) -> Plan[Sent]:
    """A batch outside of any transaction."""
    try:
        return (yield from ask(requests.Send(0, [item]), Sent))
    except WrongQueueKind as error:
        if not len(before):
            raise
        raise OperationCancelled(
            f"{len(before)} messages of this batch were sent, and the others were not: the queue "
            f"was made anew meanwhile ({error.text})"
        ) from error


def _commit(session: Session, item: SendItem) -> Plan[Sent]:
    """A batch as a transaction of its own."""
    id = session.next_commit()
    try:
        sent: Sent = yield Request(requests.Commit(0, [item], id))
    except OnceqError as error:
        not_committed(session, id, error)
        raise
    session.used = session.clock()
    return sent
