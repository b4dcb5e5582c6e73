"""The consumers of a queue: those that wait at it, have it open, or hold messages of it.

An operator sees here why messages stay in a queue that is read: which application has taken them
and has not committed, and which branch is still to be decided. Consumers that hold messages come
first, the oldest before the others, so that a list that is cut still has them.

An actor that may look at the queue, and not at the whole queue manager, sees its own.

Upholds: I24 (the answer is bounded), I28.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest

from onceq.core.management.paging import LATER
from onceq.core.names.resolve import find_queue
from onceq.core.rights.demands import MONITOR, whose
from onceq.core.rights.judge import may
from onceq.core.state.queue_tables import title_of
from onceq.core.state.queues import Handle, Queue
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.model.branch import Phase
from onceq.model.limits import CONSUMERS_SHOWN_MAX, QUEUES_MEASURED_AT_ONCE
from onceq.model.requests import Look, Share
from onceq.model.views.queues import EVERY_FAILS, FAILING_SHOWN, ConsumerView
from onceq.model.views.view import copy_by_name


@dataclass(slots=True)
class _Consumer:
    """What is known of one consumer.

    Attributes:
        owner: Its connection; for a branch the connection that was last at work in it.
        rests: The branch that it is, if no connection is at work in it.
        waiting: Receives and peeks that wait.
        opened, opened_s: How often it has the queue open, and since when.
        access, denies, says: Its purpose, whether others cannot receive, and its note.
        holds: Messages that it has taken.
        since_s: Since when it holds messages; 0: it holds none.
        branch: The branch of the oldest transaction that holds some; "": none.
    """

    owner: int
    rests: Transaction | None = None
    waiting: int = 0
    opened: int = 0
    opened_s: int = 0
    access: dict[str, None] = field(default_factory=dict)
    denies: bool = False
    says: str = ""
    holds: int = 0
    since_s: int = 0
    branch: str = ""

    def has_open(self, handle: Handle) -> None:
        """Count one more handle with which it has the queue open."""
        self.opened_s = self.opened_s or handle.since_s
        self.opened += 1
        self.access[handle.access.name.lower()] = None
        self.denies = self.denies or handle.share is Share.DENY_RECEIVE
        self.says = self.says or handle.who


def consumers(step: Step, item: Look) -> object:
    """Answer the consumers of a queue: first those that hold messages, then those that wait, then
    those that have it open."""
    step.begin(_told(step, item, find_queue(step, item.name)))
    return LATER


def _told(step: Step, item: Look, queue: Queue) -> Iterator[None]:
    found = yield from _found(step, queue)
    found = [one for one in found if one.rests is None or _is_there(step, one.rests)]
    if not may(step, item.owner, (MONITOR,)):
        own = step.known_by(item.owner)
        found = [one for one in found if _is_of(step, one) == own]
    found = nsmallest(CONSUMERS_SHOWN_MAX, found, key=_rank)
    step.answer(item.owner, item.request, [_view(step, queue, one) for one in found])


def _rank(one: _Consumer) -> tuple[int, int, int]:
    """Return its position in the list."""
    first = 0 if one.holds else 1 if one.waiting else 2
    return first, one.since_s or one.opened_s, one.owner


def _found(step: Step, queue: Queue) -> Generator[None, None, list[_Consumer]]:
    table: dict[int, _Consumer] = {}

    def of(owner: int) -> _Consumer:
        return table.setdefault(owner, _Consumer(owner))

    for at, (owner, _) in enumerate(list(queue.waiting), 1):
        of(owner).waiting += 1
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    for at, handle in enumerate(list(queue.handles.values()), 1):
        of(handle.owner).has_open(handle)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    resting: list[_Consumer] = []
    # What is not locked is held by no consumer: most queues need no search of the transactions.
    held = any(lane.locked for lane in queue.lanes.values())
    for at, tx in enumerate(list(step.units.all()) if held else (), 1):
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
        if not _is_there(step, tx):
            continue
        count = sum(held.count for held in tx.receives if held.queue == queue.number)
        if count and tx.phase is Phase.ACTIVE:
            _holds(of(tx.owner), tx, count, tx.began_s)
        elif count:
            one = _Consumer(tx.owner, rests=tx)
            _holds(one, tx, count, _since_s(step, tx))
            resting.append(one)
    return [*table.values(), *resting]


def _is_there(step: Step, tx: Transaction) -> bool:
    """Return whether a prepared branch was not decided while others were examined."""
    return not tx.branch or (tx.xid is not None and step.state.branches.get(tx.xid) is not None)


def _holds(one: _Consumer, tx: Transaction, count: int, since_s: int) -> None:
    if not one.holds or since_s < one.since_s:
        one.since_s, one.branch = since_s, str(tx.xid) if tx.xid is not None else ""
    one.holds += count


def _since_s(step: Step, tx: Transaction) -> int:
    return step.state.branches.numbered(tx.branch).prepared_s if tx.branch else tx.began_s


def _is_of(step: Step, one: _Consumer) -> str:
    """Return whose it is, in the words of ``Step.known_by``."""
    return step.known_by(one.owner) if one.rests is None else whose(step, one.rests)


def _view(step: Step, queue: Queue, one: _Consumer) -> ConsumerView:
    resting = one.rests
    by = whose(step, resting) if resting is not None else ""
    return copy_by_name(
        ConsumerView,
        one,
        queue=queue.title,
        who=by or str(step.actors.get(one.owner, "")),
        place=step.places.get(one.owner, ""),
        connection=0 if resting is not None else one.owner,
        access=", ".join(one.access),
        denies="receive" if one.denies else "",
        since=one.since_s or one.opened_s,
    )


def failing(step: Step) -> Generator[None, None, tuple[dict[str, str], int]]:
    """Return some queues of which a consumer says that it can handle no message, with its words,
    and how many there are; each step examines some of the consumers."""
    found: dict[str, str] = {}
    queues: set[int] = set()
    for at, handle in enumerate(list(step.readers.handles.values()), 1):
        queue = step.state.all_queues.get(handle.queue)
        if handle.who.startswith(EVERY_FAILS) and queue is not None:
            queues.add(queue.number)
            if len(queues) <= FAILING_SHOWN:
                found[title_of(queue)] = handle.who
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    return found, len(queues)
