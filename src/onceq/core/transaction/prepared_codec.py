"""A checked batch as JSON and back, so that a prepared branch survives a restart (I20).

Nothing is checked or resolved a second time: the record holds what was promised. A queue that was
deleted meanwhile remains a destination; the commit finds it gone (Q-43).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from onceq.core.names.resolve import one_name
from onceq.core.state.branch_table import Branch
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.step.routes import CheckedBatch, Deadlines, StoredBatch, Target
from onceq.core.step.step import Step
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.record import names
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.packet.own import joined, parted
from onceq.packet.templates import Template, one_rest

_KINDS: dict[str, Any] = {
    "delivery": Delivery,
    "acknowledge": Acknowledge,
    "journal": Journal,
    "correlation_id": bytes.fromhex,
    "extension": bytes.fromhex,
}
_NAMES = names(Properties)
_values_of = attrgetter(*_NAMES)
_DEFAULTS = _values_of(PLAIN)


def messages_of(p: CheckedBatch) -> Run:
    """Return what must be kept of its messages: their own headers, if they have any, and bodies."""
    return joined(p.item.own, p.item.bodies)


def note_of(p: CheckedBatch) -> dict[str, Any]:
    """Return what must be kept of a batch, without its messages."""
    note = {
        "to": p.item.destination,
        "properties": _dump_properties(p.item.properties),
        "targets": [[t.queue.number, t.text] for t in p.targets],
        "templates": [
            [m.head.hex(), m.transaction, m.properties, m.flags, m.tail.hex()] for m in p.templates
        ],
        "times": [p.deadlines.expires, p.deadlines.receive_by, p.deadlines.confirm_by],
        "size": p.size,
        "grave": p.dead_letter_queue,
        "once": p.deadlines.once,
        "own": p.item.own is not None,
    }
    for t in p.targets:
        if t.said is not t.name and t.said != t.name:
            note["said"] = [str(t.said) for t in p.targets]
            break
    if p.written is not None:
        note["written"] = [p.written.message, p.written.transaction, p.written.bytes]
    return note


def batches_of(step: Step, branch: Branch) -> list[CheckedBatch]:
    """Rebuild the batches of a branch."""
    if not branch.laid:
        notes = zip(branch.sends, branch.bodies, strict=True)
        return [_batch_of(step, note, messages) for note, messages in notes]
    laid = iter(branch.laid)
    made: list[CheckedBatch] = []
    for note in branch.sends:
        runs = tuple(next(laid) for _ in note["targets"])
        p = _batch_of(step, note, Run(b"", runs[0].lengths))
        message, transaction, size = note["written"]
        p.written = StoredBatch(message, transaction, size, runs)
        made.append(p)
    return made


def _batch_of(step: Step, note: dict[str, Any], messages: Run) -> CheckedBatch:
    # A record from before messages could have their own headers does not say it.
    own, bodies = parted(messages) if note.get("own") else (None, messages)
    item = SendItem(note["to"], _load_properties(note["properties"]), bodies, own=own)
    names = [one_name(text)[0] for _, text in note["targets"]]
    # Older versions have not kept the name that the sender used.
    said = [one_name(text)[0] for text in note["said"]] if "said" in note else names
    targets = tuple(
        Target(_holder(step, number), *called)
        for (number, _), *called in zip(note["targets"], names, said, strict=True)
    )
    templates = tuple(
        Template(bytes.fromhex(head), transaction, properties, flags, bytes.fromhex(tail))
        for head, transaction, properties, flags, tail in note["templates"]
    )
    expires, receive_by, confirm_by = note["times"]
    deadlines = Deadlines(expires, receive_by, confirm_by, once=note["once"])
    return CheckedBatch(
        item, targets, templates, deadlines, note["size"], note["grave"],
        one_rest=one_rest(templates),
    )  # fmt: skip


def _holder(step: Step, number: int) -> Queue | OutgoingQueue:
    queue = step.state.all_queues.get(number)
    if queue is None:
        # Numbers are never assigned again: this one cannot be taken for another queue.
        gone = QueueProperties(name="deleted", number=number, transactional=True)
        return Queue(number, step.state.space, gone)
    assert isinstance(queue, (Queue, OutgoingQueue))
    return queue


def _dump_properties(properties: Properties) -> dict[str, Any]:
    if properties is PLAIN:
        return {}
    values = _values_of(properties)
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value, default in zip(_NAMES, values, _DEFAULTS, strict=True)
        if value != default
    }


def _load_properties(values: dict[str, Any]) -> Properties:
    return Properties(
        **{name: _KINDS[name](v) if name in _KINDS else v for name, v in values.items()}
    )
