"""Decisions in words: records first, then answers and what else is to be done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from onceq.core.decision import (
    Answer,
    CloseSession,
    Connect,
    Declined,
    Handed,
    Notice,
    Observed,
    Persisted,
    Ready,
    Sight,
    Transmit,
)
from onceq.core.state.branch_table import PreparedBranch
from onceq.core.state.records import PUT_EXPRESS, SET_ASIDE, Change, Op, Put, RangeChange, decode
from onceq.core.state.setups import Paused, Setup
from onceq.errors import OnceqError
from onceq.model.queue import QueueProperties
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.results import Opened, Sent
from onceq.model.run import Extent
from onceq.model.views.looks import GroupResult
from tests.traces.names import Names
from tests.traces.node import Node

OPS: Final = {
    Op.REMOVE: "received", Op.LOCK: "locked", Op.UNLOCK: "put back", Op.PURGE: "purged",
    Op.RELEASE: "released", Op.AWAIT: "acknowledged, awaits its end", Op.END: "ended",
    Op.RETURN: "returned", Op.SHIFT: "moved", Op.SETTLE: "settled",
}  # fmt: skip
TOLD: Final = (
    "name", "destination", "queue", "reason", "to",
    "xid", "app", "version",
)  # fmt: skip
"""Values of a setup record that a reader wants to see; the others are numbers of the process."""


MEANINGS: Final = {
    "life": "a start, with a stamp and first numbers of its own",
    "numbers": "message numbers are reserved",
    "left": "how far messages may have left",
    "places": "lookup identifiers that no other life has given",
    "drop-subqueue": "empty",
    "branch-forget": "the coordinator knows",
    "wanted": "an application sends to",
}
"""What records of the process say, where their values are only numbers."""
OF_QUEUES: Final = ("left", "drop-subqueue", "wanted")


def records(node: Node, names: Names, payload: bytes, position: int) -> list[str]:
    """A record as lines; the first one has its kind."""
    record = decode(memoryview(payload), position)
    if isinstance(record, Setup):
        return [_setup(node, record)]
    if isinstance(record, PreparedBranch):
        return [f"prepare of branch {record.xid}", *_promised(node, names, record)]
    change, _ = record
    return ["change", *_change(node, names, change)]


def _setup(node: Node, record: Setup) -> str:
    values = record.values()
    if record.verb in MEANINGS:
        return f"setup {record.verb}: {MEANINGS[record.verb]}" + (
            f" {node.title(values['number'])}" if record.verb in OF_QUEUES else ""
        )
    if isinstance(record, Paused):
        done = "paused" if record.since_s else "resumed"
        return f"setup pause: {done} {node.title(record.number)}"
    said = [f"{k} {v}" for k, v in values.items() if k in TOLD and v not in ("", 0, None)]
    return " ".join((f"setup {record.verb}", *said))


def _promised(node: Node, names: Names, branch: PreparedBranch) -> Iterator[str]:
    for send in branch.sends:
        yield f"will send to {send['to']}"
    for _, queue, lane, first, count, *_ in branch.receives:
        yield f"holds {node.called(queue, lane, first, count)} of {node.title(queue)}"


def _change(node: Node, names: Names, change: Change) -> Iterator[str]:
    if change.outcome is not None:
        yield "outcome: committed"
    marks = change.marks
    if marks is not None:
        if marks.branch:
            yield f"ends the prepared branch{f', {marks.by_hand.value}' if marks.by_hand else ''}"
        if marks.gtrid:
            yield f"decides {marks.gtrid.decode()} for {', '.join(marks.partners)}"
    for advance in change.advances:
        who = f"stream: {names.manager(advance.source)} to {advance.key}"
        place = names.place(advance.stream, advance.first)
        if advance.last < advance.first:
            yield f"{who} goes on with {place}: nothing before it is accepted any more"
        else:
            more = f" to {advance.last}" if advance.last > advance.first else ""
            yield f"{who} accepted {place}{more}"
    for seen in change.seen:
        numbers = ", ".join(names.message(seen.source, number) for number in seen.numbers)
        yield f"seen: {numbers} to {seen.key}"
    for stream, number in change.refused:
        yield f"refusal taken: {names.place(stream, number)}"
    for move in change.moves:
        yield _move(node, move)
    for put in change.puts:
        yield from _put(node, names, put)
    for moved in change.moved:
        yield f"rewritten: {len(moved.counters)} of {node.title(moved.queue)}"
    if not (change.moves or change.puts or change.advances or change.seen or change.moved
            or change.refused or marks or change.outcome):  # fmt: skip
        yield "counters"


def _move(node: Node, move: RangeChange) -> str:
    what = node.called(move.queue, move.lane, move.first, move.count)
    text = f"{OPS[Op(move.op)]}: {what} of {node.title(move.queue)}"
    if move.op == Op.SETTLE and move.reason == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
        text += ", it had arrived, its end is not known"
    elif move.op == Op.SHIFT and move.reason == SET_ASIDE:
        text += ", its time does not count any more"
    elif move.reason:
        text += f", {class_name(move.reason)}"
    if move.to:
        text += f", to {node.title(move.to)}"
    for queue, _, kind in move.copies_to:
        text += f", copy to {node.title(queue)}" + (f" ({class_name(kind)})" if kind else "")
    return text


def _put(node: Node, names: Names, put: Put) -> Iterator[str]:
    where = node.title(put.queue) if put.queue else "nowhere"
    if put.address:
        at = put.address
        for size in put.packets.lengths:
            laid = node.bytes_of([Extent(at, size)])
            at += size
            yield f"put: {names.packet(laid)} into {where}, as the record of the prepare has it"
        return
    for index, packet in enumerate(put.packets):
        text = f"put: {names.packet(packet, place=False)} into {where}"
        if put.stream:
            text += f" as {names.place(put.stream, put.number + index)}"
        if put.reason:
            text += f", {class_name(put.reason)}"
        yield text + (", express" if put.flags & PUT_EXPRESS else "")


def action(node: Node, names: Names, said: object) -> str:
    """An action as a line; "" for what is only between the core and its engine."""
    match said:
        case Answer(result=result):
            return f"answers: {_answer(node, names, result)}"
        case Connect(protocol=protocol, host=host, peer=peer, url=url):
            where = url or host or names.manager(peer)
            return f"asks for a session with {where}" + (f" ({protocol})" if url else "")
        case CloseSession(session=session, reason=reason):
            return f"closes the session with {node.peer(session)}: {reason}"
        case Declined(status=status, reason=reason):
            return f"declines: {status} {reason}"
        case Notice(what=what, values=values):
            shown = ", ".join(f"{k} {v}" for k, v in values.items() if k in ("peer", "to", "found"))
            return f"notice: {what}" + (f" ({shown})" if shown else "")
        case Observed(what=Sight.TRANSMITTED) | Ready() | Persisted() | Transmit():
            return ""
        case Observed(what=what, stream=stream, number=number, count=count):
            to = f" to {number + count - 1}" if count > 1 else ""
            return f"turns away {names.place(stream, number)}{to}: {what.value}"
    return f"asks for: {type(said).__name__.lower()}"


def _answer(node: Node, names: Names, result: object) -> str:
    match result:
        case None | QueueProperties():
            return "done"
        case OnceqError():
            return f"refused, {result.code}"
        case Sent(first_message=first, messages=count):
            given = [names.message(node.identity.guid, first + k) for k in range(count)]
            return f"sent {', '.join(given)}" if given else "done"
        case Handed():
            return f"hands out {', '.join(node.handed(result))}"
        case GroupResult(already=already, messages=count, rolled_back=back):
            if already:
                return "already committed"
            return f"committed, {count} sent, {back} rolled back"
        case Enum():
            return str(result.value)
    return plain(result)


def plain(value: Any) -> str:
    """A view, or another value, with the fields that say something."""
    if isinstance(value, Opened):
        return ", ".join(
            f"{name} {plain(found)}" for name, found in value._asdict().items() if found
        )
    if is_dataclass(value) and not isinstance(value, type):
        shown = ((one.name, getattr(value, one.name)) for one in fields(value))
        return ", ".join(f"{name} {plain(found)}" for name, found in shown if found)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {found}" for name, found in value.items())
    if isinstance(value, tuple | list):
        return "; ".join(map(plain, value)) or "none"
    return str(value.value if isinstance(value, Enum) else value)
