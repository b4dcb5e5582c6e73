"""Packets that are written when a branch is prepared, and not once more when it is committed.

A commit decides only the position of a message: the counter in a queue here, the number in a stream
elsewhere. A packet for a queue of this manager holds neither. So if a branch sends only to such
queues, the prepare makes its packets, with their own message numbers, and its record holds them;
the commit puts into the queues what is there already (``Put.address``), and costs some bytes for
each message instead of all of it. Numbers that a branch has taken and then does not use are never
assigned again, which breaks nothing: they identify a message, and not its position.

The commit makes packets for which it looks something up (for acknowledgments and traces), and those
that leave this manager. It also makes large ones for several queues: the record of the prepare has
their bodies once, and so has the record of the commit, which is the one that stays.

Upholds: I2, I3 (nothing is visible before the commit), I7, I20 (a promise needs less to be kept).
"""

from __future__ import annotations

from onceq.core.send.send import in_order, worth_sharing
from onceq.core.state.branch_table import StoredPackets
from onceq.core.state.queues import Queue
from onceq.core.state.records import Change
from onceq.core.step.change_builder import take_numbers
from onceq.core.step.routes import CheckedBatch, StoredBatch
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.model.requests import SendItem
from onceq.model.run import Run


def store_packets(step: Step, tx: Transaction) -> tuple[list[StoredPackets], int, int]:
    """Make the packets of a branch that is about to be recorded, if all can be made now.

    Returns:
        The packets of each batch for each of its targets; and the next message number and the next
        transaction number behind what they have taken. If they cannot be made: nothing, and zeros.
    """
    if not tx.sends or not all(map(_independent, tx.sends)):
        return [], 0, 0
    # Never recorded: the record of the branch says which numbers are taken.
    change = Change(step.now.wall_s)
    transaction, count = step.state.next_transaction, 0
    for p in tx.sends:
        count += len(p.item.bodies.lengths)
    message = take_numbers(step, change, count)
    laid: list[StoredPackets] = []
    for part in in_order(tx.sends, message):
        packets, _ = part.packets(transaction)
        laid.append(StoredPackets(packets.lengths, len(packets.data), data=packets.data))
    at = 0
    for p in tx.sends:
        bodies, end = p.item.bodies, at + len(p.targets)
        p.written = StoredBatch(message, transaction, len(bodies.data), tuple(laid[at:end]))
        at = end
        p.item = SendItem(p.item.destination, p.item.properties, Run(b"", bodies.lengths))
        message += len(bodies.lengths)
    # Their bytes are in the log from now on, and not in memory.
    step.units.stored(tx)
    return laid, change.next_message, transaction + 1


def _independent(p: CheckedBatch) -> bool:
    """Return whether its packets need nothing from the commit, which does not read them, either."""
    properties = p.item.properties
    if properties.acknowledge or properties.trace:
        return False
    for target in p.targets:
        if not isinstance(target.queue, Queue):
            return False
    return not p.one_rest or not _shared(p)


def _shared(p: CheckedBatch) -> bool:
    """Return whether a commit would write its bodies once for all its targets."""
    made, bodies = p.templates[0], p.item.bodies
    count = len(bodies.lengths)
    around = len(made.head) - made.properties + len(made.tail)
    return worth_sharing(len(bodies.data) + around * count, count)
