"""A restore, as the manager that was restored records it.

With the identity that it had, nothing else is to be done: what waits goes on under the numbers
that it has, and each start numbers anew what comes later. With another identity it is another
manager, and the one that the backup is of may live. That one sends what waits; here it is set
aside, in dead-letter queues, with the class for a sender whose identity has changed. Nothing is
said about it to anybody: it has not failed. What had arrived, and acknowledgments that are owed,
are the other's as well. Public queues get identifiers of their own.

Upholds: I4 (a copy sends nothing a second time), I12.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from onceq.core.decision import Notice
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs.backup import PutBack
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.queues import OutgoingQueue
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import QueueSet, StorePutBack
from onceq.core.state.state import ACKS_OWED, DOUBTS_KEPT, ORDER_QUEUE_NUMBER
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.model.classes import MessageClass
from onceq.model.identity import guid_text
from onceq.model.names import Kind

CHANGED = MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED


def put_back(step: Step, item: PutBack) -> None:
    """Record it; answers how many messages were set aside."""
    aside = 0
    if item.previous:
        aside = _set_aside(step)
        _rename_public(step, item.instances)
    step.setup(
        StorePutBack(
            at_s=step.now.wall_s,
            taken_s=item.taken_s,
            position=item.position,
            previous=item.previous.hex(),
            aside=aside,
        )
    )
    step.answer(item.owner, item.request, aside)


def tell(step: Step) -> None:
    """At the first start after a restore: tell the operator of it."""
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
        values |= {"copy_of": was, "set_aside": restored.aside}
    step.act(Notice("this queue manager was put back from a backup", values))


def _set_aside(step: Step) -> int:
    """Take everything out of the outgoing queues; returns how many messages are kept."""
    aside = 0
    build = ChangeBuilder(step)
    for outgoing in step.state.outgoing.values():
        talk = _is_talk(outgoing)
        for index, lane in outgoing.lanes.items():
            for first, count in lane.ranges(AWAITING, 0):
                build.move(RangeChange(Op.RELEASE, outgoing.number, index, first, count))
            for first, count in lane.ranges(AVAILABLE, 0):
                if talk:
                    build.move(RangeChange(Op.RELEASE, outgoing.number, index, first, count))
                else:
                    move = RangeChange(Op.END, outgoing.number, index, first, count, CHANGED)
                    end_range(build, move, Ending.SET_ASIDE, CHANGED)
                    aside += count
    # What is still to be told is told by the manager that the backup is of.
    for number in (ACKS_OWED, DOUBTS_KEPT):
        for index, lane in step.state.all_queues[number].lanes.items():
            for first, count in lane.ranges(AVAILABLE, 0):
                build.move(RangeChange(Op.RELEASE, number, index, first, count))
    step.record(build.change)
    return aside


def _is_talk(outgoing: OutgoingQueue) -> bool:
    """Whether an outgoing queue carries what managers say to each other, and no messages."""
    return outgoing.name.kind is Kind.PRIVATE and outgoing.name.number == ORDER_QUEUE_NUMBER


def _rename_public(step: Step, instances: tuple[bytes, ...]) -> None:
    public = [
        queue.properties
        for queue in step.state.queues.values()
        if not queue.system and not queue.properties.private
    ]
    for properties, instance in zip(public, instances, strict=True):
        step.setup(QueueSet(replace(properties, instance=instance)))
