"""Readers that peek at messages, write them elsewhere, and remove them when that is done.

``TakeRead`` removes what was read and remembers who has read it, in one record: the commit's, or
its own. A transaction that does so is no branch of an external one: a promise to a coordinator does
not say who has read.

Where copies are to be kept the journal must have room for them when they are taken; then the commit
keeps them, no matter what came into the journal meanwhile, because a careful reader relies on them.

Upholds: I2, I16 (what is held is held until the outcome), I24.
"""

from __future__ import annotations

from onceq.core.names.resolve import find_queue, find_source
from onceq.core.receive import entrance
from onceq.core.receive.entrance import Why, check_taking, handle_of
from onceq.core.receive.receive import range_places
from onceq.core.state.branch_table import Marks
from onceq.core.state.client_memory import Read
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.state.setups import ReaderForgotten
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.step.units import CopiedRange, HeldRange
from onceq.errors import (
    BranchState,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    TransactionUsage,
    UnsupportedAccessMode,
    UsageError,
)
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.requests import ForgetReader, Share, TakeRead

Place = tuple[int, int, int]


def take(step: Step, item: TakeRead) -> None:
    """Receive a range that was read, and remember its reader."""
    queue = _source(step, item)
    places = range_places(queue, item.first, item.last)
    if item.keep:
        _check_journal(step, item, queue, places)
    read = Read(queue.number, item.reader, item.query, item.last, item.who)
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        if tx.xid is not None:
            raise BranchState("a branch of an external transaction does not say who has read")
        if not queue.properties.transactional:
            raise TransactionUsage(f"{item.queue} is not transactional")
        entrance.take(step, queue, places, tx, kind=CopiedRange if item.keep else HeldRange)
        tx.reads.append(read)
    else:
        build = ChangeBuilder(step)
        entrance.remove(build, queue, places, copied=item.keep)
        build.change.marks = Marks(reads=(read,))
        step.record(build.change)
    step.answer(item.owner, item.request, sum(place[2] for place in places))


def _source(step: Step, item: TakeRead) -> Queue:
    queue = find_source(step, item.queue)
    if isinstance(queue, OutgoingQueue):
        raise UnsupportedAccessMode(f"{item.queue} is an outgoing queue: nobody reads it up")
    assert isinstance(queue, Queue)
    if item.handle:
        held = handle_of(step, item.owner, item.handle)
        if held.queue != queue.number or held.share is not Share.DENY_RECEIVE:
            raise InvalidHandle(f"{item.queue} is not held so that others cannot receive")
    check_taking(step, queue, Why.NAMED, owner=item.owner, name=item.queue)
    return queue


def _check_journal(step: Step, item: TakeRead, queue: Queue, places: list[Place]) -> None:
    """Raise InvalidParameter if there is no journal, InsufficientResources if it is full."""
    journal = (queue.parent or queue).journal
    if journal is None:
        raise InvalidParameter(f"{item.queue} has no journal that could keep what was read")
    quota_kb = journal.properties.quota_kb
    size = sum(queue.lanes[index].size(first, count) for index, first, count in places)
    if quota_kb < QUOTA_UNLIMITED_KB and step.holding(journal) + size > quota_kb << 10:
        raise InsufficientResources(
            f"the journal of {queue.properties.name} has no room for {size} bytes more, so nothing "
            f"is removed: raise journal_quota_kb ({quota_kb}), or purge the journal"
        )


def forget(step: Step, item: ForgetReader) -> None:
    """Forget a reader for an operator, so that it may start again."""
    queue = find_queue(step, item.queue)
    if item.reader not in step.state.readings.of(queue.number):
        raise UsageError(f"no reader {item.reader!r} of {item.queue} is remembered")
    step.setup(ReaderForgotten(queue=queue.number, reader=item.reader))
    step.answer(item.owner, item.request, None)
