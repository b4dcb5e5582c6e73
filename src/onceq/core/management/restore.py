"""Record a restore, in the manager that was restored.

With its old identity nothing else is to be done: what waits continues under its numbers, and each
start assigns new numbers to what comes later. With another identity it is another manager, and the
original of the backup may live: a copy does nothing that the original does
(``core/management/copies.py``). What waited is set aside, in dead-letter queues, with the class for
a sender whose identity has changed. No report is made of it: it has not failed. Public queues get
identifiers of their own.

Upholds: I4 (a copy sends nothing a second time), I12.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from onceq.core.decision import Notice
from onceq.core.inputs.inputs import PutBack
from onceq.core.management import copies
from onceq.core.state.setups import QueueSet, StorePutBack
from onceq.core.step.audit_entries import AuditEntry, record_act
from onceq.core.step.step import Step
from onceq.model.identity import guid_text


def put_back(step: Step, item: PutBack) -> None:
    """Record it; answer how many messages were set aside."""
    ended: dict[str, int] = {}
    if item.previous:
        ended = copies.end_all(step)
        _rename_public(step, item.instances)
    aside = ended.get("messages", 0)
    step.setup(
        StorePutBack(
            at_s=step.now.wall_s,
            taken_s=item.taken_s,
            position=item.position,
            previous=item.previous.hex(),
            aside=aside,
            jobs=ended.get("jobs", 0),
            promises=ended.get("promises", 0),
            tokens=ended.get("tokens", 0),
        )
    )
    kind = f"; made as a copy of {guid_text(item.previous)}" if item.previous else ""
    about = f"log position {item.position}, of second {item.taken_s}{kind}"
    record_act(step, "operator", "local", AuditEntry("restore", about))
    step.answer(item.owner, item.request, aside)


def tell(step: Step) -> None:
    """Report a restore to the operator, at the first start after it."""
    restored = step.state.restored
    if restored is None or restored.told:
        return
    step.setup(StorePutBack(**asdict(replace(restored, told=True))))
    values: dict[str, object] = {
        "taken_s": restored.taken_s,
        "position": restored.position,
        "restored_s": restored.at_s,
    }
    if restored.previous:
        was = guid_text(bytes.fromhex(restored.previous))
        values |= {
            "copy_of": was, "set_aside": restored.aside, "jobs_cancelled": restored.jobs,
            "promises_undone": restored.promises, "tokens_dropped": restored.tokens,
        }  # fmt: skip
    step.act(Notice("this queue manager was put back from a backup", values))


def _rename_public(step: Step, instances: tuple[bytes, ...]) -> None:
    public = [
        queue.properties
        for queue in step.state.queues.values()
        if not queue.system and not queue.properties.private
    ]
    for properties, instance in zip(public, instances, strict=True):
        step.setup(QueueSet(replace(properties, instance=instance)))
