"""What the console reads of a queue manager, and how it steers one: a function for each screen and
for each button, used by its page and by its JSON alike. Only the part *steering* changes anything.

Answers are maps of views and plain values; places of messages are texts, because they are larger
than the numbers of JavaScript are exact. Where messages are listed, only their headers are asked
for: the right ``peek`` is enough, and no body leaves the queue manager before somebody opens one
message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypeAlias

from onceq import errors
from onceq.client.attention import (
    FULL,
    PAUSED,
    RECENTLY_REFUSED,
    STUCK,
    Inspected,
    held_up,
    notes_of_outgoing,
    notes_of_queue,
    to_look_at,
)
from onceq.client.properties import SendProperties
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.why import branch_advice, refusals, stream_why, why
from onceq.console.guard import LOOKED_MAX, PAGE_MESSAGES, ROWS_LIMIT, ROWS_MAX, FormValues
from onceq.model.branches import Xid
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.message import NO_CORRELATION, Message
from onceq.model.record import names
from onceq.model.resultcodes import class_name
from onceq.model.rights import MEANING, Right
from onceq.model.views.looks import BranchView
from onceq.model.views.queues import OutgoingView, QueueView, StreamView
from onceq.model.views.view import Column, copy_by_name

# ---- reading -------------------------------------------------------------------------------------


Told: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[AsyncQueueManager, FormValues, int], Awaitable[Told]]
"""Asks a queue manager; the number is the second since 1970."""

DEAD_QUEUES = ("SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER")


class QueueRow(QueueView, frozen=True):
    """A queue in the list.

    Attributes:
        oldest_s: Since how many seconds its oldest message waits; None: it is empty.
        notes: What an operator should know of it, in a few words each.
    """

    oldest_s: Annotated[int | None, Column("oldest", "age")] = None
    notes: tuple[str, ...] = ()


class OutgoingRow(OutgoingView, frozen=True):
    """An outgoing queue in the list.

    Attributes:
        why: The sentence that says why it moves or does not.
        refused: What its destination has refused, in a sentence.
        notes: What an operator should know of it, in a few words each.
    """

    why: str = ""
    refused: str = ""
    notes: tuple[str, ...] = ()


class StreamRow(StreamView, frozen=True):
    """An incoming stream in the list.

    Attributes:
        why: The sentence that says what happens on it.
    """

    why: str = ""


async def may(qm: AsyncQueueManager, right: Right, queue: str = "") -> bool:
    """Whether the console may do something there: what it may not do is not shown."""
    name = queue.partition(";")[0]  # a subqueue has the rights of its queue
    if name.casefold() == "system$":
        right, name = (Right.MONITOR if right is Right.PEEK else Right.OPERATE), ""
    try:
        return (await qm.rights.explain(right, name)).allowed
    except (errors.AccessDenied, errors.InvalidParameter, errors.UnsupportedOperation):
        return False


# ---- the whole queue manager -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OverviewNumbers:
    """What the overview shows of one queue manager, and two numbers for its pictures."""

    shown: Told
    messages: int
    log: int


async def numbers(qm: AsyncQueueManager, now_s: int) -> OverviewNumbers:
    """Everything that the overview shows of a queue manager."""
    admin = qm.admin
    status, metrics, branches = await admin.status(), await admin.metrics(), await admin.branches()
    seen = Inspected(
        status, metrics, await qm.queue_page(**PAUSED), await qm.queue_page(**FULL),
        await admin.outgoing_page(**STUCK), await admin.outgoing_page(**RECENTLY_REFUSED), branches,
    )  # fmt: skip
    prepared = [branch for branch in branches if branch.phase == "prepared"]
    reasons = held_up(seen, now_s)
    shown: Told = {
        "name": status.name,
        "id": status.id,
        "moving": not reasons,
        "why": reasons,
        "look_at": to_look_at(seen, now_s),
        "queues": status.queues,
        "messages": status.messages,
        "bytes": status.bytes,
        "oldest_s": metrics.oldest_age_s,
        "outgoing_messages": status.outgoing_messages,
        "dead_letters": status.dead_letters + status.transactional_dead_letters,
        "poison_messages": status.poison_messages,
        "transactions": status.transactions,
        "in_doubt": len(prepared),
        "in_doubt_oldest_s": max((now_s - branch.since for branch in prepared), default=0),
        "damaged_messages": status.damaged_messages,
        "sessions": status.sessions,
        "space_low": status.space_low,
        "started": status.started,
    }
    return OverviewNumbers(shown, status.messages, status.log_position)


async def settings(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What a queue manager is set to, and what it says of itself."""
    found = sorted(await qm.admin.settings(), key=lambda one: one.value == one.default)
    return {"settings": found, "state": (await qm.admin.status()).as_dict()}


# ---- queues ------------------------------------------------------------------------------------


async def queues(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """A page of the queues, those with the oldest messages first."""
    limit = given.number("limit", ROWS_MAX, least=1, most=VIEWS_AT_ONCE)
    page = await qm.queue_page(
        sort=given.text("sort") or "oldest", only="used", part=given.text("name"),
        after=given.text("after"), limit=limit,
    )  # fmt: skip
    rows = [
        copy_by_name(
            QueueRow, one, oldest_s=_age(one.oldest, now_s), notes=tuple(notes_of_queue(one))
        )
        for one in page.views
    ]
    return {"queues": rows, "of": page.of, "next": page.next or None}


def _age(at_s: int, now_s: int) -> int | None:
    return max(now_s - at_s, 0) if at_s else None


async def queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """One queue, who works on it, and a page of its messages: headers, no bodies."""
    name = given.text("queue", needed=True)
    view = await qm.queue(name)
    told: Told = {
        "queue": view.as_dict(), "why": why(view), "may_see": await may(qm, Right.PEEK, view.path),
        "may_see_bodies": await may(qm, Right.PEEK_BODY, view.path),
        "may_act": not (view.system or view.parent) and await may(qm, Right.OPERATE),
        "may_send": not (view.system or view.parent) and await may(qm, Right.SEND, view.path),
    }  # fmt: skip
    told |= await _consumers(qm, name, given)
    return {**told, **await _browsed(qm, name, given, now_s)}


async def _consumers(qm: AsyncQueueManager, name: str, given: FormValues) -> Told:
    """Who works on a queue."""
    limit = given.number("limit", ROWS_MAX, least=1, most=ROWS_LIMIT)
    found = await qm.consumers(name)
    return {
        "consumers": found[:limit],
        "consumers_of": len(found),
        "held": any(one.denies for one in found),
    }


async def _browsed(qm: AsyncQueueManager, name: str, given: FormValues, now_s: int) -> Told:
    """A page of messages that fit a filter."""
    limit = given.number("limit", ROWS_MAX, least=1, most=ROWS_LIMIT)
    label, id = given.text("label").casefold(), given.text("id")
    older, after = given.seconds("older_than"), given.number("after", 0)
    rows: list[Told] = []
    looked, more = 0, False
    while looked < LOOKED_MAX:
        try:
            page = await qm.peek_headers(name, PAGE_MESSAGES, after=after)
        except errors.ReceiveTimeout:
            break
        for one in page:
            if len(rows) == limit:
                more = True
                break
            message = one.message
            after = message.lookup_id
            looked += 1
            if (
                label in message.label.casefold()
                and (not id or str(message.id) == id)
                and now_s - message.arrived_time >= older
            ):
                rows.append(_row(message, one.body_bytes, now_s))
        if more:
            break
    else:
        more = True
    return {"messages": rows, "looked": looked, "next": str(after) if more else None}


def _row(message: Message, body_bytes: int, now_s: int) -> Told:
    return {
        "lookup_id": str(message.lookup_id),
        "id": id_of(message),
        "label": message.label,
        "body_bytes": body_bytes,
        "priority": message.priority,
        "age_s": max(now_s - message.arrived_time, 0),
        "abort_count": message.abort_count,
        "returned": message.returned,
        "class": class_name(message.message_class),
    }


# ---- one message -------------------------------------------------------------------------------


async def message(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """One message: every property, its body if that may be seen, and its story."""
    name = given.text("queue", needed=True)
    lookup = given.number("lookup_id", 0, least=1)
    if not lookup:
        raise errors.InvalidParameter("lookup_id is missing")
    body: bytes | None
    try:
        found = await qm.peek(name, lookup_id=lookup)
        body, size = found.body, len(found.body)
    except errors.AccessDenied:
        page = await qm.peek_headers(name, 1, after=lookup - 1)
        if page[0].message.lookup_id != lookup:
            raise errors.MessageNotFound(
                f"there is no message {lookup} in {name} any more"
            ) from None
        found, body, size = page[0].message, None, page[0].body_bytes
    told: Told = {"queue": name, "message": properties(found), "body_bytes": size}
    told |= {"story": await story(qm, found, name)}
    if body is None:
        return {**told, "body": None, "body_base64": None}
    try:
        return {**told, "body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {**told, "body": None, "body_base64": base64.b64encode(body).decode()}


def id_of(message: Message) -> str:
    """A message's identifier as text; "" if it has none."""
    return str(message.id) if message.id.source != NO_GUID else ""


def properties(message: Message) -> Told:
    """Every property of a message, without its body."""
    found: Told = {}
    for name in names(Message):
        value = getattr(message, name)
        if name == "body":
            continue
        if name == "id":
            value = id_of(message)
        elif name == "correlation_id":
            value = value.hex() if value != NO_CORRELATION else ""
        elif isinstance(value, bytes):
            value = value.hex()
        elif name == "delivery":
            value = value.name.lower()
        elif name == "lookup_id":
            value = str(value)
        elif isinstance(value, Enum):
            value = int(value.value)
        found[name] = value
    found["class"] = class_name(message.message_class)
    return found


async def story(qm: AsyncQueueManager, message: Message, queue: str) -> list[Told]:
    """What happened to a message, as far as it says so itself or its sender has asked to be told;
    the oldest first.

    Each step has ``at`` (seconds since 1970; 0: nobody has noted when) and ``text``.
    """
    told: list[Told] = []
    if message.sent_time:
        part = "in a transaction" if message.transactional else "without a transaction"
        known = message.id.source != NO_GUID
        sender = f" by queue manager {guid_text(message.id.source)}" if known else ""
        told.append({"at": message.sent_time, "text": f"sent{sender} {part}"})
    if message.number:
        told.append({"at": 0, "text": f"number {message.number} of stream {message.stream:#018x}, "
                     f"after {message.previous}"})  # fmt: skip
    if message.hops:
        told.append({"at": 0, "text": f"passed on by {message.hops} other queue managers"})
    if message.arrived_time:
        told.append({"at": message.arrived_time, "text": f"came into {queue}"})
    if message.abort_count:
        told.append({"at": 0, "text": f"received {message.abort_count} times by transactions that "
                     "were undone"})  # fmt: skip
    if message.move_count:
        told.append({"at": message.last_move_time, "text": f"moved between subqueues "
                     f"{message.move_count} times, the last time"})  # fmt: skip
    if message.returned:
        told.append({"at": 0, "text": f"came back from a dead-letter queue {message.returned} "
                     "times"})  # fmt: skip
    told += await _ends(qm, message)
    return told


async def _ends(qm: AsyncQueueManager, message: Message) -> list[Told]:
    """What acknowledgments and dead letters tell of its copies."""
    if message.id.source == NO_GUID:
        return []
    try:
        found = await qm.track(message.id).outcomes()
    except errors.OnceqError as error:
        if isinstance(error, errors.AccessDenied):
            return []
        raise
    return [{"at": end.at, "text": f"{end.destination}: {end.state}: {end.text}"} for end in found]


# ---- other queue managers, and who may do what -------------------------------------------------


async def outgoing(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """A page of the outgoing queues, each with the sentence that says why it moves or not."""
    limit = given.number("limit", ROWS_MAX, least=1, most=VIEWS_AT_ONCE)
    page = await qm.admin.outgoing_page(
        sort=given.text("sort") or "messages", part=given.text("name"), after=given.text("after"),
        limit=limit,
    )  # fmt: skip
    rows = [
        copy_by_name(
            OutgoingRow, one, why=why(one), refused=refusals(one),
            notes=tuple(notes_of_outgoing(one)),
        )
        for one in page.views
    ]  # fmt: skip
    return {
        "outgoing": rows,
        "of": page.of,
        "next": page.next or None,
        "may_act": await may(qm, Right.OPERATE),
    }


async def streams(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Incoming message streams, each with a sentence."""
    found = sorted(await qm.admin.streams(), key=lambda one: (one.queue.casefold(), one.source))
    return {"streams": [copy_by_name(StreamRow, one, why=stream_why(one)) for one in found]}


async def peers(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Names that were connected to, and who answers there."""
    return {"peers": await qm.admin.peers()}


async def trail(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """The audit trail: who did what, the newest first."""
    limit = given.number("limit", ROWS_MAX, least=1, most=ROWS_LIMIT)
    found = await qm.admin.trail(given.number("after", 0))
    return {"acts": found[-limit:][::-1], "of": len(found)}


async def rights(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Who may do what, and what the console itself may do."""
    own = {right.value: await may(qm, right) for right in
           (Right.MONITOR, Right.OPERATE, Right.ADMINISTER)}  # fmt: skip
    try:
        grants = await qm.rights.list(given.text("queue"))
    except errors.AccessDenied as error:
        return {"own": own, "grants": None, "refused": error.text, "meaning": _meaning()}
    return {"own": own, "grants": grants, "refused": "", "meaning": _meaning()}


def _meaning() -> Mapping[str, str]:
    return {right.value: text for right, text in MEANING.items()}


# ---- steering ------------------------------------------------------------------------------------
#
# What an operator does from the console: pause, resume, try queues; decide transactions by hand.


FORMS = ("text", "json")
"""What a body is given as."""


async def pause_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Let nobody receive the next message of a queue."""
    return await _queue(qm, given, paused=True)


async def resume_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Let messages of a queue be received again."""
    return await _queue(qm, given, paused=False)


async def _queue(qm: AsyncQueueManager, given: FormValues, *, paused: bool) -> Told:
    name = given.text("queue", needed=True)
    await qm.queue(name)  # of an outgoing queue the way out would be paused
    await (qm.admin.pause(name) if paused else qm.admin.resume(name))
    view = await qm.queue(name)
    return {"queue": view.path, "paused_since": view.paused_since, "why": why(view)}


async def release_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """End the holds that keep others from receiving from a queue."""
    name = given.text("queue", needed=True)
    return {"queue": name, "released": await qm.admin.release_queue(name)}


async def pause_outgoing(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Transmit nothing more to a destination; messages gather, and may expire."""
    return await _outgoing(qm, given, paused=True)


async def resume_outgoing(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Transmit again."""
    return await _outgoing(qm, given, paused=False)


async def _outgoing(qm: AsyncQueueManager, given: FormValues, *, paused: bool) -> Told:
    name = given.text("destination", needed=True)
    await qm.admin.outgoing_queue(name)
    await (qm.admin.pause(name) if paused else qm.admin.resume(name))
    view = await qm.admin.outgoing_queue(name)
    return {
        "destination": view.destination,
        "paused_since": view.paused_since,
        "why": why(view),
    }


async def preview_send(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``queue/send`` would send; nothing is changed.

    Raises:
        InvalidParameter: A value is none that can be sent.
    """
    name = given.text("queue", needed=True)
    view = await qm.queue(name)
    form = given.text("form") or FORMS[0]
    if form not in FORMS:
        raise errors.InvalidParameter(f"form is one of {', '.join(FORMS)}, and not {form[:40]!r}")
    body = given.text("body")
    if form == "json" and "body" in given.values:
        try:
            body = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":"))
        except ValueError as error:
            raise errors.InvalidParameter(f"the body is no JSON: {error}") from None
    return {
        "queue": view.path,
        "transactional": view.transactional,
        "label": given.text("label"),
        "body": body,
        "body_bytes": len(body.encode()),
        "form": form,
        "delay": given.seconds("delay"),
        "dry_run": True,
    }


async def send(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Send one message to a queue of this queue manager, to try what receives from it."""
    told = await preview_send(qm, given, now_s)
    if given.flag("dry_run"):
        return told
    properties = SendProperties(label=told["label"], delay=told["delay"] or None)
    if told["form"] == "json":
        identifier = await qm.send(
            told["queue"], json=json.loads(told["body"]), transactional=told["transactional"],
            **properties,
        )  # fmt: skip
    else:
        identifier = await qm.send(
            told["queue"], told["body"], transactional=told["transactional"], **properties
        )
    return {**told, "id": str(identifier), "dry_run": False}


OUTCOMES = ("commit", "abort")


async def transactions(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Transactions at work, branches with what can be done about each, and decisions of which
    partners are still to be told; the oldest first."""
    branches = sorted(await qm.admin.branches(), key=lambda one: (one.since, one.xid))
    open_ = sorted(
        await qm.admin.transactions(), key=lambda one: (one.began, one.owner, one.number)
    )
    here = guid_bytes(qm.id)
    return {
        "transactions": [one.as_dict() for one in open_],
        "branches": [{**one.as_dict(), "advice": branch_advice(one, here)} for one in branches],
        "decisions": [one.as_dict() for one in await qm.admin.decisions()],
        "may_act": await may(qm, Right.OPERATE),
    }


async def branch_of(qm: AsyncQueueManager, given: FormValues) -> BranchView:
    """The branch that a request names; raises UnknownBranch, InvalidParameter."""
    text = given.text("branch", needed=True)
    wanted = str(Xid.parse(text))
    for view in await qm.admin.branches():
        if view.xid == wanted:
            return view
    raise errors.UnknownBranch(f"there is no branch {text} here any more")


async def preview_decision(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``transactions/decide`` would do; nothing is changed."""
    outcome = given.text("outcome", needed=True)
    if outcome not in OUTCOMES:
        raise errors.InvalidParameter(
            f"outcome is one of {', '.join(OUTCOMES)}, and not {outcome!r}"
        )
    view = await branch_of(qm, given)
    if view.phase != "prepared":
        raise errors.UsageError(
            f"branch {view.xid} is {view.phase}: only a prepared one is decided"
        )
    told = {**view.as_dict(), "advice": branch_advice(view, guid_bytes(qm.id))}
    return {"branch": told, "outcome": outcome, "dry_run": True}


async def decide(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Commit a prepared branch by hand, or roll it back."""
    told = await preview_decision(qm, given, now_s)
    if given.flag("dry_run"):
        return told
    xid = Xid.parse(told["branch"]["xid"])
    if told["outcome"] == "commit":
        await qm.xa.commit(xid, by_hand=True)
    else:
        await qm.xa.rollback(xid, by_hand=True)
    return {**told, "dry_run": False}


async def forget(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Drop the memory of a branch that was decided by hand, once all partners were compared."""
    view = await branch_of(qm, given)
    if not view.phase.endswith("by hand"):
        raise errors.UsageError(
            f"branch {view.xid} is {view.phase}: only one that was decided by hand is forgotten"
        )
    await qm.xa.forget(Xid.parse(view.xid))
    return {"branch": view.as_dict(), "forgotten": True}
