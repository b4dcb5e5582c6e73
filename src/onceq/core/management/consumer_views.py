"""Who works on a queue: who waits at it, has it open, or holds messages of it.

An operator sees here why messages stay in a queue that is read: which application has taken them
and has not committed, and which branch is still to be decided. Those that hold messages come first,
the oldest before the others, so that a list that is cut still has them.

Whoever may look at the queue, and not at the whole queue manager, sees what is his own.

Upholds: I24 (what is told is bounded), I28.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.core.names.resolve import find_queue
from onceq.core.rights.demands import MONITOR, whose
from onceq.core.rights.judge import may
from onceq.core.state.queues import Handle, Queue
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.model.branch import Phase
from onceq.model.limits import CONSUMERS_SHOWN_MAX
from onceq.model.requests import Look, Share
from onceq.model.views.queues import ConsumerView


@dataclass(slots=True)
class _Consumer:
    """What is known of one of them.

    Attributes:
        owner: Its connection; of a branch the one that was at work in it last.
        rests: The branch that it is, if nobody is at work in it.
        since_s: Since when it holds messages; 0: it holds none.
        branch: What the oldest transaction that holds some is a branch of; "": of none.
    """

    owner: int
    rests: Transaction | None = None
    waiting: int = 0
    handles: list[Handle] = field(default_factory=list)
    holds: int = 0
    since_s: int = 0
    branch: str = ""

    @property
    def opened_s(self) -> int:
        """When it has opened the queue; 0: it has not."""
        return self.handles[0].since_s if self.handles else 0


def consumers(step: Step, item: Look) -> list[ConsumerView]:
    """Who works on a queue: who holds messages first, then who waits, then who has it open."""
    queue = find_queue(step, item.name)
    found = _found(step, queue)
    if not may(step, item.owner, (MONITOR,)):
        own = step.known_by(item.owner)
        found = [one for one in found if _is_of(step, one) == own]
    found.sort(key=_rank)
    return [_view(step, queue, one) for one in found[:CONSUMERS_SHOWN_MAX]]


def _rank(one: _Consumer) -> tuple[int, int, int]:
    """Where it comes in the list."""
    first = 0 if one.holds else 1 if one.waiting else 2
    return first, one.since_s or one.opened_s, one.owner


def _found(step: Step, queue: Queue) -> list[_Consumer]:
    table: dict[int, _Consumer] = {}

    def of(owner: int) -> _Consumer:
        return table.setdefault(owner, _Consumer(owner))

    for owner, _ in queue.waiting:
        of(owner).waiting += 1
    for handle in queue.handles.values():
        of(handle.owner).handles.append(handle)
    resting: list[_Consumer] = []
    # What is not locked is held by nobody: most queues are looked at without the transactions.
    for tx in step.units.all() if any(lane.locked for lane in queue.lanes.values()) else ():
        count = sum(held.count for held in tx.receives if held.queue == queue.number)
        if count and tx.phase is Phase.ACTIVE:
            _holds(of(tx.owner), tx, count, tx.began_s)
        elif count:
            one = _Consumer(tx.owner, rests=tx)
            _holds(one, tx, count, _since_s(step, tx))
            resting.append(one)
    return [*table.values(), *resting]


def _holds(one: _Consumer, tx: Transaction, count: int, since_s: int) -> None:
    if not one.holds or since_s < one.since_s:
        one.since_s, one.branch = since_s, str(tx.xid) if tx.xid is not None else ""
    one.holds += count


def _since_s(step: Step, tx: Transaction) -> int:
    return step.state.branches.numbered(tx.branch).prepared_s if tx.branch else tx.began_s


def _is_of(step: Step, one: _Consumer) -> str:
    """Whose it is, as ``Step.known_by`` says it."""
    return step.known_by(one.owner) if one.rests is None else whose(step, one.rests)


def _view(step: Step, queue: Queue, one: _Consumer) -> ConsumerView:
    resting = one.rests
    by = whose(step, resting) if resting is not None else ""
    handles = one.handles
    return ConsumerView(
        queue=queue.title,
        who=by or str(step.actors.get(one.owner, "")),
        place=step.places.get(one.owner, ""),
        connection=0 if resting is not None else one.owner,
        waiting=one.waiting,
        opened=len(handles),
        access=", ".join(dict.fromkeys(held.access.name.lower() for held in handles)),
        denies="receive" if any(held.share is Share.DENY_RECEIVE for held in handles) else "",
        says=next((held.who for held in handles if held.who), ""),
        holds=one.holds,
        since=one.since_s or one.opened_s,
        branch=one.branch,
    )
