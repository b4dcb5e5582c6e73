"""Messages that are sent at once, by one call: as they are, or each call as one transaction.

It also tells what became of a message, copy by copy. A tracked message asks for every
acknowledgment, to a queue of the sending manager; nothing is kept in the application.

Upholds: I13 as far as an application can see it: what is told is what an acknowledgment, a dead
letter or an outgoing queue says, and where none of them says anything, that is what is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, Unpack

from onceq import errors
from onceq.client.link import LinkRequest, Session
from onceq.client.plans.handles import know_destination
from onceq.client.plans.plan import Plan, ask, do, look_at, look_at_all, within
from onceq.client.plans.selection import wait_ms
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
from onceq.client.why import why
from onceq.model import limits, requests
from onceq.model.addresses import HERE
from onceq.model.identity import MessageId
from onceq.model.letters import ENDS
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Message
from onceq.model.queue import TRACKING_QUEUE
from onceq.model.record import MutableRecord, Record
from onceq.model.requests import PickBy, SendItem
from onceq.model.results import Sent
from onceq.model.run import Run
from onceq.model.views import looks
from onceq.model.views.queues import OutgoingView
from onceq.packet.arrived import Batch

# ---- send ----------------------------------------------------------------------------------------


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
        raise errors.InvalidParameter(f"a destination is a name, not {destination!r}")
    if transactional is not None and not isinstance(transactional, bool):
        raise errors.InvalidParameter(
            f"transactional is True, False or None, not {transactional!r}"
        )
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
    except errors.WrongQueueKind:
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
        except errors.OnceqError:
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
    except errors.WrongQueueKind as error:
        if not len(before):
            raise
        raise errors.OperationCancelled(
            f"{len(before)} messages of this batch were sent, and the others were not: the queue "
            f"was deleted and created again meanwhile ({error.text})"
        ) from error


def _commit(session: Session, item: SendItem) -> Plan[Sent]:
    """A batch as a transaction of its own."""
    id = session.next_commit()
    try:
        sent: Sent = yield LinkRequest(requests.Commit(0, [item], id))
    except errors.OnceqError as error:
        not_committed(session, id, error)
        raise
    session.used = session.clock()
    return sent


# ---- tracking ------------------------------------------------------------------------------------
#
# What became of one message, copy by copy: `send_tracked`, `track`, `onceq outcome`.


QUEUE: Final = f"private$\\{TRACKING_QUEUE}"
DEAD_LETTERS: Final = ("SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER")
SLICE_S: Final = 1.0
"""Dead letters come without an acknowledgment: a wait looks for them so often."""

UNSETTLED: Final = frozenset(("waiting", "left", "arrived", "in doubt"))


class Ending(Record, frozen=True):
    """What became of one copy of a message.

    Attributes:
        destination: Format name of its queue.
        state: waiting (in its outgoing queue), left (transmitted; nothing was heard), arrived,
            received, expired, refused, rejected, purged, deleted, removed, set aside, or in doubt.
        text: The same in a sentence, with the reason.
        message_class: Of the acknowledgment or dead letter that says so; 0: none does.
        at: When that was made, in seconds since 1970 by its manager's clock; 0: none was.
    """

    destination: str
    state: str
    text: str
    message_class: int = 0
    at: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing else can become of it. In doubt is not settled: it may be yet."""
        return self.state not in UNSETTLED


# ---- asking for it ---------------------------------------------------------------------------


def wishes(values: Mapping[str, Any], queue: str) -> dict[str, Any]:
    """The properties of a message that is to be tracked.

    Raises:
        InvalidParameter: It asks for acknowledgments of its own.
    """
    for name in ("acknowledge", "admin_queue"):
        if values.get(name):
            raise errors.InvalidParameter(
                f"send_tracked asks for every acknowledgment itself; leave {name} out, or ask for "
                "acknowledgments and read them yourself"
            )
    journal = Journal(values.get("journal") or 0) | Journal.DEADLETTER
    return {**values, "acknowledge": Acknowledge(15), "admin_queue": queue, "journal": journal}


def tracking_queue(session: Session) -> Plan[str]:
    """Where the acknowledgments of tracked messages come; made if it is not there.

    Returns:
        Its format name.
    """
    if not session.tracking:
        session.tracking = yield from _prepare(session)
    return session.tracking


def _prepare(session: Session) -> Plan[str]:
    """Make a queue for acknowledgments if there is none; return its format name.

    What is older than TRACKING_AGE_S is removed from it on this occasion.
    """
    try:
        found = yield from look_at(looks.QUEUE, QUEUE)
    except errors.QueueNotFound:
        request = requests.CreateQueue(
            {"name": QUEUE.partition("\\")[2], "label": "what became of tracked messages",
             "quota_kb": limits.TRACKING_QUOTA_KB}
        )  # fmt: skip
        with suppress(errors.QueueExists):  # another one of this application has made it meanwhile
            yield from do(request)
        found = yield from look_at(looks.QUEUE, QUEUE)
    yield from remove_older(QUEUE, session.now_s() - limits.TRACKING_AGE_S)
    return found.format_name


def remove_older(queue: str, before_s: int) -> Plan[None]:
    """Remove the first messages of a queue, as long as they came before that second."""
    while True:
        request = requests.Receive(
            queue, 0, limits.RECEIVE_MESSAGES_MAX, limits.RECEIVE_BYTES, 0, True, 0, 0, 0
        )
        try:
            batch = yield from ask(request, Batch)
        except errors.ReceiveTimeout:
            return
        old = sum(1 for _ in takewhile(lambda came: came < before_s, batch.arrived_times))
        if not old:
            return
        yield from do(requests.Remove(queue, 0, batch.lookup_ids[0], batch.lookup_ids[old - 1]))


def copies(destination: str) -> Plan[tuple[str, ...]]:
    """The names of the queues that a send to a destination goes to."""
    return tuple((yield from look_at(looks.COPIES, destination)))


# ---- looking ---------------------------------------------------------------------------------


def endings(
    session: Session, id: MessageId, expected: Sequence[str]
) -> Plan[tuple[Ending, ...]]:  # fmt: skip
    """What became of a message.

    Args:
        expected: Where it was sent to; (): what can be found out.

    Returns:
        An Ending for each copy, in the order of their names.
    """
    told: dict[str, Ending] = {}
    for ack in (yield from found_by(QUEUE, PickBy.CORRELATION, id.pack())):
        _note(told, ack.response_queue, ack.message_class, ack.sent_time)
    for queue in DEAD_LETTERS:
        for letter in (yield from found_by(queue, PickBy.MESSAGE, id.pack())):
            _note(
                told,
                _spelled(letter.destination, session.name),
                letter.message_class,
                letter.arrived_time,
            )
    names = {name.casefold(): name for name in expected}
    names |= {key: one.destination for key, one in told.items() if key not in names}
    waiting: dict[str, str] = {}
    open_ = [name for key, name in names.items() if not (key in told and told[key].settled)]
    views: list[OutgoingView] = []
    if open_ or not expected:
        views = yield from look_at_all(session, looks.OUTGOING, only="busy")
    for view in views:
        name = view.destination
        wanted = not expected or any(name.casefold() == one.casefold() for one in open_)
        if view.messages and wanted and (yield from found_by(name, PickBy.MESSAGE, id.pack())):
            waiting[name.casefold()] = why(view)
            names.setdefault(name.casefold(), name)
    found: list[Ending] = []
    for key, name in sorted(names.items()):
        if key in told:
            found.append(replace(told[key], destination=name))
        elif key in waiting:
            found.append(Ending(name, "waiting", waiting[key]))
        else:
            unheard = "it was transmitted, and nothing was heard of it yet"
            found.append(Ending(name, "left", unheard))
    return tuple(found)


def _spelled(text: str, computer: str) -> str:
    """A destination as acknowledgments spell it: dead letters of this computer may say "." or
    "localhost"."""
    where, _, path = text.partition("\\")
    protocol, _, host = where.rpartition(":")
    return f"{protocol}:{computer}\\{path}" if host.casefold() in HERE else text


def _note(told: dict[str, Ending], destination: str, message_class: int, at: int) -> None:
    """Keep the report about a copy that says more: an end says more than an arrival, and a
    certainty more than a doubt."""
    key = destination.casefold()
    state, text = ENDS.get(message_class, ("refused", f"class {message_class:#06x} says why"))
    now = Ending(destination, state, text, message_class, at)
    before = told.get(key)
    if before is None or _weight(now) > _weight(before):
        told[key] = now


def _weight(ending: Ending) -> int:
    return ("arrived", "in doubt").index(ending.state) if not ending.settled else 2


def found_by(queue: str, pick: PickBy, value: bytes) -> Plan[list[Message]]:
    """All messages of a queue with an identifier; none if there is no such queue."""
    found: list[Message] = []
    after = 0
    while True:
        request = requests.Receive(
            queue, 0, limits.RECEIVE_MESSAGES_MAX, limits.RECEIVE_BYTES, 0, True, after, 0, 0,
            pick=pick, value=value,
        )  # fmt: skip
        try:
            batch = yield from ask(request, Batch)
        except (errors.ReceiveTimeout, errors.QueueNotFound):
            return found
        found += batch
        after = batch.lookup_ids[-1] if len(batch) else batch.scanned


class MessageTrail(MutableRecord):
    """A message that is followed.

    Attributes:
        destinations: Where its copies go; () if that was not known when this was made.
        unit: The transaction that it is sent in, as its message number ``index``.
    """

    session: Session
    known: MessageId | None
    destinations: tuple[str, ...] = ()
    unit: Unit | None = None
    index: int = 0

    @property
    def id(self) -> MessageId:
        """Of the message; raises TransactionOver before its commit, and after an abort."""
        if self.known is None:
            sent = self.unit.sent if self.unit is not None else None
            if sent is None:
                raise errors.TransactionOver(
                    "a tracked message has an identifier when its transaction is committed"
                )
            self.known = sent[self.index]
        return self.known


def send_tracked(
    session: Session, /, destination: str, body: Body | Nothing = NOTHING, *,
    json: object = NOTHING, transactional: bool | None = None, **properties: Unpack[SendProperties],
) -> Plan[MessageTrail]:  # fmt: skip
    """Send one message now, and follow it to its ends.

    Args:
        destination, body, json, transactional, properties: As in ``send``; it asks for its
            acknowledgments itself.
    """
    if json is not NOTHING:
        body = json_body(body, json, properties)
    values = wishes(properties, (yield from tracking_queue(session)))
    names = yield from copies(destination)
    id = yield from send(session, destination, body, transactional=transactional, **values)
    return MessageTrail(session, id, names)


def outcomes(trail: MessageTrail) -> Plan[tuple[Ending, ...]]:
    """What is known now of each copy."""
    return endings(trail.session, trail.id, trail.destinations)


def wait(trail: MessageTrail, timeout: float | None = None) -> Plan[tuple[Ending, ...]]:
    """Wait until each copy has come to its end: received, or not and why.

    Args:
        timeout: Seconds; None: no limit.

    Raises:
        ReceiveTimeout: It is over; the text says what is not settled.
    """
    wait_ms(timeout)  # raises InvalidParameter
    until = None if timeout is None else trail.session.clock() + timeout
    return within(_settled(trail, until), until)


def _settled(trail: MessageTrail, until: float | None) -> Plan[tuple[Ending, ...]]:
    session, id, seen = trail.session, trail.id, 0
    while True:
        found = yield from endings(session, id, trail.destinations)
        if found and all(one.settled for one in found):
            return found
        left = SLICE_S if until is None else min(until - session.clock(), SLICE_S)
        if left <= 0:
            open_ = [f"{one.destination}: {one.state}" for one in found if not one.settled]
            raise errors.ReceiveTimeout(
                f"message {id} is not settled: {', '.join(open_) or 'not heard'}"
            )
        request = requests.Receive(
            QUEUE, 0, 1, limits.RECEIVE_BYTES, wait_ms(left), True, seen, 0, 0,
            pick=PickBy.CORRELATION, value=id.pack(),
        )  # fmt: skip
        try:
            batch = yield from ask(request, Batch)
        except (errors.ReceiveTimeout, errors.QueueNotFound):
            continue
        seen = batch.lookup_ids[-1] if len(batch) else batch.scanned


def given(value: MessageId | str) -> MessageId:
    """A message identifier, or its text; raises InvalidParameter."""
    if isinstance(value, MessageId):
        return value
    try:
        return MessageId.parse(value)
    except ValueError as error:
        raise errors.InvalidParameter(str(error)) from None
