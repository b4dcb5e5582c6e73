"""The one entrance through which messages are taken out of queues, with its checks.

However a message is named, and no matter what takes it (a receive, a search, a whole transaction, a
range that was read, a move, a job, a purge), the same checks come first: whether an application has
the queue alone (Q-41), whether a transaction may take from it (RCV-11), and whether an operator has
paused it. Then ``take`` locks it for a transaction, or removes it permanently.

Two checks are made elsewhere, for all alike. Rights are judged for every request before its rule
sees it, and for a job batch by batch (``core/rights/demands.py``). And callers find only places
where no transaction holds a message.

A pause stops requests that process messages, not those that name one: operators maintain a queue
meanwhile, and a reader removes what it has written elsewhere. Subqueues, journals and the queues of
the system are never paused. The pause is a property of the queue, so it outlives a restart.

Upholds: I16 (no other request takes what is held; nothing is handed out of a paused queue).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.receive.handles import check_receive, check_sharing
from onceq.core.receive.lookup import Place
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.step.units import HeldRange, Transaction
from onceq.errors import InsufficientResources, ReceiveTimeout, TransactionUsage
from onceq.model.classes import MessageClass
from onceq.model.limits import TRANSACTION_MESSAGES_MAX
from onceq.model.requests import Receive, Seek


class Why(Enum):
    """The purpose for which messages are taken."""

    WORK = 1
    """To process what comes, no matter how the message was found: a pause stops it."""
    NAMED = 2
    """An application names messages, by their lookup identifiers or as all that are there: to
    maintain a queue, or because it has written them elsewhere."""


def why(item: Receive) -> Why:
    """Return the purpose of a receive. A lookup identifier that a loop or a search has found names
    no message: it is the position of what comes next."""
    named = item.lookup and item.seek is Seek.CURRENT and not (item.hold or item.pick)
    return Why.NAMED if named else Why.WORK


def check_receive_from(step: Step, item: Receive, queue: Queue) -> None:
    """Refuse an impossible receive or peek. Whether a pause stops it is checked when there is a
    message (``paused``), because it waits then."""
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        # A branch may be prepared, and a promise about express messages could not be kept.
        if not queue.properties.transactional and not (item.hold and tx.xid is None):
            raise TransactionUsage(
                f"{item.queue} is not transactional: it cannot be received from in a transaction; "
                "receive outside of transactions, or make another queue with transactional=True"
            )
    if item.handle or queue.handles:
        check_receive(step, queue, item)


def check_taking(
    step: Step, queue: Queue, reason: Why, *, owner: int, name: str, tx: Transaction | None = None
) -> None:
    """Refuse to take messages that were found before.

    Args:
        name: The name that the caller used for the queue.

    Raises:
        TransactionUsage: It is not transactional, and ``tx`` takes.
        SharingViolation: Another application has it alone.
        ReceiveTimeout: It is paused.
    """
    if tx is not None and not queue.properties.transactional:
        raise TransactionUsage(f"{name} is not transactional")
    check_sharing(step, queue, owner)
    if reason is Why.WORK and is_paused(queue):
        raise kept_by_pause(name)


def is_paused(queue: AnyQueue) -> bool:
    """Return whether an operator has paused a queue; a subqueue never is."""
    return isinstance(queue, Queue) and queue.properties.paused_since > 0 and not queue.sub


def paused(item: Receive, queue: AnyQueue) -> bool:
    """Return whether a pause keeps a receive from getting anything."""
    return is_paused(queue) and not item.peek and why(item) is Why.WORK


def kept_by_pause(name: str) -> ReceiveTimeout:
    """Return the answer to a receive that gets nothing from a paused queue."""
    return ReceiveTimeout(
        f"an operator has paused {name}: nothing is received from it until 'onceq queue resume'"
    )


def nothing(item: Receive, queue: AnyQueue) -> ReceiveTimeout:
    """Return the answer if there is nothing to receive, at all or until the end of the time."""
    if paused(item, queue):
        return kept_by_pause(item.queue)
    return ReceiveTimeout(f"no message in {item.queue}")


def take(
    step: Step, queue: AnyQueue, places: list[Place], tx: Transaction | None, *,
    kind: type[HeldRange] = HeldRange,
) -> None:  # fmt: skip
    """Take what is at some places: in a transaction, or permanently."""
    if tx is None:
        build = ChangeBuilder(step)
        remove(build, queue, places)
        step.record(build.change)
        return
    change = Change(step.now.wall_s)
    count = sum(place[2] for place in places)
    if tx.messages + count > TRANSACTION_MESSAGES_MAX:
        raise InsufficientResources(
            f"one transaction may hold {TRANSACTION_MESSAGES_MAX} messages; commit in smaller steps"
        )
    tx.messages += count
    for index, first, size in places:
        move = kind(Op.LOCK, queue.number, index, first, size)
        change.moves.append(move)
        tx.receives.append(move)
    step.record(change, forced=False)


def remove(
    build: ChangeBuilder, queue: AnyQueue, places: Iterable[Place], *, copied: bool = False
) -> None:
    """Add to a change that messages are received permanently."""
    for index, first, count in places:
        move = RangeChange(Op.REMOVE, queue.number, index, first, count)
        end_range(build, move, Ending.RECEIVED, MessageClass.ACK_RECEIVE, copied=copied)
