"""What applications ask, as inputs of the core: shared by daemons and embedded managers.

Whatever a client says is checked here for its type and its range, so that the rules of the core
meet only values that they have an answer for. A fault in a request is that request's own: it is
answered with its error, and nothing else happens.

Upholds: I24 (no value from outside makes the core fail).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onceq.core.inputs import inputs, single_messages
from onceq.core.inputs.backup import Grip, HoldLog
from onceq.core.inputs.directory import EditDirectory
from onceq.core.inputs.peers import AcceptClock, ForgetPeer, ResetStream
from onceq.core.inputs.xa import PrepareBranch
from onceq.errors import (
    IllegalPropertyId,
    IllegalPropertyType,
    IllegalPropertyValue,
    InvalidParameter,
    MalformedPacket,
)
from onceq.model.identity import GUID_BYTES, TransactionId, guid_bytes
from onceq.model.message import CORRELATION_BYTES, PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QueueProperties, changed
from onceq.model.run import Run
from onceq.model.xid import Xid
from onceq.service.branching import branch_input, decide_input, group_input
from onceq.service.clock import Clock
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

FOR_EVER_US: Final = 1 << 62
AGE_S_MAX: Final = 30 * 24 * 3600
"""How long ago a message of a commit can have been sent; lifetimes count from there."""
COMMITS_MAX: Final = 1 << 62
"""Largest number of a commit."""
_WORDS_MAX: Final = 200
"""Characters of a wrong value that an error repeats."""
_TOP_BYTES: Final = 4
"""Width of the number of bytes that PickBy.TOPS asks for."""

MESSAGE_ID_BYTES: Final = GUID_BYTES + 4
_VALUE_BYTES: Final = {
    single_messages.PickBy.HEADS: 0,
    single_messages.PickBy.CORRELATION: CORRELATION_BYTES,
    single_messages.PickBy.MESSAGE: MESSAGE_ID_BYTES,
    single_messages.PickBy.TOPS: _TOP_BYTES,
}
"""What a pick has to say, by its kind."""
_OF_PLACES: Final = frozenset(
    (Code.CURSOR, Code.UNCURSOR, Code.MOVE, Code.REJECT, Code.CLAIM, Code.FETCH)
)
_PROPERTY_NAMES = frozenset(field.name for field in dataclasses.fields(Properties))
_TEXTS = ("label", "admin_queue", "response_queue", "dead_letter_queue")
_BYTES = ("correlation_id", "extension")
_QUEUE_KINDS: Final[Mapping[str, type]] = {
    "name": str,
    "private": bool,
    "transactional": bool,
    "label": str,
    "quota_kb": int,
    "journal": bool,
    "journal_quota_kb": int,
    "type": str,
    "base_priority": int,
    "authenticate": bool,
    "priv_level": int,
    "poison_attempts": int,
    "poison_retry_after": int,
    "poison_retries": int,
    "poison_then": str,
}
"""What an application may say of a queue that it makes, or (but for the first three) changes."""


def properties_of(values: dict[str, Any]) -> Properties:
    """Message properties from the names and values of a frame.

    Raises:
        IllegalPropertyId: There is no such property.
        IllegalPropertyValue: Its value is of a wrong type or out of range.
    """
    if not values:
        return PLAIN
    unknown = values.keys() - _PROPERTY_NAMES
    if unknown:
        raise IllegalPropertyId(f"there is no message property {said(min(unknown))}")
    for name, value in values.items():
        if name in _TEXTS:
            good = isinstance(value, str) and is_text(value)
        elif name in _BYTES:
            good = isinstance(value, bytes)
        else:
            good = isinstance(value, int) or (name == "priority" and value is None)
        if not good:
            raise IllegalPropertyValue(f"property {name} cannot be {said(value)}")
    acknowledge, journal = values.get("acknowledge", 0), values.get("journal", 0)
    if acknowledge & ~15 or journal & ~3:
        raise IllegalPropertyValue(
            f"acknowledge is a sum of 1, 2, 4 and 8 and journal of 1 and 2, not {acknowledge} and "
            f"{journal}"
        )
    try:
        return Properties(
            **{
                **values,
                "delivery": Delivery(values.get("delivery", Delivery.RECOVERABLE)),
                "acknowledge": Acknowledge(acknowledge),
                "journal": Journal(journal),
            }
        )
    except ValueError as error:
        raise IllegalPropertyValue(str(error)) from None


def is_text(value: str) -> bool:
    """Whether a text can be encoded: halves of surrogate pairs cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def said(value: object) -> str:
    """A value from outside, to be repeated in an error."""
    text = repr(value)
    return text if len(text) <= _WORDS_MAX else text[:_WORDS_MAX] + "..."


def items_of(heads: Sequence[frames.Item], runs: Sequence[Run]) -> tuple[inputs.SendItem, ...]:
    """Batches to send; ``runs``: of each its own headers, if it has some, and its bodies."""
    given = iter(runs)
    return tuple(
        [
            inputs.SendItem(
                head.destination,
                properties_of(head.properties) if head.properties else PLAIN,
                own=next(given) if head.own else None,
                bodies=next(given),
                age_s=min(max(head.age_s, 0), AGE_S_MAX) if head.age_s else 0,
            )
            for head in heads
        ]
    )


def split_items(heads: Sequence[frames.Item], data: memoryview) -> list[Run]:
    """The runs of several batches out of one frame, as in ``items_of``; raises MalformedPacket."""
    if len(heads) == 1 and heads[0].count >= 0 and not heads[0].own:
        return [frames.unpack_run(data, heads[0].count)]
    if any(head.count < 0 for head in heads):
        raise MalformedPacket("a batch of less than no messages")
    counts = [count for head in heads for count in (head.count,) * (2 if head.own else 1)]
    whole = frames.unpack_run(data, sum(counts))
    lengths, view = whole.lengths, memoryview(whole.data)
    runs: list[Run] = []
    first = start = 0
    for count in counts:
        table = lengths[first : first + count]
        end = start + sum(table)
        runs.append(Run(view[start:end], table))
        first, start = first + count, end
    return runs


def to_input(
    owner: int, request: int, code: int, head: Any, runs: Sequence[Run], *, clock: Clock,
    random: Callable[[int], bytes],
) -> inputs.Input:  # fmt: skip
    """One request of an application as an input of the core; raises OnceqError."""
    if code == Code.COMMIT:
        id_ = transaction_id(head.session, head.number) if head.number else None
        return inputs.Commit(owner, request, head.transaction, items_of(head.items, runs), id_)
    if code == Code.RECEIVE:
        until = 0
        if head.wait_ms:
            until = FOR_EVER_US
            if head.wait_ms > 0:
                until = min(clock.read().mono_us + head.wait_ms * 1000, FOR_EVER_US)
        return inputs.Receive(
            owner, request, head.queue, head.transaction, head.count_max, head.bytes_max, until,
            head.peek, _place(head.after), _place(head.lookup), head.handle,
            *(_more(head) if _unusual(head) else ()),
        )  # fmt: skip
    if code == Code.SEND:
        return inputs.Send(owner, request, head.transaction, items_of(head.items, runs))
    if code == Code.LIST:
        return EditDirectory(
            owner, request, head.what, head.name, tuple(head.members), random(GUID_BYTES)
        )
    if code == Code.PREPARE:
        xid = Xid(head.format_id, head.gtrid, head.bqual)
        return PrepareBranch(owner, request, xid, head.transaction, items_of(head.items, runs))
    if code == Code.BRANCH:
        return branch_input(owner, request, head)
    if code == Code.DECIDE:
        return decide_input(owner, request, head)
    if code == Code.GROUP:
        return group_input(owner, request, head)
    if code == Code.CREATE:
        return inputs.CreateQueue(owner, request, _queue(head.properties), random(GUID_BYTES))
    return _simple(owner, request, code, head)


def _of_place(owner: int, request: int, code: int, head: Any) -> inputs.Input:
    """What concerns single messages in queues."""
    if code == Code.CURSOR:
        return single_messages.OpenCursor(owner, request, head.number)
    if code == Code.UNCURSOR:
        return single_messages.CloseCursor(owner, request, head.number)
    if code == Code.MOVE:
        return single_messages.MoveMessage(
            owner, request, head.queue, head.to, _place(head.lookup), head.transaction, head.handle
        )
    if code == Code.REJECT:
        lookups = tuple(_place(lookup) for lookup in head.lookups)
        return single_messages.Reject(
            owner, request, head.queue, head.transaction, lookups, head.keep
        )
    if code == Code.CLAIM:
        ranges = tuple((_place(first), _place(last)) for first, last in head.ranges)
        return single_messages.Claim(owner, request, head.queue, head.transaction, ranges)
    return single_messages.Fetch(
        owner, request, head.queue, head.transaction, _place(head.first), _place(head.last),
        head.bytes_max,
    )  # fmt: skip


def transaction_id(session: bytes, number: int) -> TransactionId:
    """Under which the outcome of a commit is kept; raises InvalidParameter."""
    if len(session) != GUID_BYTES or not 0 < number <= COMMITS_MAX:
        raise InvalidParameter(
            f"a commit is known by a session of {GUID_BYTES} bytes and a number from 1 to "
            f"{COMMITS_MAX}"
        )
    return TransactionId(session, number)


def _unusual(head: frames.ReceiveHead) -> bool:
    return bool(head.cursor or head.seek or head.allow_peek or head.pick or head.hold)


def _more(
    head: frames.ReceiveHead,
) -> tuple[single_messages.Seek, int, bool, single_messages.Pick | None, bool]:
    """What few receives ask for; raises InvalidParameter."""
    try:
        seek = single_messages.Seek(head.seek)
        pick = (
            single_messages.Pick(single_messages.PickBy(head.pick), head.value)
            if head.pick
            else None
        )
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    if pick is not None and not head.peek:
        raise InvalidParameter("a search looks, and takes nothing")
    if pick is not None and len(pick.value) != _VALUE_BYTES[pick.by]:
        raise InvalidParameter(f"a pick with a value of {len(pick.value)} bytes")
    return seek, head.cursor, head.allow_peek, pick, head.hold


def _place(lookup: int) -> int:
    """A lookup identifier; raises InvalidParameter."""
    if not 0 <= lookup < 1 << 64:
        raise InvalidParameter(f"{lookup} is not a lookup identifier")
    return lookup


def _queue(values: dict[str, Any]) -> QueueProperties:
    if "name" not in values:
        raise InvalidParameter("a queue needs a name")
    for name in values.keys() - _QUEUE_KINDS.keys():
        if name != "multicast_address":
            raise IllegalPropertyId(f"there is no queue property {said(name)} that can be set")
    made = QueueProperties(**queue_values({n: v for n, v in values.items() if n in _QUEUE_KINDS}))
    if "multicast_address" in values:
        changed(made, values, now_s=0)
    return made


def queue_values(values: dict[str, Any]) -> dict[str, Any]:
    """Queue properties from a frame, with their types checked; ranges are the model's matter.

    Raises:
        IllegalPropertyType: A value has a wrong type.
        IllegalPropertyValue: It is no GUID, or no text that can be encoded.
    """
    found = dict(values)
    for name, value in values.items():
        kind = _QUEUE_KINDS.get(name)
        if kind is None:
            continue
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise IllegalPropertyType(f"queue property {name} cannot be {said(value)}")
        if isinstance(value, str) and not is_text(value):
            raise IllegalPropertyValue(f"queue property {name} cannot be {said(value)}")
        if name == "type" and isinstance(value, str):
            try:
                found[name] = guid_bytes(value)
            except ValueError as error:
                raise IllegalPropertyValue(f"a queue type: {error}") from None
    return found


def _simple(owner: int, request: int, code: int, head: Any) -> inputs.Input:
    try:
        if code == Code.BEGIN:
            return inputs.Begin(owner, request, head.number)
        if code == Code.ABORT:
            return inputs.Abort(owner, request, head.number)
        if code == Code.OPEN:
            return inputs.OpenQueue(
                owner, request, head.name, inputs.Access(head.access), inputs.Share(head.share),
                head.note[:_WORDS_MAX],
            )  # fmt: skip
        if code == Code.CLOSE:
            return inputs.CloseQueue(owner, request, head.number)
        if code == Code.REMOVE:
            return inputs.Remove(
                owner, request, head.queue, head.transaction, _place(head.first), _place(head.last)
            )
        if code in _OF_PLACES:
            return _of_place(owner, request, code, head)
        if code == Code.CANCEL:
            return inputs.CancelReceive(owner, request, head.number)
        if code == Code.OUTCOME:
            return inputs.AskOutcome(owner, request, transaction_id(head.session, head.number))
        if code == Code.SET:
            return inputs.SetQueue(owner, request, head.name, queue_values(head.values))
        if code == Code.DELETE:
            return inputs.DeleteQueue(owner, request, head.name)
        if code == Code.PURGE:
            return inputs.PurgeQueue(owner, request, head.name)
        if code == Code.STEER:
            action = head.action.lower().removeprefix("eod_")
            return inputs.SteerOutgoing(owner, request, head.destination, inputs.Steer(action))
        if code == Code.HOLD:
            return HoldLog(owner, request, Grip(head.verb), _place(head.number))
        if code == Code.STREAM:
            if head.action == "forget-peer":
                return ForgetPeer(owner, request, head.queue, head.dry_run)
            if head.action not in ("reset", "accept-clock"):
                raise InvalidParameter(f"a stream cannot be {said(head.action)}: reset")
            if not is_text(head.reason):
                raise InvalidParameter(f"{said(head.reason)} is no reason that can be kept")
            if head.action == "accept-clock":
                return AcceptClock(owner, request, head.source, head.reason, head.dry_run)
            return ResetStream(
                owner, request, head.queue, head.source, head.reason, head.whole, head.dry_run
            )
        if code == Code.LOOK:
            return inputs.Look(owner, request, head.what, head.name)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    raise MalformedPacket(f"code {code} is no request")
