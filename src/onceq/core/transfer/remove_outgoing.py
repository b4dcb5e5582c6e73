"""Remove single messages from an outgoing queue for an operator.

They end as those of a purge do (``core/ending/ending.py``): a message that never left is not
delivered, one that may have left is in doubt, and every report that was asked for is made. The
others stay; the next of the stream is linked to the one before the gap.

Upholds: I11, I12, I13.
"""

from __future__ import annotations

from onceq.core.ending.ending import gave_up
from onceq.core.receive.lookup import ordered
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.queues import lookup_id
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import settled_down
from onceq.errors import TransactionUsage
from onceq.model.classes import MessageClass
from onceq.model.requests import Remove


def take_out(step: Step, item: Remove, outgoing: OutgoingQueue) -> None:
    """End a range of what waits for another manager; answer how many messages that were."""
    if item.transaction:
        raise TransactionUsage(
            f"{item.queue} is an outgoing queue: what is taken out of it is gone at once, in no "
            "transaction"
        )
    build = ChangeBuilder(step)
    count = 0
    for index, lane in ordered(outgoing):
        base = lookup_id(index, 0)
        low, high = max(item.first - base, 0), item.last - base + 1
        if high <= 0:
            continue
        for state in (AVAILABLE, AWAITING):
            for first, size in lane.ranges(state, low, end=high):
                gave_up(build, outgoing, index, first, size, MessageClass.NACK_DELETED)
                count += size
    step.record(build.change)
    if count:
        settled_down(step, outgoing)
        inquire(step, outgoing)
    step.answer(item.owner, item.request, count)
