"""Units of work that are not over: of clients, and branches of external transactions.

Running tables, written by the room ``transaction``: a crash loses them, and prepared work is made
again from the durable branches. A client does not wait for the answer to its begin. So this manager
remembers for a while why it did not begin a unit of work, or ended it, and answers the next request
about it with that reason.

Also here:

* Who has queues open, waits for messages, or stands at a place in a queue.
* What has happened to messages since the start: counts, and how the last ones ended.

Upholds: I17, I24 (a bounded number of counters, of ranges and of queues, under any requests).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from onceq.core.state.client_memory import Fences, Read
from onceq.core.state.queue_tables import DAMAGED
from onceq.core.state.queues import Queue, QueueHandle
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.connections import CheckedBatch
from onceq.errors import OnceqError, TransactionOver
from onceq.model.branches import Phase, Xid
from onceq.model.marks import Now
from onceq.model.record import Record
from onceq.model.requests import Receive
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.shares import OwnerCounts

# ---- units ---------------------------------------------------------------------------------------


KEY_BYTES: Final = 32
"""Of the key of a life."""
REFUSED_MAX = 1_024
"""Remembered reasons for transactions not begun, or over; the oldest go first."""


@dataclass(slots=True)
class HeldRange(RangeChange):
    """A range that a transaction holds, and what its commit does with it.

    ``to``: move it there; ``reason``: end it so; neither: it is received.

    Attributes:
        keep: Put what ends into the dead-letter queue of this computer, too.
    """

    keep: bool = False


class CopiedRange(HeldRange):
    """A received range that the journal of its queue copies in any case. It is never promised to a
    coordinator."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GroupOver:
    """No further branch of this group is to be prepared.

    Attributes:
        by: The actor that has said so of its own branches; empty: the account that runs the
            manager, of all branches.
    """

    prefix: bytes
    by: str


@dataclass(slots=True)
class OpenTransaction:
    """A unit of work that is not decided yet; it does not survive (SND-8), unless it is a branch
    of an external transaction and prepared.

    Attributes:
        targets: Numbers of the queues to which it moves messages.
        reads: Who has read what it removes.
        xid: The branch that it is; None: it is this manager's own.
        failed: It can only be rolled back.
        doomed: Why its commit does nothing and says so: a send that was refused, or messages that
            it has taken and nobody has seen.
        branch: Number of the durable branch, once it is prepared.
        gtrid: Of the external transaction that its commit decides; empty: it decides for itself.
        partners: Who is to be told of that decision.
        used_us: When (monotonic us) something happened in it last.
        idle_us: How long nothing may happen in it; 0: without end; None: as the settings say.
        by: Whose it is while it is counted as open (``Step.known_by``); None: it is not counted.
    """

    owner: int
    number: int
    began_s: int
    sends: list[CheckedBatch] = field(default_factory=list)
    receives: list[HeldRange] = field(default_factory=list)
    targets: set[int] = field(default_factory=set)
    reads: list[Read] = field(default_factory=list)
    gtrid: bytes = b""
    bytes: int = 0
    messages: int = 0
    lifetimes: tuple[int, int] | None = None
    xid: Xid | None = None
    phase: Phase = Phase.ACTIVE
    failed: bool = False
    doomed: OnceqError | None = None
    branch: int = 0
    partners: tuple[str, ...] = ()
    used_us: int = 0
    idle_us: int | None = None
    by: str | None = None


class Units:
    """Units of work that are not over, and why others are."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[int, int], OpenTransaction] = {}
        """By owner and number: those at which somebody is at work."""
        self.open_by = OwnerCounts()
        """Whose those are that were begun, and are neither over nor prepared."""
        self.open_branches: dict[Xid, OpenTransaction] = {}
        """Transactions that are branches: at work, suspended, ended or prepared."""
        self.deciding: dict[bytes, OpenTransaction] = {}
        """Open transactions that will decide for partners, by global identifier."""
        self.telling: dict[bytes, int] = {}
        """Decisions that an application is telling to its partners, and its owner number."""
        self.refused: dict[tuple[int, int] | Xid | GroupOver, OnceqError] = {}
        """Why transactions could not be begun, or they or groups are over, for the next request
        about each."""
        self.idle_look_us = 0
        """When (monotonic us) it is looked for forgotten ones next; 0: it is not."""
        self.open_bytes = 0
        """Bytes of what open transactions will send."""
        self.promised: dict[int, int] = {}
        """Bytes that open transactions will put into queues of this manager: they count towards
        the quota at send, so that a commit never fails for it (Q-21)."""
        self.key = b""
        """With which attempts are marked (``model/branches.py``); never told, nor in a record."""
        self.fences = Fences()
        """Commits whose outcome was told as aborted."""

    def closed(self, tx: OpenTransaction) -> None:
        """It is over, or prepared."""
        if tx.by is not None:
            self.open_by.drop(tx.by)
            tx.by = None

    def all(self) -> Iterator[OpenTransaction]:
        """Every unit of work that is not over, whether anybody is at work in it or not."""
        yield from self.transactions.values()
        for tx in self.open_branches.values():
            if tx.phase is not Phase.ACTIVE:
                yield tx

    def find(self, owner: int, number: int, now: Now) -> OpenTransaction:
        """An open transaction; raises TransactionOver, or why it could not be begun."""
        tx = self.transactions.get((owner, number))
        if tx is None:
            refused = self.refused.get((owner, number))
            if refused is not None:
                raise refused
            raise TransactionOver("this transaction is over, or was never begun")
        tx.used_us = now.mono_us
        return tx

    def group_over(self, prefix: bytes, by: str) -> OnceqError | None:
        """Why somebody's branches of a group are not to be prepared; None: they may be."""
        all_of_it = self.refused.get(GroupOver(prefix, ""))
        return all_of_it or self.refused.get(GroupOver(prefix, by))

    def refuse_from_now_on(self, what: tuple[int, int] | Xid | GroupOver, why: OnceqError) -> None:
        """Answer the next request about a missing transaction or branch with this error."""
        self.refused[what] = why
        if len(self.refused) > REFUSED_MAX:
            del self.refused[next(iter(self.refused))]

    def stored(self, tx: OpenTransaction) -> None:
        """What a transaction will send is in the log, and not in memory any more."""
        self.open_bytes -= tx.bytes
        tx.bytes = 0

    def reserve(self, sends: Sequence[CheckedBatch], sign: int) -> None:
        """Count sends to local queues as promised (1), or not any more (-1)."""
        for batch in sends:
            for index, target in enumerate(batch.targets):
                if isinstance(target.queue, Queue):
                    number = target.queue.number
                    left = self.promised.get(number, 0) + sign * batch.size_at(index)
                    if left:
                        self.promised[number] = left
                    else:
                        self.promised.pop(number, None)


# ---- readers -------------------------------------------------------------------------------------


K = TypeVar("K")


@dataclass(slots=True)
class QueueCursor:
    """A reader's place in a queue; it ends with the process of this manager.

    Attributes:
        at: Lookup identifier of the message that it stands at.
        behind: Lookup identifier of the message that was just received through it; both 0: it was
            not used yet.
    """

    owner: int
    queue: int
    handle: int
    at: int = 0
    behind: int = 0
    by: str = ""
    """Whose it is (``Step.known_by``), also if its owner is somebody else by now."""


class Readers:
    """Receives that wait, and cursors and handles of queues that are open."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], Receive] = {}
        """By owner and request: receives that wait for a message."""
        self._at: dict[tuple[int, int], tuple[Queue, str]] = {}
        """The queue that each of them waits at, and who waits (``Step.known_by``)."""
        self.waits_by, self.handles_by, self.cursors_by = (
            OwnerCounts(),
            OwnerCounts(),
            OwnerCounts(),
        )
        """Whose receives, handles and cursors these are."""
        self.through: dict[int, dict[tuple[int, int], None]] = {}
        """Those that wait through a handle."""
        self.of: dict[int, dict[tuple[int, int], None]] = {}
        """Those of an owner."""
        self.handles: dict[int, QueueHandle] = {}
        self.handles_of: dict[int, dict[int, None]] = {}
        """Those of an owner."""
        self.cursors: dict[int, QueueCursor] = {}
        self.timers_kept = 0
        """Timers that were left when those of receives that are over were taken out."""
        self.next_handle = 1
        """Number of the next handle or cursor."""
        self.retries: dict[int, int] = {}
        """When (monotonic us) the next message of a queue has waited long enough in ``;retry``."""

    def opened(self, handle: QueueHandle) -> None:
        """A queue is held open; the handle has the next number."""
        number = self.next_handle
        self.handles[number] = handle
        self.handles_of.setdefault(handle.owner, {})[number] = None
        self.handles_by.add(handle.by)
        self.next_handle = number + 1

    def closed(self, number: int) -> QueueHandle:
        """A handle is given up."""
        handle = self.handles.pop(number)
        _drop(self.handles_of, handle.owner, number)
        self.handles_by.drop(handle.by)
        for cursor in list(handle.cursors):
            self.taken_away(cursor)
        return handle

    def placed(self, cursor: QueueCursor) -> int:
        """A cursor is made; its number."""
        number = self.next_handle
        self.cursors[number] = cursor
        self.handles[cursor.handle].cursors[number] = None
        self.cursors_by.add(cursor.by)
        self.next_handle = number + 1
        return number

    def taken_away(self, number: int) -> None:
        """A cursor is given up."""
        cursor = self.cursors.pop(number)
        held = self.handles.get(cursor.handle)
        if held is not None:
            del held.cursors[number]
        self.cursors_by.drop(cursor.by)

    def wait(self, queue: Queue, item: Receive, by: str) -> None:
        """A receive waits at a queue, behind all others.

        Args:
            by: Who waits (``Step.known_by``).
        """
        key = (item.owner, item.request)
        self.waiting[key] = queue.waiting[key] = item
        if item.peek:
            queue.looking[key] = item
        if item.handle:
            self.through.setdefault(item.handle, {})[key] = None
        self.of.setdefault(item.owner, {})[key] = None
        self._at[key] = queue, by
        self.waits_by.add(by)

    def queue_of(self, key: tuple[int, int]) -> Queue:
        """The queue that a receive waits at."""
        return self._at[key][0]

    def leave(self, key: tuple[int, int]) -> Receive | None:
        """A receive waits no longer; None if it did not.

        Its queue must forget it as well: nothing may come into it for years, while readers try
        again every second.
        """
        item = self.waiting.pop(key, None)
        if item is not None:
            queue, by = self._at.pop(key)
            self.waits_by.drop(by)
            del queue.waiting[key]
            queue.looking.pop(key, None)
            _drop(self.of, item.owner, key)
            if item.handle:
                _drop(self.through, item.handle, key)
        return item


def _drop(table: dict[int, dict[K, None]], one: int, key: K) -> None:
    """Forget an entry of a key, and the key with its last entry."""
    entries = table[one]
    del entries[key]
    if not entries:
        del table[one]


# ---- recent endings ------------------------------------------------------------------------------


REFUSED_HERE: Final = "messages refused"
REFUSED_THERE: Final = "messages refused by another queue manager"
LETTERS: Final = "dead letters"
OTHER: Final = "other"
"""In place of classes that only another queue manager knows."""
_KNOWN: Final = frozenset(map(int, MessageClass))


class Counts:
    """What has happened to messages since the start.

    Running tables. ``Counts`` are for metrics and the log: one number for a whole range or batch,
    written by the rooms where it happens; no rule reads them. ``RecentEndings`` answer a reader
    that comes back to a place and finds nothing there: of what ended without being received the
    last ranges of each queue are kept.

    Attributes:
        sent: By applications.
        accepted: From other queue managers.
        received: By applications, for good.
        returned: Received by a transaction that gave them back.
        acknowledged: Taken over by another queue manager.
        resent: Transmitted once more.
        ended: Those that ended otherwise, by message class.
        refused: Requests, by the code of the error.
        reports_dropped: Trace reports that no report queue has taken: it is full, or nobody can say
            now where it is.
        noted: For each kind of log line and class, the number of messages and the queue of the
            last ones.
    """

    __slots__ = (
        "accepted", "acknowledged", "ended", "noted", "received", "refused", "reports_dropped",
        "resent", "returned", "sent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sent = self.accepted = self.received = self.returned = 0
        self.acknowledged = self.resent = self.reports_dropped = 0
        self.ended: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.noted: dict[tuple[str, int], tuple[int, str]] = {}

    def note(self, what: str, reason: int, count: int, queue: str) -> None:
        """Keep for the log what has happened to some messages.

        Args:
            what: REFUSED_HERE, REFUSED_THERE or LETTERS.
            reason: Their class; those that only another manager knows are one.
        """
        key = what, reason if reason in _KNOWN else 0
        before = self.noted.get(key)
        self.noted[key] = (before[0] if before else 0) + count, queue

    def taken(self) -> dict[tuple[str, int], tuple[int, str]]:
        """What was noted since this was asked last."""
        noted, self.noted = self.noted, {}
        return noted

    def by_class(self) -> dict[str, int]:
        """How many messages ended, by the name of the class."""
        found: Counter[str] = Counter()
        for value, count in self.ended.items():
            found[class_name(value) if value in _KNOWN else OTHER] += count
        return dict(found)


RANGES_KEPT: Final = 64
"""Of each queue. What expires or is purged in its order is one range."""
QUEUES_KEPT: Final = 1_024

_WORDS: Final[Mapping[int, str]] = {
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}
UNRECEIVED: Final = frozenset((Op.END, Op.SHIFT))
"""Operations that end what nobody has received."""


class EndedRange(Record, frozen=True):
    """Messages of a lane that ended in one way: counters ``first`` up to before ``end``."""

    lane: int
    first: int
    end: int
    how: str


class RecentEndings:
    """The last ranges of each queue that ended without being received."""

    def __init__(self) -> None:
        self._of: dict[int, deque[EndedRange]] = {}

    def note(self, move: RangeChange) -> None:
        """Messages leave their places, and are not received."""
        if move.op == Op.SHIFT:
            how = "moved"
        elif move.to == DAMAGED:
            how = "damaged"
        else:
            how = _WORDS.get(move.reason, "purged")
        kept = self._of.get(move.queue)
        if kept is None:
            if len(self._of) >= QUEUES_KEPT:
                del self._of[next(iter(self._of))]
            kept = self._of[move.queue] = deque(maxlen=RANGES_KEPT)
        first, end = move.first, move.first + move.count
        if kept:
            last = kept[-1]
            if (last.lane, last.end, last.how) == (move.lane, first, how):
                first = kept.pop().first
        kept.append(EndedRange(move.lane, first, end, how))

    def forget(self, number: int) -> None:
        """A queue is gone."""
        self._of.pop(number, None)

    def count(self, number: int, lane: int, first: int, end: int) -> dict[str, int]:
        """How many messages of a range ended in which way, as far as that is kept."""
        found: dict[str, int] = {}
        for one in self._of.get(number, ()):
            size = min(end, one.end) - max(first, one.first)
            if one.lane == lane and size > 0:
                found[one.how] = found.get(one.how, 0) + size
        return found
