"""Branches, decisions and groups, as operators and coordinators see them.

An actor that may not look at the whole queue manager sees its own decisions and groups. Of a branch
that it may not decide it sees the existence, and nothing of its work: recovery takes a branch that
is not in the list for one that is over, and forgets the decision about it. A branch that was hidden
because a right was taken away would be rolled back then, although its transaction is committed.

Also here:

* The consumers of a queue: those that wait at it, have it open, or hold messages of it.
* How much waits, at a position of the log: the same number as the history gives up to there.

Upholds: I21, I28, I24 (the answer is bounded).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from heapq import merge, nsmallest
from typing import Final, TypeVar

from onceq.core.decision import HistoryWanted
from onceq.core.management.paging import LATER, PagedListing, PageOrder
from onceq.core.names import find_queue
from onceq.core.rights import MONITOR, may, to_decide, whose
from onceq.core.state.branch_table import Group
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import FIRST_NUMBER, JOURNAL_BIT, title_of
from onceq.core.state.queues import AnyQueue, Queue, QueueHandle
from onceq.core.step.step import Step
from onceq.core.step.units import OpenTransaction
from onceq.errors import InvalidParameter
from onceq.model.branches import Phase, agent_of
from onceq.model.identity import guid_text, read_number
from onceq.model.limits import CONSUMERS_SHOWN_MAX, QUEUES_MEASURED_AT_ONCE, VIEWS_AT_ONCE
from onceq.model.requests import Look, Share
from onceq.model.requests.request import quoted
from onceq.model.views.looks import BranchView, DecisionView, GroupView
from onceq.model.views.managers import TransactionView
from onceq.model.views.queues import (
    EVERY_FAILS,
    FAILING_SHOWN,
    ConsumerView,
    WaitingRow,
    WaitingView,
)
from onceq.model.views.view import copy_by_name

T = TypeVar("T")

# ---- branch views --------------------------------------------------------------------------------


def branches(step: Step, owner: int) -> list[BranchView]:
    """Return every branch: at work, ended, prepared, and decided by hand."""
    whole = may(step, owner, (MONITOR,))
    found = [
        _view_branch(step, tx) if whole or may(step, owner, to_decide(step, owner, tx))
        else replace(
            _view_branch(step, tx), messages=0, bytes=0, received=0, queues=(), destinations=()
        )
        for tx in step.units.open_branches.values()
    ]  # fmt: skip
    found += [
        BranchView(
            xid=str(b.xid),
            phase=b.by_hand.value,
            since=b.prepared_s,
            messages=0,
            bytes=0,
            received=0,
            queues=(),
            destinations=(),
            number=b.number,
            agent=agent_of(b.xid),
            at_work=False,
        )
        for b in step.state.branches
        if b.by_hand is not None
    ]
    return found


def _view_branch(step: Step, tx: OpenTransaction) -> BranchView:
    branch = step.state.branches.get(tx.xid) if tx.xid is not None else None
    found = [step.state.all_queues.get(held.queue) for held in tx.receives]
    titles = dict.fromkeys(getattr(queue, "title", "") for queue in found if queue)
    return BranchView(
        xid=str(tx.xid),
        phase=tx.phase.value,
        since=branch.prepared_s if branch is not None else tx.began_s,
        messages=sum(len(p.item.bodies) for p in tx.sends),
        bytes=sum(p.written.bytes if p.written else len(p.item.bodies.data) for p in tx.sends),
        received=sum(held.count for held in tx.receives),
        queues=tuple(titles),
        destinations=tuple(dict.fromkeys(p.item.destination for p in tx.sends)),
        number=tx.branch,
        agent=agent_of(tx.xid) if tx.xid is not None else "",
        at_work=tx.xid is not None and tx.xid.gtrid in step.units.telling,
    )


def decisions(step: Step, owner: int) -> list[DecisionView]:
    """Return commits that partners have still to learn."""
    whole, own = may(step, owner, (MONITOR,)), step.known_by(owner)
    return [
        DecisionView(
            gtrid=gtrid.decode("ascii", "backslashreplace"),
            since=made.at_s,
            partners=made.partners,
        )
        for gtrid, made in step.state.branches.decisions.items()
        if whole or made.by == own
    ]


def _own(step: Step, item: Look, by: Callable[[T], str]) -> Callable[[T], bool]:
    """Return the choice of what is one's own, for an actor that may not look at all of it."""
    whole, own = may(step, item.owner, (MONITOR,)), step.known_by(item.owner)
    return lambda one: whole or by(one) == own


GROUPS: Final[PagedListing[tuple[str, Group], GroupView]] = PagedListing(
    lambda step, item: list(step.state.groups),
    lambda step, one: copy_by_name(
        GroupView,
        one[1],
        app=one[0],
        since=one[1].at_s,
        left=sum(tx.by == one[1].by for tx in step.state.branches.of_group(one[1].prefix)),
    ),
    {"name": PageOrder(lambda step, one: (one[0],), (str,))},
    lambda step, item: _own(step, item, lambda one: one[1].by),
)
"""Applications that commit groups of branches."""


TRANSACTIONS: Final[PagedListing[OpenTransaction, TransactionView]] = PagedListing(
    lambda step, item: list(step.units.transactions.values()),
    lambda step, tx: copy_by_name(
        TransactionView, tx, sent=sum(len(p.item.bodies) for p in tx.sends),
        received=sum(move.count for move in tx.receives),
        who=str(step.actors.get(tx.owner, "")), place=step.places.get(tx.owner, ""),
    ),
    {"number": PageOrder(lambda step, tx: (tx.owner, tx.number), (int, int))},
    lambda step, item: _own(step, item, lambda tx: step.known_by(tx.owner)),
)  # fmt: skip
"""Transactions that are open."""


# ---- consumer views ------------------------------------------------------------------------------


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
    rests: OpenTransaction | None = None
    waiting: int = 0
    opened: int = 0
    opened_s: int = 0
    access: dict[str, None] = field(default_factory=dict)
    denies: bool = False
    says: str = ""
    holds: int = 0
    since_s: int = 0
    branch: str = ""

    def has_open(self, handle: QueueHandle) -> None:
        """Count one more handle with which it has the queue open."""
        self.opened_s = self.opened_s or handle.since_s
        self.opened += 1
        self.access[handle.access.name.lower()] = None
        self.denies = self.denies or handle.share is Share.DENY_RECEIVE
        self.says = self.says or handle.who


def consumers(step: Step, item: Look) -> object:
    """Answer the consumers of a queue: first those that hold messages, then those that wait, then
    those that have it open.

    An operator sees here why messages stay in a queue that is read: which application has taken
    them and has not committed, and which branch is still to be decided. Consumers that hold
    messages come first, the oldest before the others, so that a list that is cut still has them.

    An actor that may look at the queue, and not at the whole queue manager, sees its own.
    """
    step.begin(_told_consumers(step, item, find_queue(step, item.name)))
    return LATER


def _told_consumers(step: Step, item: Look, queue: Queue) -> Iterator[None]:
    found = yield from _found(step, queue)
    found = [one for one in found if one.rests is None or _is_there(step, one.rests)]
    if not may(step, item.owner, (MONITOR,)):
        own = step.known_by(item.owner)
        found = [
            one for one in found
            if own == (step.known_by(one.owner) if one.rests is None else whose(step, one.rests))
        ]  # fmt: skip
    views: list[ConsumerView] = []
    for one in nsmallest(CONSUMERS_SHOWN_MAX, found, key=_rank):
        resting = one.rests
        by = whose(step, resting) if resting is not None else ""
        views.append(
            copy_by_name(
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
        )
    step.answer(item.owner, item.request, views)


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
            branches = step.state.branches
            since_s = branches.numbered(tx.branch).prepared_s if tx.branch else tx.began_s
            _holds(one, tx, count, since_s)
            resting.append(one)
    return [*table.values(), *resting]


def _is_there(step: Step, tx: OpenTransaction) -> bool:
    """Return whether a prepared branch was not decided while others were examined."""
    return not tx.branch or (tx.xid is not None and step.state.branches.get(tx.xid) is not None)


def _holds(one: _Consumer, tx: OpenTransaction, count: int, since_s: int) -> None:
    if not one.holds or since_s < one.since_s:
        one.since_s, one.branch = since_s, str(tx.xid) if tx.xid is not None else ""
    one.holds += count


def failing(step: Step) -> Generator[None, None, tuple[dict[str, str], int]]:
    """Return some queues whose consumer says that it can handle no message, with its words, and the
    number of these queues; each step examines some of the consumers."""
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


# ---- waiting views -------------------------------------------------------------------------------


def waiting(step: Step, item: Look) -> object:
    """Answer some queues behind a number, "" for the first ones; raises InvalidParameter.

    An audit asks for it, and reads the history then. So the keeper of a history learns that a
    client waits for it (``HistoryWanted``).
    """
    last = read_number(item.name or "0")
    if last is None:
        raise InvalidParameter(f"{quoted(item.name)} is not the number of a queue")
    step.begin(_waiting(step, item, last))
    return LATER


def _waiting(step: Step, item: Look, last: int) -> Iterator[None]:
    """Find the queues in several steps, and count them in the last one."""
    more = False
    some: list[int] = []
    numbers = (step.state.queue_numbers, step.state.outgoing_numbers)
    for looked, number in enumerate(merge(*(one.behind(last) for one in numbers)), 1):
        more = len(some) == VIEWS_AT_ONCE
        if more:
            break
        queue = step.state.all_queues.get(number)
        # The history records each message of these queues when it comes and goes.
        if isinstance(queue, OutgoingQueue) or (
            isinstance(queue, Queue) and FIRST_NUMBER <= number < JOURNAL_BIT
            and queue.properties.transactional
        ):  # fmt: skip
            some.append(number)
        if not looked % QUEUES_MEASURED_AT_ONCE:
            yield
    there = filter(None, map(step.state.all_queues.get, some))
    step.act(HistoryWanted())
    step.answer(item.owner, item.request, WaitingView(
        guid_text(step.identity.guid), step.position, step.now.wall_s, tuple(map(_row, there)), more
    ))  # fmt: skip


def _row(queue: AnyQueue) -> WaitingRow:
    count = queue.unacknowledged if isinstance(queue, OutgoingQueue) else len(queue)
    return WaitingRow(queue.number, title_of(queue), count)
